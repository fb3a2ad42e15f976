#include "congestion/window/queue_loss.h"

#include <algorithm>

namespace brdma::congestion {
namespace {

constexpr QueueLossConfig kConfig;
using Wide = unsigned __int128;

}  // namespace

inline void QueueLoss::age(Instant now) {
  if (now - period_start_ > kConfig.period) [[unlikely]]
    end_period(now);
}

void QueueLoss::end_period(Instant now) {
  period_start_ = now;
  at_.halve();
  if (++periods_ % kConfig.below_periods == 0) below_.halve();
  if (below_.lost * kConfig.much > below_.all()) below_ = {};
}

inline QueueLoss::Part QueueLoss::part(WindowAtSend window) const {
  if (window == WindowAtSend::kBeforeCut) return Part::kBeforeCut;
  return window == WindowAtSend::kReduced || !is_long() ? Part::kBelow : Part::kAt;
}

inline void QueueLoss::count(WindowAtSend window, std::uint64_t Counts::*what, std::uint64_t bytes) {
  const Part of = part(window);
  Counts& counts = of == Part::kAt ? at_ : of == Part::kBelow ? below_ : before_cut_;
  counts.*what += bytes;
  if (window != WindowAtSend::kReduced) [[likely]]
    return;
  reduced_.*what += bytes;
  all_reduced_.*what += bytes;
}

void QueueLoss::delivered(std::uint64_t bytes, Duration queueing, WindowAtSend window, Instant now) {
  age(now);
  begun_ = true;
  recent_ = std::max(queueing, recent_ - recent_ / 8);
  const Duration step = long_ / kConfig.long_step;
  long_ = queueing > long_ ? std::min(queueing, long_ + step * 9 + kTick) : std::max(queueing, long_ - step);
  count(window, &Counts::delivered, bytes);
}

bool QueueLoss::lost(std::uint64_t bytes, std::uint64_t packet_bytes, Duration least, WindowAtSend window,
                     Instant now) {
  age(now);
  if (!begun_) return false;
  count(window, &Counts::lost, bytes);
  if (window == WindowAtSend::kBeforeCut) return true;
  if (part(window) == Part::kBelow || long_ < least || !is_likely(packet_bytes)) return false;
  before_cut_ = at_;
  at_ = reduced_ = all_reduced_ = {};
  return true;
}

bool QueueLoss::is_likely(std::uint64_t packet_bytes) const {
  if (at_.lost < kConfig.least_lost * packet_bytes) return false;
  const Wide unseen = Wide{at_.all()} * (below_.lost + packet_bytes) * kConfig.likely_times;
  if (Wide{at_.lost} * (below_.all() + kConfig.unseen * packet_bytes) <= unseen) return false;
  const auto by_chance =
      static_cast<std::uint64_t>(Wide{at_.all()} * below_.lost / (below_.all() + kConfig.few * packet_bytes));
  if (at_.lost <= by_chance) return false;
  const std::uint64_t more = at_.lost - by_chance;
  return Wide{more} * more > Wide{by_chance} * packet_bytes * (kConfig.deviations * kConfig.deviations) &&
         more > std::min(by_chance * (kConfig.likely_times - 1), at_.all() / kConfig.likely_part);
}

bool QueueLoss::loses_as_much(std::uint64_t packet_bytes) const {
  if (before_cut_.lost == 0 || reduced_.lost < kConfig.least_lost * packet_bytes) return false;
  return Wide{before_cut_.lost} * reduced_.all() <= Wide{reduced_.lost} * before_cut_.all() * kConfig.likely_times;
}

void QueueLoss::still_too_large() {
  before_cut_ = {before_cut_.delivered + reduced_.delivered, before_cut_.lost + reduced_.lost};
  below_ = reduced_ = {};
}

}  // namespace brdma::congestion
