#include "congestion/queue_loss.h"

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

inline QueueLoss::Part QueueLoss::part(LeftWith window) const {
  if (window == LeftWith::kTooMuch) return Part::kJudged;
  return window == LeftWith::kLess || !is_long() ? Part::kBelow : Part::kAt;
}

inline void QueueLoss::count(LeftWith window, std::uint64_t Counts::*what, std::uint64_t bytes) {
  const Part of = part(window);
  Counts& counts = of == Part::kAt ? at_ : of == Part::kBelow ? below_ : judged_;
  counts.*what += bytes;
  if (window != LeftWith::kLess) [[likely]]
    return;
  less_.*what += bytes;
  all_less_.*what += bytes;
}

void QueueLoss::delivered(std::uint64_t bytes, Duration queueing, LeftWith window, Instant now) {
  age(now);
  begun_ = true;
  lately_ = std::max(queueing, lately_ - lately_ / 8);
  const Duration step = long_ / kConfig.long_step;
  long_ = queueing > long_ ? std::min(queueing, long_ + step * 9 + kTick) : std::max(queueing, long_ - step);
  count(window, &Counts::delivered, bytes);
}

bool QueueLoss::lost(std::uint64_t bytes, std::uint64_t packet_bytes, Duration least, LeftWith window, Instant now) {
  age(now);
  if (!begun_) return false;
  count(window, &Counts::lost, bytes);
  if (window == LeftWith::kTooMuch) return true;
  if (part(window) == Part::kBelow || long_ < least || !is_likely(packet_bytes)) return false;
  judged_ = at_;
  at_ = less_ = all_less_ = {};
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

bool QueueLoss::is_no_less(std::uint64_t packet_bytes) const {
  if (judged_.lost == 0 || less_.lost < kConfig.least_lost * packet_bytes) return false;
  return Wide{judged_.lost} * less_.all() <= Wide{less_.lost} * judged_.all() * kConfig.likely_times;
}

void QueueLoss::was_too_much() {
  judged_ = {judged_.delivered + less_.delivered, judged_.lost + less_.lost};
  below_ = less_ = {};
}

}  // namespace brdma::congestion
