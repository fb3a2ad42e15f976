// fabric/switch/ecn_marks.h - a packet's ECN field when it leaves a queue (RFC 3168), with counters.
//   marked on arrival or by the queue, and the flow's translator takes over    not ECT: reported only once
//   marked by the queue                                                        CE, if its sender supports ECN
//   else                                                                       unchanged
#pragma once

#include <cstdint>

#include "fabric/routing/ip_header.h"

namespace brdma::fabric {

struct EcnMarks {
  std::uint64_t set = 0;         // CE set here
  std::uint64_t not_able = 0;    // would have been marked, but its sender does not support ECN
  std::uint64_t taken_over = 0;  // by the translator

  // `ecn`: on arrival; `marked`: by the queue.
  [[nodiscard]] std::uint8_t leave_with(std::uint8_t ecn, bool marked, bool translated) {
    if (translated) {
      ++taken_over;
      return kNotEct;
    }
    if (!marked || ecn == kCongested) return ecn;
    if (ecn == kNotEct) {
      ++not_able;
      return ecn;
    }
    ++set;
    return kCongested;
  }
};

}  // namespace brdma::fabric
