// controller-session/member.h - a switch's or host's side: keeps a session with the controller and reconnects, at first
// soon, whenever it ends. A member without a controller continues with its present state.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "controller-session/secure_stream.h"

namespace brdma::session {

class Member {
 public:
  struct Handlers {
    std::function<Message()> greeting;  // the first message of each session
    std::function<void(const Message&)> received;
    std::function<void(bool connected, const std::string& reason)> changed;  // welcomed, or the session ended
  };
  // The name of `keys`' only key (or "*"): see key_file.h. Throws std::invalid_argument, std::runtime_error.
  Member(asio::io_context& context, const std::string& controller, const Keys& keys, Handlers handlers);
  ~Member();

  void start() { connect(); }
  void send(const Message& message);      // without a session: lost
  void renew(const std::string& reason);  // ends the session; the next begins with another greeting
  [[nodiscard]] bool connected() const { return welcomed_; }

 private:
  void connect();
  void opened(Protocol::socket socket);
  void received(Message message);
  void ended(const std::string& reason);

  asio::io_context& context_;
  Protocol::endpoint endpoint_;
  SecureContext secure_;
  Handlers handlers_;
  asio::steady_timer retry_;
  std::chrono::milliseconds wait_;
  std::unique_ptr<Protocol::socket> connecting_;
  std::shared_ptr<SecureStream> stream_;
  std::shared_ptr<bool> living_ = std::make_shared<bool>(true);  // false: late handlers do nothing
  bool welcomed_ = false;
};

}  // namespace brdma::session
