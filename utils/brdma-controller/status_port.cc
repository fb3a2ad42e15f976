#include "status_port.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "report.h"

namespace brdma::controller_program {
namespace {

using Json = nlohmann::ordered_json;
using ErrorCode = boost::system::error_code;
using session::Protocol;
using Acceptor = asio::basic_socket_acceptor<Protocol>;

constexpr std::size_t kQuestionMax = 8192;
constexpr std::chrono::seconds kQuestionTime{10};

bool peer_may_ask(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return false;
  return credentials.uid == ::geteuid() || credentials.uid == 0;
}

struct Answer {
  std::string text;
  bool last = false;  // of this connection
  bool stop = false;
};

Answer answer_line(const std::string& line, const Server& server) {
  const Json request = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const Json command = request.is_object() ? request.value("command", Json{}) : Json{};
  if (command == "show") return {state_json(server).dump() + "\n"};
  if (command == "stop")
    return {R"({"ok":true})"
            "\n",
            true, true};
  return {R"({"ok":false,"error":"expected {\"command\":\"show\"} or \"stop\""})"
          "\n"};
}

Answer answer_http(const std::string& request, const Server& server) {
  const bool found = request.starts_with("GET /metrics ");
  const std::string body = found ? metrics_text(server) : "GET /metrics\n";
  return {std::string(found ? "HTTP/1.1 200 OK" : "HTTP/1.1 404 Not Found") +
              "\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body,
          true};
}

// One connection: queries that end with `end`, each answered.
class Asker : public std::enable_shared_from_this<Asker> {
 public:
  using Give = Answer (*)(const std::string&, const Server&);
  Asker(asio::io_context& context, Protocol::socket socket, const Server& server, const char* end, Give give)
      : context_(context), socket_(std::move(socket)), timer_(context), server_(server), end_(end), give_(give) {}

  void read() {
    timer_.expires_after(kQuestionTime);
    timer_.async_wait([weak = weak_from_this()](ErrorCode error) {
      ErrorCode ignored;
      if (const auto self = weak.lock(); self && !error) self->socket_.close(ignored);
    });
    asio::async_read_until(socket_, asio::dynamic_buffer(input_, kQuestionMax), end_,
                           [self = shared_from_this()](ErrorCode error, std::size_t size) {
                             if (!error) self->answer(size);
                           });
  }

 private:
  void answer(std::size_t size) {
    answer_ = give_(input_.substr(0, size), server_);
    input_.erase(0, size);
    asio::async_write(socket_, asio::buffer(answer_.text), [self = shared_from_this()](ErrorCode error, std::size_t) {
      if (self->answer_.stop) return self->context_.stop();
      if (!error && !self->answer_.last) self->read();
    });
  }

  asio::io_context& context_;
  Protocol::socket socket_;
  asio::steady_timer timer_;
  const Server& server_;
  const char* end_;
  Give give_;
  std::string input_;
  Answer answer_;
};

void accept_next(asio::io_context& context, const std::shared_ptr<Acceptor>& acceptor, const Server& server,
                 const char* end, Asker::Give give) {
  acceptor->async_accept([=, &context, &server](ErrorCode error, Protocol::socket socket) {
    if (error) return;
    const bool local = socket.local_endpoint().protocol().family() == AF_UNIX;
    if (!local || peer_may_ask(socket.native_handle())) {
      std::make_shared<Asker>(context, std::move(socket), server, end, give)->read();
    }
    accept_next(context, acceptor, server, end, give);
  });
}

}  // namespace

void serve_control(asio::io_context& context, int listener, const Server& server) {
  accept_next(context, std::make_shared<Acceptor>(context, Protocol(AF_UNIX, 0), listener), server, "\n", answer_line);
}

void serve_metrics(asio::io_context& context, const std::string& text, const Server& server) {
  const Protocol::endpoint endpoint = session::parse_endpoint(text);
  const auto acceptor = std::make_shared<Acceptor>(context);
  acceptor->open(endpoint.protocol());
  acceptor->set_option(asio::socket_base::reuse_address(true));
  acceptor->bind(endpoint);
  acceptor->listen();
  accept_next(context, acceptor, server, "\r\n\r\n", answer_http);
}

}  // namespace brdma::controller_program
