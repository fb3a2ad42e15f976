#include "qp/loss/sent_window.h"

#include <algorithm>

namespace brdma::qp {

void SentWindow::restart(Psn first) {
  window_.reset(first);
  base_ = 0;
}

std::optional<Sequence> SentWindow::sequence_of(Psn psn) const {
  if (!window_.contains(psn)) return std::nullopt;
  return base_ + static_cast<Sequence>(distance(psn, window_.base()));
}

Sequence SentWindow::next_pending(Sequence from) const {
  return base_ + static_cast<Sequence>(distance(window_.next_pending(psn_of(from)), window_.base()));
}

std::uint32_t SentWindow::pass_acknowledged(Sequence limit) {
  const std::uint32_t passed = window_.advance(psn_of(limit));
  looked_at_ += passed;
  base_ += passed;
  return passed;
}

Sequence SentWindow::first_unreported(Sequence from, Sequence to) const {
  from = std::max(from, base_);
  if (from >= to) return to;
  const std::uint32_t passed = window_.find_unreported(psn_of(from), static_cast<std::uint32_t>(to - from));
  looked_at_ += 1 + passed / 64;
  return from + passed;
}

}  // namespace brdma::qp
