#include "requests/control.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "fabric/network.h"

namespace brdma::lab {
namespace {

using Json = nlohmann::ordered_json;
namespace asio = boost::asio;
using Stream = asio::local::stream_protocol;

constexpr std::size_t kLineMax = 64 * 1024;

bool peer_may_control(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return false;
  return credentials.uid == geteuid() || credentials.uid == 0;
}

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Stream::socket socket, asio::io_context& context, DataLoop& loop)
      : socket_(std::move(socket)), context_(context), loop_(loop) {}

  void read() {
    asio::async_read_until(socket_, asio::dynamic_buffer(input_, kLineMax), '\n',
                           [self = shared_from_this()](boost::system::error_code error, std::size_t size) {
                             if (!error) self->answer(size);
                           });
  }

 private:
  void answer(std::size_t size) {
    output_ = answer_control(input_.substr(0, size - 1), loop_, stop_) + "\n";
    input_.erase(0, size);
    asio::async_write(socket_, asio::buffer(output_),
                      [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                        if (self->stop_) return self->context_.stop();
                        if (!error) self->read();
                      });
  }

  Stream::socket socket_;
  asio::io_context& context_;
  DataLoop& loop_;
  std::string input_, output_;
  bool stop_ = false;
};

void accept_next(Stream::acceptor& acceptor, asio::io_context& context, DataLoop& loop) {
  acceptor.async_accept([&](boost::system::error_code error, Stream::socket socket) {
    if (error) return;
    if (peer_may_control(socket.native_handle())) std::make_shared<Session>(std::move(socket), context, loop)->read();
    accept_next(acceptor, context, loop);
  });
}

}  // namespace

Json failure(const std::string& error) { return {{"ok", false}, {"error", error}}; }

std::optional<std::string> take_options(const nlohmann::json& request, fabric::NetworkConfig& config) {
  const auto options = request.find("options");
  if (options == request.end() || !options->is_object()) return "set needs an object of options";
  for (const auto& [name, value] : options->items()) {
    if (!value.is_string()) return name + ": the value must be a string";
    for (const auto& option : fabric::network_options()) {
      if (option.name == name && !option.live) return name + " cannot change while the lab is up";
    }
    if (auto error = fabric::set_option(config, name, value.get<std::string>())) return error;
  }
  return fabric::check_network(config);
}

std::string answer_control(const std::string& line, DataLoop& loop, bool& stop) {
  const auto request = nlohmann::json::parse(line, nullptr, false);
  if (!request.is_object() || !request.contains("command") || !request["command"].is_string()) {
    return failure("expected an object with a command").dump();
  }
  Json reply;
  const bool ran = loop.call([&] {
    if (request["command"] == "stop") {
      stop = true;
      reply = {{"ok", true}};
      return;
    }
    try {
      reply = loop.core().answer(request, loop);
    } catch (const nlohmann::json::exception& error) {  // a field of the wrong type
      reply = failure(error.what());
    }
  });
  if (!ran) reply = failure("the switch is ending");
  return reply.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void serve_control(int listener, DataLoop& loop) {
  asio::io_context context{1};
  Stream::acceptor acceptor{context, Stream{}, listener};
  asio::signal_set signals{context, SIGTERM, SIGINT};
  signals.async_wait([&](boost::system::error_code, int) { context.stop(); });
  accept_next(acceptor, context, loop);
  context.run();
  loop.stop();
}

}  // namespace brdma::lab
