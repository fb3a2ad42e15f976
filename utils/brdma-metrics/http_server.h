// brdma-metrics/http_server.h - answers GET /metrics over TCP or a Unix socket; one thread, one request a connection.
// A stranger can neither stall nor crash it:
//   kConnectionsMax connections; one more takes the place of the oldest one of the peer that has the most
//   kRequestTime for the whole request, kRequestMax bytes of it, no body; kReplyTime for the whole reply
//   one reply in memory, shared by all connections (collector.h)
// Replies: 200; 400 no HTTP, or with a body; 404; 405 neither GET nor HEAD; 431 too long.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>

namespace brdma::metrics {

namespace asio = boost::asio;
using Protocol = asio::generic::stream_protocol;

inline constexpr std::size_t kConnectionsMax = 32, kRequestMax = 4096;
inline constexpr std::chrono::seconds kRequestTime{5}, kReplyTime{10};

class Connection;

class HttpServer {
 public:
  using Text = std::function<std::shared_ptr<const std::string>()>;

  // `text`: the body of /metrics, called for each request.
  HttpServer(asio::io_context& context, Text text);
  ~HttpServer();

  // Once. Throws boost::system::system_error. A Unix socket that nobody listens at any more is replaced.
  void listen(const Protocol::endpoint& endpoint);

 private:
  void accept_next();
  void admit(Protocol::socket socket);
  void make_room();

  asio::io_context& context_;
  asio::basic_socket_acceptor<Protocol> acceptor_;
  asio::steady_timer pause_;  // before the next accept() after one that failed: no descriptors left
  Text text_;
  std::list<std::weak_ptr<Connection>> connections_;  // oldest first; those that ended are dropped when one comes
};

}  // namespace brdma::metrics
