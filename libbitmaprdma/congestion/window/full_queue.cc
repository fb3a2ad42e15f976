#include "congestion/window/full_queue.h"

#include "congestion/delay_window.h"
#include "congestion/scaled.h"
#include "congestion/window/additive.h"

namespace brdma::congestion {
namespace {

constexpr DelayWindowConfig kConfig;

// Compared with `window`, `reduced` delivers less for being smaller: more than a part of what it gave up.
bool delivers_less(const WindowSample& window, const WindowSample& reduced, std::uint64_t part, std::uint64_t whole) {
  const std::uint64_t less = window.rate - std::min(reduced.rate, window.rate);
  return scale(less, window.window, std::max<std::uint64_t>(window.rate, 1)) * whole >
         (window.window - std::min(reduced.window, window.window)) * part;
}

}  // namespace

// Loss of packets sent before the window was cut belongs to that cut.
void FullQueue::begin_cut(WindowAtSend at_send, const WindowSample& window, Instant now) {
  if (at_send != WindowAtSend::kBeforeCut) {
    const WindowSample first = at_send == WindowAtSend::kReduced ? first_ : window;  // an undo returns to the first
    *this = {};
    held_ = window;
    first_ = first;
    most_ = window.window;
    since_ = now;
  }
  dropped_ = true;
}

void FullQueue::cut_reported(std::uint64_t most) {
  reported_ = true;
  most_ = std::min(most_, most);
}

// A small window may lose two packets by chance, without being too large.
void FullQueue::cut_lost(std::uint64_t bytes, std::uint32_t packet_bytes, std::uint64_t carried, std::uint64_t least) {
  lost_ += bytes;
  const std::uint64_t much = lost_ - std::min(lost_, std::uint64_t{packet_bytes} * 2);
  const std::uint64_t less = std::clamp(much, held_.window / kConfig.full_part, held_.window / 2);
  most_ = std::min(most_, std::max({held_.window - less, least, carried - carried / kConfig.carried_part}));
}

// Random loss takes as large a part of a reduced window: although it meets half the queue, or although it alone bounds
// the delivered bytes, which then decrease. Where a standing queue is shorter than wanted, other flows may have taken
// the freed share: there, only a delivery of a quarter less is evidence.
bool FullQueue::was_random_loss(const WindowSample& reduced, bool capped) const {
  if (reduced.queue * 2 < first_.queue) return true;
  if (!capped) return delivers_less(held_, reduced, 1, 2);
  return reduced.window <= first_.window - first_.window / 4 && delivers_less(first_, reduced, 3, 4);
}

std::uint64_t FullQueue::below(std::uint64_t next, Instant now) {
  if (!is_known()) return next;
  const bool waits = dropped_ || ++rounds_ <= kConfig.full_rounds || (!reported_ && now - since_ < kConfig.full_time);
  if (!waits) {
    const std::uint64_t step = std::max(kConfig.full_step, held_.window / kConfig.full_steps);
    most_ += std::min(AdditiveConfig{}.bytes_reported << std::min(steps_, 32), step);
    if (++steps_ > kConfig.full_steps_max) *this = {};
  }
  return is_known() ? std::min(next, most_) : next;
}

}  // namespace brdma::congestion
