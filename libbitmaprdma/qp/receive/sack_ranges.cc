// SACK ranges: packets received beyond the bits of an acknowledgement (docs/wire.md: bitmap acknowledgement). First the
// arrivals since the acknowledgement before the last one, so that each arrival is reported twice. Then a part of
// earlier arrivals, another part each time: filled holes, and reports of lost acknowledgements. Both are bounded: the
// sender looks at each packet named.
#include <algorithm>

#include "qp/receive/responder_impl.h"

namespace brdma::qp {
namespace {

constexpr std::uint32_t kAgainPackets = 4096;  // repeated by one acknowledgement

}  // namespace

// Lists runs from `from` on; returns how many.
std::uint32_t Responder::Impl::list_ranges(Psn from, std::byte* out) {
  const std::uint32_t most = std::min<std::uint32_t>(wire::kAckRangesMax, mtu / 2 / wire::kAckRangeSize);
  std::uint32_t count = 0;
  const auto list = [&](Psn at, Psn end, std::uint32_t room) {  // [at, end): returns where it stopped
    while (count < room && distance(end, at) > 0) {
      const auto run = window.next_run(at);
      if (run.length == 0 || distance(run.start, end) >= 0) return end;
      const auto length = std::min(run.length, static_cast<std::uint32_t>(distance(end, run.start)));
      wire::emit_ack_range({run.start, length}, out + count++ * wire::kAckRangeSize);
      at = run.start + length;
    }
    return at;
  };
  const auto later = [](Psn a, Psn b) { return distance(a, b) > 0 ? a : b; };
  const Psn end = operations.before_escaped(window.highest() + 1);
  RangesReported& reported = out_of_order->ranges_reported;
  if (!reported.begun) reported = {.begun = true, .last = from, .before = from, .again = from, .again_next = from};
  const Psn fresh = later(reported.before, from);
  list(fresh, end, most - most / 4);
  // Behind the new ones, or before the bits by now: restart.
  if (distance(reported.again, from) < 0 || distance(reported.again, fresh) >= 0) reported.again = from;
  const auto left = static_cast<std::uint32_t>(std::max(distance(fresh, reported.again), 0));
  const Psn again_end = reported.again + std::min(left, kAgainPackets);
  reported.again_next = list(reported.again, distance(again_end, end) < 0 ? again_end : end, most);
  return count;
}

// The ranges have left.
void Responder::Impl::note_ranges_reported(std::uint32_t count) {
  out_of_order->ranges_reported.before = out_of_order->ranges_reported.last;
  out_of_order->ranges_reported.last = operations.before_escaped(window.highest() + 1) - 1;
  out_of_order->ranges_reported.again = out_of_order->ranges_reported.again_next;
  env.count(Counter::kAckRangesSent, count);
}

}  // namespace brdma::qp
