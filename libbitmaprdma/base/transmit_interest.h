// base/transmit_interest.h - who wants to send, and how urgently: one ordered value, given by each part that has output
// and merged by the greater. A driver asks nothing else before it decides to send now or later.
#pragma once

#include <cstdint>

namespace brdma {

// Each level includes those below it: with kNewData there may also be an acknowledgement to send.
enum class TransmitInterest : std::uint8_t {
  kNone,            // nothing to send before the next event or deadline
  kDeferrable,      // an acknowledgement that is due, and may wait until the driver's next call, or its own deadline
  kNewData,         // requests that have not been sent before, and nobody waits for
  kResponse,        // READ responses, atomic responses
  kRetransmission,  // packets that were lost, or are sent again to find out
  kForced,          // must leave now: an acknowledgement that cannot wait, feedback, NAK, negotiation, probes
};

[[nodiscard]] constexpr TransmitInterest merge(TransmitInterest one, TransmitInterest other) {
  return one < other ? other : one;
}

}  // namespace brdma
