// controller-session/secure_stream.h - one connection between a member and a controller: TLS 1.3 with a pre-shared key
// and an ephemeral exchange. So both sides prove that they know the key, and a key found later opens no old session.
// Then messages, each behind its length (4 bytes, big-endian). Both sides send a message once a second. A side that
// receives nothing for five ends the connection, also before the handshake is done. All in one thread, on Boost.Asio.
#pragma once

#include <array>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "controller-session/endpoint.h"
#include "controller-session/key_file.h"
#include "controller-session/messages.h"

namespace brdma::session {

namespace asio = boost::asio;

inline constexpr std::chrono::milliseconds kAliveInterval{1000}, kSilenceMax{5000};
inline constexpr std::size_t kUnsentMax = std::size_t{4} << 20;  // bytes: a peer that reads no more is dropped

// Keys and their TLS state. Streams keep a reference.
class SecureContext {
 public:
  // A controller's: any of these.
  explicit SecureContext(Keys keys);
  // A member's: its own.
  SecureContext(std::string name, const Key& key);
  SecureContext(const SecureContext&) = delete;
  SecureContext& operator=(const SecureContext&) = delete;

  [[nodiscard]] asio::ssl::context& tls() { return tls_; }
  [[nodiscard]] const Keys& keys() const { return keys_; }
  [[nodiscard]] bool is_member() const { return member_; }

 private:
  void prepare();
  asio::ssl::context tls_;
  Keys keys_;
  bool member_;
};

class SecureStream : public std::enable_shared_from_this<SecureStream> {
 public:
  struct Handlers {
    std::function<void(const std::string& key_name)> opened;  // the peer has proved that it knows this key
    std::function<void(Message message)> received;
    std::function<void(const std::string& reason)> closed;  // once; nothing comes afterwards
  };
  SecureStream(Protocol::socket socket, SecureContext& context);

  void start(Handlers handlers);
  void send(const Message& message);  // before it is open, or after it was closed: lost
  void close(const std::string& reason);
  void abandon();  // closes without notification: the handlers' owner is going away

 private:
  void handshake();
  void read_size();
  void read_body(std::size_t size);
  void write();
  void keep_alive();
  void expect_life();

  SecureContext& context_;
  asio::ssl::stream<Protocol::socket> stream_;
  asio::steady_timer silence_, alive_;
  Handlers handlers_;
  std::string key_name_;  // written by the handshake
  std::array<unsigned char, 4> size_{};
  std::string body_;
  std::deque<std::string> unsent_;
  std::size_t unsent_bytes_ = 0;
  bool open_ = false, closed_ = false;
};

}  // namespace brdma::session
