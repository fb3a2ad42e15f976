// fabric/switch/ecn_marks.h - with which ECN field a packet leaves a queue (RFC 3168), and how often which.
//   it came marked, or the queue marks it, and the flow's translator takes the mark over    not ECT: told once only
//   the queue marks it                                                                      CE, if its sender knows ECN
//   else                                                                                    as it came
#pragma once

#include <cstdint>

#include "fabric/routing/ip_header.h"

namespace brdma::fabric {

struct EcnMarks {
  std::uint64_t set = 0;         // CE set here
  std::uint64_t not_able = 0;    // would have been marked, but its sender knows nothing of ECN
  std::uint64_t taken_over = 0;  // by the translator

  // `ecn`: as the packet came; `marked`: by the queue.
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
