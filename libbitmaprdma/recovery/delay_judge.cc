#include "recovery/delay_judge.h"

#include <algorithm>

namespace brdma::recovery {

Instant DelayJudge::due(Instant sent, const Limits& limits) const {
  const Duration wait = delays_.mean() + delays_.deviation();
  return sent + (passed(sent) ? wait : std::max(wait, limits.silent_wait));
}

std::optional<Instant> DelayJudge::walk_at(const Limits& limits) const {
  const auto oldest = log_.oldest();
  if (!oldest || delays_.size() == 0 || (!passed(*oldest) && silent_ >= kSilentMax)) return std::nullopt;
  const Instant first = due(*oldest, limits);
  return walked_ ? std::max(first, *walked_ + limits.interval) : first;
}

}  // namespace brdma::recovery
