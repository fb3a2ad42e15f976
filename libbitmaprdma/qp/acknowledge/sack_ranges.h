// qp/acknowledge/sack_ranges.h - SACK ranges: packets received beyond the bits of an acknowledgement
// (docs/reference/wire.md: bitmap acknowledgement). First the arrivals since the acknowledgement before the last one,
// so that each arrival is reported twice. Then a part of earlier arrivals, another part each time: filled holes, and
// reports of lost acknowledgements. Both are bounded: the sender looks at each packet named.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/psn.h"
#include "bitmap/receive_window.h"

namespace brdma::qp {

class SackRanges {
 public:
  // Writes runs of [from, end) to `out`, which has room for as many as an acknowledgement has; returns how many. They
  // are reported once note_sent() follows, with the same `end`.
  [[nodiscard]] std::uint32_t list(const bitmap::ReceiveWindow& window, Psn from, Psn end, std::uint32_t mtu,
                                   std::byte* out);
  void note_sent(Psn end);
  // An acknowledgement without ranges leaves: the bits cover all.
  void restart() { begun_ = false; }

 private:
  static constexpr std::uint32_t kAgainPackets = 4096;  // repeated by one acknowledgement

  bool begun_ = false;
  Psn last_, before_;  // the highest PSN when the last one left, and the one before that
  Psn again_;          // from here on the next one repeats earlier ranges
  Psn again_next_;     // and up to here
};

}  // namespace brdma::qp
