// probe/measure.h - the two halves of each measurement, the same code at both ends.
#pragma once

#include <cstdint>

#include "check/probe/control.h"
#include "check/probe/verbs.h"

namespace brdma::probe {

// UD datagrams: each begins with its number.
class Datagrams {
 public:
  Datagrams(Device& device, int gid_index);
  [[nodiscard]] std::uint32_t number() const { return pair_.number(); }
  // The other end is known only after both queue pairs are made.
  void reach(const Remote& remote) { pair_.reach(remote, gid_index_); }

  struct Counts {
    std::uint32_t received = 0, reordered = 0, duplicated = 0;
  };
  // `count` of them will come, with numbers from `first` on.
  void expect(std::uint32_t count, std::uint32_t bytes, std::uint32_t first);
  // Until all have arrived, or none for `quiet`.
  [[nodiscard]] Counts count(std::chrono::milliseconds quiet);
  // Each leaves before the next is posted, so none is part of a batch, which some links take whole.
  void send(std::uint32_t count, std::uint32_t bytes, std::uint32_t first);

 private:
  void post_receive();
  void take(std::uint32_t number, Counts& counts);
  Device& device_;
  int gid_index_;
  QueuePair pair_;
  std::uint32_t posted_ = 0, next_slot_ = 0;
  std::uint32_t expected_ = 0, first_ = 0, bytes_ = 0, highest_ = 0;
  std::uint64_t seen_ = 0;  // a bit a datagram
};

// Mbit/s of WRITEs to `remote`. Throws StepFailed when one fails.
[[nodiscard]] double write_rate(QueuePair& pair, const Remote& remote);
// Median round trip of READs of 8 bytes, microseconds.
[[nodiscard]] double read_round_trip(QueuePair& pair, const Remote& remote);

// TCP: bytes of one stream; `receive_stream` returns how many came.
void send_stream(Channel& channel);
[[nodiscard]] std::uint64_t receive_stream(Channel& channel);
// One byte there and back, kLimits.reads times.
[[nodiscard]] double tcp_round_trip(Channel& channel);
void echo(Channel& channel);

}  // namespace brdma::probe
