#include "device/transmit_schedule.h"

#include <algorithm>

#include "base/datagram.h"

namespace brdma::device {

std::int16_t TransmitSchedule::turn_of(const EngineConfig& config) {
  const std::uint32_t batch = std::min<std::uint32_t>(config.segments_max, kSegmentsMax) * kLargestPayload;
  return static_cast<std::int16_t>(std::clamp(batch, kLargestPayload, kTurnBytesMax) / kWord);
}

void TransmitSchedule::end_turn(QueuePair* qp, std::uint32_t bytes, bool large, bool more) {
  if (!more) {
    qp->turn_left = 0;
    return;
  }
  const std::int32_t left = qp->turn_left - static_cast<std::int32_t>(bytes) / kWord;
  qp->turn_left = static_cast<std::int16_t>(left);
  const bool next_is_large = qp->next_is_large();
  if (left > 0 && next_is_large == large) return ready_.push_front(qp, large);
  ready_.push_back(qp, next_is_large);
}

}  // namespace brdma::device
