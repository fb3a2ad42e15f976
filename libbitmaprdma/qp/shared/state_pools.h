// qp/shared/state_pools.h - pools of the state that queue pairs have only at times: longer bitmaps, missing packets,
// losses, a peer on the same host. It comes from here and goes back here.
#pragma once

#include <cstddef>

#include "base/warm_pool.h"
#include "bitmap/segment_pool.h"
#include "qp/gaps/out_of_order.h"
#include "qp/loss/loss_recovery.h"
#include "qp/state/local_path.h"

namespace brdma::qp {

struct StatePools {
  bitmap::SegmentPool segments{};                   // of all windows
  WarmPool<OutOfOrderState> out_of_order_states{};  // of queue pairs with missing packets
  WarmPool<LossRecovery> loss_recovery{};
  BeaconPool beacons{};  // of queue pairs with peers on the same host

  // Bytes that no queue pair uses, and that are kept for the next one.
  [[nodiscard]] std::size_t free_bytes() const {
    return segments.free_bytes() + out_of_order_states.free_bytes() + loss_recovery.free_bytes();
  }
};

}  // namespace brdma::qp
