#include "qp/gaps/gap_feedback.h"

#include <algorithm>

namespace brdma::qp {
namespace {

// Bound of the doubling; a measured recovery time is waited for, however long it is.
constexpr Duration kRepeatMax = 8_ms, kRecoveryMax = 2_s;

}  // namespace

void GapFeedback::on_response(const bitmap::GapRecord& gap, Instant now) {
  if (gap.feedbacks == 1) {
    round_trip_.sample(now - gap.last_feedback, now);
  } else if (gap.feedbacks > 1 && !round_trip_.has_sample()) {
    repeat_first_ = std::clamp(now - gap.first_seen, repeat_first_, kRecoveryMax);
  }
}

Duration GapFeedback::repeat_interval(std::uint16_t feedbacks, const RecoveryConfig& config) const {
  const auto doublings = static_cast<int>(FeedbackWatch::class_of(feedbacks));
  const Duration trip = round_trip_.smoothed();
  if (trip > kRepeatMax) return trip + trip / 4;
  const Duration once =
      round_trip_.has_sample() ? round_trip_.probe_timeout(config.resend_interval_min * 2) : repeat_first_;
  return std::max({trip * 2, once, std::min(once * (std::int64_t{1} << doublings), kRepeatMax)});
}

void GapFeedback::plan(OutOfOrderState& state, const RecoveryConfig& config, Instant seen) {
  FeedbackWatch& watch = state.feedback;
  look_at_unnamed(watch, config, seen);
  std::optional<Instant> first = first_repetition(state, config);
  if (watch.look || (first && seen >= *first)) {
    look_at_named(state, config, seen);
    first = first_repetition(state, config);
  }
  if (watch.unnamed && !due_) bring_forward(first, *watch.unnamed_until);
  state.watch.repeat_at = first;
}

// Many leave at once, few when they have waited.
void GapFeedback::look_at_unnamed(FeedbackWatch& watch, const RecoveryConfig& config, Instant seen) {
  if (!watch.unnamed) return;
  if (!watch.unnamed_until) watch.unnamed_until = seen + config.age_max;
  if (watch.unnamed_count >= config.ffm_threshold || seen >= *watch.unnamed_until) due_ = true;
}

std::optional<Instant> GapFeedback::first_repetition(const OutOfOrderState& state, const RecoveryConfig& config) const {
  const auto& oldest = state.feedback.oldest;
  std::optional<Instant> first;
  for (std::size_t i = 0; i < oldest.size(); ++i) {
    if (!oldest[i]) continue;
    bring_forward(first, next_naming(*oldest[i], static_cast<std::uint16_t>(i + 1), state.last_arrival, config));
  }
  return first;
}

// The oldest of those that are not due. Due ones stay in `look` until they have been named.
void GapFeedback::look_at_named(OutOfOrderState& state, const RecoveryConfig& config, Instant seen) {
  FeedbackWatch& watch = state.feedback;
  watch.oldest = {};
  watch.look = false;
  for (std::size_t i = 0; i < state.gaps.size(); ++i) {
    const bitmap::GapRecord& gap = state.gaps[i];
    ++state.gaps_looked_at;
    if (gap.state != bitmap::GapState::kPromoted || gap.feedbacks == 0) continue;
    if (is_repetition_due(gap, state.last_arrival, config, seen)) {
      due_ = watch.look = true;
    } else {
      bring_forward(watch.oldest[FeedbackWatch::class_of(gap.feedbacks)], gap.last_feedback);
    }
  }
}

}  // namespace brdma::qp
