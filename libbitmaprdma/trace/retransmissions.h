// trace/retransmissions.h - retransmitted packets, for all reasons: each has its own counter.
#pragma once

#include <array>
#include <cstdint>

#include "trace/counters.h"

namespace brdma {

inline constexpr std::array kRetransmissions{Counter::kRetransmittedFfm,     Counter::kRetransmittedNak,
                                             Counter::kRetransmittedTimeout, Counter::kRetransmittedProbe,
                                             Counter::kRetransmittedAck,     Counter::kRetransmittedPath,
                                             Counter::kRetransmittedEdn,     Counter::kRetransmittedExpected,
                                             Counter::kRetransmittedWait,    Counter::kRetransmittedRequest};

[[nodiscard]] inline std::uint64_t retransmitted(const Statistics& statistics) {
  std::uint64_t sum = 0;
  for (const Counter cause : kRetransmissions) sum += statistics.get(cause);
  return sum;
}

}  // namespace brdma
