#include "qp/acknowledge/sack_ranges.h"

#include <algorithm>

#include "wire/control.h"

namespace brdma::qp {

std::uint32_t SackRanges::list(const bitmap::ReceiveWindow& window, Psn from, Psn end, std::uint32_t mtu,
                               std::byte* out) {
  const std::uint32_t most = std::min<std::uint32_t>(wire::kAckRangesMax, mtu / 2 / wire::kAckRangeSize);
  std::uint32_t count = 0;
  const auto list = [&](Psn at, Psn to, std::uint32_t room) {  // [at, to): returns where it stopped
    while (count < room && distance(to, at) > 0) {
      const auto run = window.next_run(at);
      if (run.length == 0 || distance(run.start, to) >= 0) return to;
      const auto length = std::min(run.length, static_cast<std::uint32_t>(distance(to, run.start)));
      wire::emit_ack_range({run.start, length}, out + count++ * wire::kAckRangeSize);
      at = run.start + length;
    }
    return at;
  };
  const auto later = [](Psn a, Psn b) { return distance(a, b) > 0 ? a : b; };
  if (!begun_) {
    begun_ = true;
    last_ = before_ = again_ = again_next_ = from;
  }
  const Psn fresh = later(before_, from);
  list(fresh, end, most - most / 4);
  // Behind the new ones, or before the bits by now: restart.
  if (distance(again_, from) < 0 || distance(again_, fresh) >= 0) again_ = from;
  const auto left = static_cast<std::uint32_t>(std::max(distance(fresh, again_), 0));
  const Psn again_end = again_ + std::min(left, kAgainPackets);
  again_next_ = list(again_, distance(again_end, end) < 0 ? again_end : end, most);
  return count;
}

void SackRanges::note_sent(Psn end) {
  before_ = last_;
  last_ = end - 1;
  again_ = again_next_;
}

}  // namespace brdma::qp
