// controller-session/member.h - a switch's or host's side: keeps a session with the controller, connecting again, at
// first soon, whenever it ends. Who is without a controller goes on with what it has.
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
    std::function<Message()> greeting;  // what to begin each session with
    std::function<void(const Message&)> received;
    std::function<void(bool connected, const std::string& reason)> changed;  // welcomed, or the session ended
  };
  // The name that `keys`' only key has (or "*"): see key_file.h. Throws std::invalid_argument, std::runtime_error.
  Member(asio::io_context& context, const std::string& controller, const Keys& keys, Handlers handlers);
  ~Member();

  void start() { connect(); }
  void send(const Message& message);      // without a session: gone
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
  std::shared_ptr<bool> living_ = std::make_shared<bool>(true);  // false: handlers that still come find nobody
  bool welcomed_ = false;
};

}  // namespace brdma::session
