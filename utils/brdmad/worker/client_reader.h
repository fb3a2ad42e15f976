// brdmad/worker/client_reader.h - reads a client's connection at the pace that its user's account allows, and buffers
// unused input up to the account's limit.
#pragma once

#include <sys/socket.h>

#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "worker/user_accounts.h"

namespace brdma::daemon {

class ClientReader {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;
  ClientReader(Socket& socket, UserAccounts& accounts, std::uint32_t uid)
      : socket_(socket), timer_(socket.get_executor()), accounts_(accounts), uid_(uid), held_(accounts, uid) {}

  std::string input;

  // Then calls `then(error)`, once. `error` is set at the connection's end, or when the user has reached its memory
  // limit. `owner` has this and lives until then.
  template <class Owner, class Then>
  void read(std::shared_ptr<Owner> owner, Then then) {
    const auto pause = accounts_.pause(uid_, UserAccounts::Clock::now());
    if (pause > pause.zero()) {
      timer_.expires_after(pause);
      timer_.async_wait([this, owner = std::move(owner), then](ErrorCode error) {
        if (error) return then(error);
        read(owner, then);
      });
      return;
    }
    socket_.async_wait(Socket::wait_read, [this, owner = std::move(owner), then](ErrorCode error) {
      if (error) return then(error);
      if (accounts_.pause(uid_, UserAccounts::Clock::now()) > UserAccounts::Clock::duration{}) return read(owner, then);
      take(owner, then);
    });
  }

  // The same without reading, for input that is buffered already.
  template <class Owner, class Then>
  void go_on(std::shared_ptr<Owner> owner, Then then) {
    const auto pause = accounts_.pause(uid_, UserAccounts::Clock::now());
    timer_.expires_after(pause);
    timer_.async_wait([this, owner = std::move(owner), then](ErrorCode error) {
      const WorkFor work{accounts_, uid_};
      then(error);
    });
  }

 private:
  using ErrorCode = boost::system::error_code;
  static constexpr std::size_t kReadBytes = 16 * 1024;

  template <class Owner, class Then>
  void take(const std::shared_ptr<Owner>& owner, Then then) {
    const WorkFor work{accounts_, uid_};
    std::array<char, kReadBytes> bytes;
    const ssize_t got = ::recv(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return read(owner, then);
    if (got <= 0) return then(boost::asio::error::eof);
    input.append(bytes.data(), static_cast<std::size_t>(got));
    if (!held_.set(input.capacity())) return then(boost::asio::error::no_memory);
    then(ErrorCode{});
    if (input.empty()) std::string{}.swap(input);
    static_cast<void>(held_.set(input.capacity()));
  }

  Socket& socket_;
  boost::asio::steady_timer timer_;
  UserAccounts& accounts_;
  std::uint32_t uid_;
  BytesFor held_;
};

}  // namespace brdma::daemon
