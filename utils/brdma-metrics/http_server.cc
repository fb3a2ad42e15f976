#include "http_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_static_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

namespace brdma::metrics {
namespace {

namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;

constexpr std::string_view kTextType = "text/plain; version=0.0.4; charset=utf-8";

// Who is at the other end: its address, or its user. Empty: it has gone.
std::string peer_of(Protocol::socket& socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  ErrorCode error;
  const Protocol::endpoint peer = socket.remote_endpoint(error);
  if (error) return {};
  if (peer.protocol().family() == AF_UNIX) {
    if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return {};
    return std::to_string(credentials.uid);
  }
  asio::ip::tcp::endpoint address;
  if (peer.size() > address.capacity()) return {};
  std::copy_n(static_cast<const char*>(static_cast<const void*>(peer.data())), peer.size(),
              static_cast<char*>(static_cast<void*>(address.data())));
  return address.address().to_string();
}

std::string head_of(std::string_view status, std::size_t bytes) {
  return "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: " + std::string(kTextType) +
         "\r\nConnection: close\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n";
}

std::string_view status_of(ErrorCode error) {
  return error == http::error::header_limit || error == http::error::buffer_overflow
             ? "431 Request Header Fields Too Large"
             : "400 Bad Request";
}

bool is_from_peer(ErrorCode error) {
  return error.category() == http::make_error_code(http::error::bad_method).category();
}

}  // namespace

// One request and its reply.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::io_context& context, Protocol::socket socket, const HttpServer::Text& text)
      : socket_(std::move(socket)), timer_(context), text_(text), peer_(peer_of(socket_)) {
    parser_.header_limit(static_cast<std::uint32_t>(kRequestMax));
  }

  [[nodiscard]] const std::string& peer() const { return peer_; }

  void read() {
    close_after(kRequestTime);
    http::async_read(socket_, buffer_, parser_, [self = shared_from_this()](ErrorCode error, std::size_t) {
      if (!error) return self->answer();
      if (is_from_peer(error) && error != http::error::end_of_stream) return self->reply(status_of(error), {});
      self->close();
    });
  }

  void close() {
    ErrorCode ignored;
    timer_.cancel();
    socket_.close(ignored);
  }

 private:
  void close_after(std::chrono::seconds time) {
    timer_.expires_after(time);
    timer_.async_wait([weak = weak_from_this()](ErrorCode error) {
      if (const auto self = weak.lock(); self && !error) self->close();
    });
  }

  void answer() {
    const auto& request = parser_.get();
    is_head_ = request.method() == http::verb::head;
    if (!is_head_ && request.method() != http::verb::get) return reply("405 Method Not Allowed", {});
    const std::string target{request.target().data(), request.target().size()};
    if (target.substr(0, target.find('?')) != "/metrics") return reply("404 Not Found", {});
    reply("200 OK", text_());
  }

  // Without `text`: the status is the body.
  void reply(std::string_view status, std::shared_ptr<const std::string> text) {
    if (text == nullptr) {
      text = std::make_shared<const std::string>(std::string(status) + "; the metrics are at /metrics\n");
    }
    body_ = std::move(text);
    head_ = head_of(status, body_->size());
    close_after(kReplyTime);
    const std::array<asio::const_buffer, 2> parts{
        asio::buffer(head_), asio::buffer(is_head_ ? std::string_view{} : std::string_view{*body_})};
    asio::async_write(socket_, parts, [self = shared_from_this()](ErrorCode, std::size_t) {
      ErrorCode ignored;
      self->socket_.shutdown(Protocol::socket::shutdown_send, ignored);
      self->close();
    });
  }

  Protocol::socket socket_;
  asio::steady_timer timer_;
  const HttpServer::Text& text_;
  std::string peer_;
  boost::beast::flat_static_buffer<2 * kRequestMax> buffer_;
  http::request_parser<http::empty_body> parser_;
  bool is_head_ = false;
  std::string head_;
  std::shared_ptr<const std::string> body_;
};

namespace {

// A socket's file that is left over. Never another file: connecting to one is refused too.
bool nobody_listens(const Protocol::endpoint& endpoint, const char* path, asio::io_context& context) {
  struct stat status {};
  if (::stat(path, &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  Protocol::socket probe{context};
  ErrorCode error;
  probe.open(endpoint.protocol(), error);
  if (!error) probe.connect(endpoint, error);
  return error == asio::error::connection_refused;
}

// The file of a Unix socket; nullptr: TCP, or an abstract one.
const char* path_of(const Protocol::endpoint& endpoint) {
  if (endpoint.protocol().family() != AF_UNIX) return nullptr;
  const auto* const path = static_cast<const char*>(static_cast<const void*>(endpoint.data())) + sizeof(sa_family_t);
  return *path == '\0' ? nullptr : path;
}

}  // namespace

HttpServer::HttpServer(asio::io_context& context, Text text)
    : context_(context), acceptor_(context), pause_(context), text_(std::move(text)) {}

HttpServer::~HttpServer() {
  if (!acceptor_.is_open()) return;
  ErrorCode error;
  const Protocol::endpoint own = acceptor_.local_endpoint(error);
  if (const char* const path = error ? nullptr : path_of(own)) ::unlink(path);
}

void HttpServer::listen(const Protocol::endpoint& endpoint) {
  acceptor_.open(endpoint.protocol());
  const char* const path = path_of(endpoint);
  if (path == nullptr) {
    acceptor_.set_option(asio::socket_base::reuse_address(true));
  } else if (nobody_listens(endpoint, path, context_)) {
    ::unlink(path);
  }
  ErrorCode error;
  acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(static_cast<int>(kConnectionsMax), error);
  if (error) {
    acceptor_.close();  // not ours to remove
    throw boost::system::system_error(error);
  }
  accept_next();
}

void HttpServer::accept_next() {
  acceptor_.async_accept([this](ErrorCode error, Protocol::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) admit(std::move(socket));
    pause_.expires_after(std::chrono::milliseconds{error ? 100 : 0});
    pause_.async_wait([this](ErrorCode stopped) {
      if (!stopped) accept_next();
    });
  });
}

void HttpServer::admit(Protocol::socket socket) {
  make_room();
  const auto connection = std::make_shared<Connection>(context_, std::move(socket), text_);
  if (connection->peer().empty()) return;  // gone already
  connections_.push_back(connection);
  connection->read();
}

void HttpServer::make_room() {
  connections_.remove_if([](const std::weak_ptr<Connection>& each) { return each.expired(); });
  if (connections_.size() < kConnectionsMax) return;
  std::map<std::string, std::size_t> of_peer;
  for (const auto& each : connections_) {
    if (const auto connection = each.lock()) ++of_peer[connection->peer()];
  }
  const auto most = std::max_element(of_peer.begin(), of_peer.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto oldest = std::find_if(connections_.begin(), connections_.end(), [&most](const auto& each) {
    const auto connection = each.lock();
    return connection != nullptr && connection->peer() == most->first;
  });
  if (const auto connection = oldest->lock()) connection->close();
  connections_.erase(oldest);
}

}  // namespace brdma::metrics
