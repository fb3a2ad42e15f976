#include "recovery/delay_judge.h"

#include <algorithm>

namespace brdma::recovery {

Instant DelayJudge::due(Instant sent, const Limits& limits) const {
  const Duration wait = delays_.mean() + delays_.deviation();
  if (passed(sent)) return sent + wait;
  const bool left_in_round = silent_rounds_ > 0 && sent >= round_began_;
  const std::uint32_t times = left_in_round || silent_rounds_ == 0 ? silent_rounds_ : silent_rounds_ - 1;
  return sent + std::max(wait, limits.silent_wait * (std::int64_t{1} << times));
}

bool DelayJudge::name_in_silence(Instant sent, Instant now) {
  if (++silent_ > kSilentMax) return false;
  if (silent_rounds_ == 0 || sent >= round_began_) {
    silent_rounds_ = std::min(silent_rounds_ + 1, kSilentDoublings);
    round_began_ = now;
  }
  return true;
}

std::optional<Instant> DelayJudge::walk_at(const Limits& limits) const {
  const auto oldest = log_.oldest();
  if (!oldest || delays_.size() == 0 || (!passed(*oldest) && silent_ >= kSilentMax)) return std::nullopt;
  const Instant first = due(*oldest, limits);
  return walked_ ? std::max(first, *walked_ + limits.interval) : first;
}

}  // namespace brdma::recovery
