#include "congestion/window/loss_by_queue.h"

#include <algorithm>
#include <utility>

namespace brdma::congestion {
namespace {

constexpr LossByQueueConfig kConfig;
using Wide = unsigned __int128;

}  // namespace

void LossByQueue::age(Instant now) {
  if (now - period_start_ <= kConfig.period) return;
  period_start_ = now;
  short_.halve();
  long_.halve();
  longest_ = longest_ - longest_ / kConfig.shrink_part;
}

void LossByQueue::note(Duration queue, Duration base, Instant now) {
  if (now - span_start_ > std::max(base * kConfig.span_rounds, kConfig.span)) {
    span_start_ = now;
    before_ = std::exchange(latest_, Duration{});
  }
  latest_ = std::max(latest_, queue);
}

void LossByQueue::on_delivered(std::uint64_t bytes, Duration queue, Duration base, Instant now) {
  if (!begun_) {
    begun_ = true;
    period_start_ = now;
    start_ = now + std::max(base * kConfig.start_rounds, kConfig.start_time);
  }
  note(queue, base, now);
  if (longest_ == Duration{}) return;
  age(now);
  counts().delivered += bytes;
}

bool LossByQueue::on_loss(std::uint64_t bytes, std::uint64_t packet_bytes, Instant now) {
  if (!begun_ || now < start_) return false;
  age(now);
  longest_ = std::max(longest_, recent());
  counts().lost += bytes;
  if (!is_random(packet_bytes)) return false;
  excused_ = now + kConfig.excused;
  forget();
  return true;
}

bool LossByQueue::is_random(std::uint64_t packet_bytes) const {
  if (short_.lost < kConfig.least_lost * packet_bytes || short_.lost * kConfig.least_part < short_.all()) return false;
  return Wide{long_.lost} * short_.all() <= Wide{short_.lost} * kConfig.times * long_.all();
}

}  // namespace brdma::congestion
