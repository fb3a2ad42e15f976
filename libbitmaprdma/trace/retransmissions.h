// trace/retransmissions.h - packets that were sent again, for whatever reason: each has a counter of its own.
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
