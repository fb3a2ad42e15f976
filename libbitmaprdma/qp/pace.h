// qp/pace.h - what leaves at a rate (congestion/rate_control.h): whatever `poll` adds to the batch is bounded by what
// the rate allows now, and charged to it with its Ethernet, IP and UDP headers. New packets and those sent again alike;
// acknowledgements and other control packets are neither bounded nor charged.
#pragma once

#include "congestion/rate_control.h"
#include "qp/transmit_batch.h"

namespace brdma::qp {

template <class Poll>
bool paced(congestion::RateControl* rate, TransmitBatch& batch, Instant now, const Poll& poll) {
  if (rate == nullptr) [[likely]]
    return poll();
  const std::uint64_t allowed = rate->allowance(now);
  if (allowed == 0) return false;
  const std::size_t before = batch.wire_bytes();
  batch.limit(allowed);
  const bool added = poll();
  batch.lift_limit();
  if (const std::size_t bytes = batch.wire_bytes() - before; bytes > 0) rate->on_sent(bytes, now);
  return added;
}

}  // namespace brdma::qp
