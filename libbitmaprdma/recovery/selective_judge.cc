#include "recovery/selective_judge.h"

#include <algorithm>

namespace brdma::recovery {

void SelectiveJudge::delivered(std::uint64_t sequence, Instant sent, bool sent_again, Instant now) {
  const Duration trip = now - sent;
  // The acknowledgement of an earlier transmission, or perhaps: while no trip is known, nothing distinguishes them.
  if (sent_again && (any_ ? trip < shortest_trip_ : rule_ == Rule::kRack)) return;
  if (any_ && !sent_again && sequence < farthest_) reordering_ = true;
  shortest_trip_ = any_ ? std::min(shortest_trip_, trip) : trip;
  farthest_ = std::max(farthest_, sequence);
  if (!any_ || sent > newest_sent_ || (sent == newest_sent_ && sequence > newest_)) {
    newest_sent_ = sent;
    newest_ = sequence;
    trip_ = trip;
  }
  any_ = true;
}

SelectiveJudge::Verdict SelectiveJudge::judge(std::uint64_t sequence, Instant sent, Instant now,
                                              bool sent_again) const {
  if (rule_ == Rule::kIrn) return {.lost = any_ && !sent_again && farthest_ > sequence, .retry_at = {}};
  const bool passed = any_ && (newest_sent_ > sent || (newest_sent_ == sent && newest_ > sequence));
  if (!passed) return {};
  const bool distant = farthest_ >= sequence + kDistance;
  const Duration wait = distant && !reordering_ ? Duration{} : shortest_trip_ / kWaitShare;
  const Instant due = sent + trip_ + wait;
  if (now >= due) return {.lost = true, .retry_at = {}};
  return {.lost = false, .retry_at = due};
}

}  // namespace brdma::recovery
