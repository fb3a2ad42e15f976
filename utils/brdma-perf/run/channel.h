// run/channel.h - the TCP connection of a client and a server: JSON messages (values/frame.h), each wait bounded.
//
// A peer may send anything: a message that is none, or too many bytes, is an error of this connection alone.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "run/loop.h"
#include "values/frame.h"

namespace brdma::perf {

class Channel {
 public:
  static constexpr std::int64_t kAnswerTime = 20'000'000'000;  // ns

  // Connects; tries again until `time` ns have passed while nobody listens. Throws RunError.
  Channel(Loop& loop, const std::string& address, std::uint16_t port, std::int64_t time);
  Channel(Loop& loop, asio::ip::tcp::socket socket);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  void send(const Json& json);  // throws RunError
  // The next message; one with "error" is thrown as RunError, as is a closed connection or no message until `deadline`.
  // A signal ends the wait too, unless it is `steadfast`.
  [[nodiscard]] Json receive(std::int64_t deadline, bool steadfast = false);
  // The same without waiting; for use between Loop::poll calls.
  [[nodiscard]] std::optional<Json> take();
  // A message has come, or the connection has failed.
  [[nodiscard]] bool has_news() const;

  // Without zone, IPv4 never mapped.
  [[nodiscard]] std::string local_address() const;
  [[nodiscard]] std::string peer_address() const;

 private:
  struct State;  // outlives handlers that are still queued
  void begin();
  Loop& loop_;
  std::shared_ptr<State> state_;
};

[[nodiscard]] std::string plain_address(asio::ip::address address);

}  // namespace brdma::perf
