// probe/control.h - the TCP connection of a measurement: lines of JSON, and raw bytes for TCP's own figures. All that
// arrives is bounded in size, and everything ends at the deadline. Errors: StepFailed.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "io/system/file_descriptor.h"

namespace brdma::probe {

using Json = nlohmann::ordered_json;
using Address = std::array<std::uint8_t, 16>;  // as a GID: IPv4 is ::ffff:a.b.c.d

class Channel {
 public:
  using Clock = std::chrono::steady_clock;
  // Ends kLimits.seconds from now.
  explicit Channel(io::FileDescriptor connection);
  [[nodiscard]] static Channel connect(const std::string& host, const std::string& port);

  [[nodiscard]] Address own_address() const;
  [[nodiscard]] Address peer_address() const;

  void send(const Json& message);
  // An object; anything else, and a line that is too long, is an error.
  [[nodiscard]] Json receive();
  // A request and its reply; a reply with a member "error" is thrown.
  [[nodiscard]] Json ask(const Json& request);

  void send_bytes(std::span<const std::uint8_t> bytes);
  void receive_bytes(std::span<std::uint8_t> bytes);

 private:
  void wait_for(short event);
  std::size_t receive_some(void* into, std::size_t room);  // 0: nothing there
  void fill();
  io::FileDescriptor fd_;
  Clock::time_point deadline_;
  std::string pending_;  // received, not yet taken
};

// All addresses of this host, IPv4 and IPv6. Throws StepFailed.
[[nodiscard]] io::FileDescriptor listen_on(const std::string& port);

// A whole number of a peer's message within [least, most]; anything else throws StepFailed.
[[nodiscard]] std::uint64_t number_of(const Json& message, const char* key, std::uint64_t least, std::uint64_t most);
// Text of at most 200 characters, if all are printable ASCII; else empty.
[[nodiscard]] std::string word_of(const Json& message, const char* key);
// One line, with its line feed; safe for any text.
[[nodiscard]] std::string line_of(const Json& message);

}  // namespace brdma::probe
