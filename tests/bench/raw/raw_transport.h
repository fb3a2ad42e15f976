// tests/bench/raw/raw_transport.h - the minimal reliable transport of 64-byte WRITEs, without sockets. A packet has
// headers with its connection and address, its payload and the ICRC (wire/crc/icrc.h: the library's code). The other
// end checks the ICRC, the order and the right to write, and copies; it sends an acknowledgement per connection for
// each run. The sender has a window entry, a deadline and a completion for each message. Left out: loss recovery,
// congestion, credits, gaps, all other operations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "wire/crc/icrc.h"

namespace raw {

using brdma::ConstBytes;

constexpr std::size_t kBth = 12, kReth = 16, kAeth = 4, kIcrc = 4;
constexpr std::size_t kPayload = 64, kPacket = kBth + kReth + kPayload + kIcrc, kAck = kBth + kAeth + kIcrc;
constexpr std::size_t kSegmentsMax = 64;  // per system call: works on every Linux with UDP_SEGMENT

struct Completion {
  std::uint64_t id = 0;
  std::uint32_t connection = 0, bytes = 0;
};

// The end that WRITEs. Its connections take turns.
class Requester {
 public:
  // `depth`: messages of one connection in flight; `far`: bytes of memory at the other end.
  Requester(std::size_t connections, std::size_t depth, std::size_t far);
  // Packets of `count` messages, one after the other, into `out`.
  void build(std::size_t count, std::uint64_t now_ns, std::byte* out);
  // Acknowledgements, one after the other: completes the acknowledged messages.
  void take(ConstBytes acknowledgements, std::uint64_t now_ns);
  // The program's side: reads the completions, returns their number.
  [[nodiscard]] std::size_t poll();
  [[nodiscard]] std::uint64_t refused() const { return refused_; }  // damaged, or of nothing in flight

 private:
  struct Connection {
    std::uint32_t peer = 0, rkey = 0;
    std::uint32_t next = 0, base = 0;  // PSNs: of the next packet, of the first one in flight
    std::uint64_t deadline_ns = 0;     // of the packet at the base
    std::uint64_t place = 0;           // write address
  };
  struct Entry {  // of the window
    std::uint64_t id = 0;
    std::uint32_t bytes = 0, psn = 0;
  };
  static std::size_t power_of_two(std::size_t at_least);

  std::vector<std::byte> memory_;  // of the program: the outgoing data
  std::vector<Connection> connections_;
  std::size_t depth_;
  std::vector<Entry> windows_;  // of each connection `depth_`
  std::vector<Completion> completions_;
  std::size_t completed_ = 0, polled_ = 0;  // since the beginning
  std::size_t turn_ = 0;
  std::uint64_t id_ = 0, refused_ = 0, seen_ = 0;
  brdma::wire::IcrcFlow flow_;
};

// The end that is written to.
class Responder {
 public:
  Responder(std::size_t connections, std::size_t memory);
  // Packets, one after the other; the acknowledgements that they request go into `out`, at most as many as packets.
  // Returns their number.
  [[nodiscard]] std::size_t take(ConstBytes packets, std::byte* out);
  [[nodiscard]] std::uint64_t refused() const { return refused_; }  // damaged, out of order, without right

 private:
  struct Connection {
    std::uint32_t peer = 0, expected = 0, message = 0, rkey = 0;
    std::uint64_t place = 0, bytes = 0;  // memory that it may write
  };
  void acknowledge(const Connection& connection, std::byte* out) const;

  std::vector<std::byte> memory_;
  std::vector<Connection> connections_;
  std::uint64_t refused_ = 0;
  brdma::wire::IcrcFlow flow_;
};

}  // namespace raw
