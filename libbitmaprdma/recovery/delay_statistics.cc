#include "recovery/delay_statistics.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::recovery {
namespace {

// The largest integer whose square is not above `value`, a digit at a time.
std::uint64_t square_root(unsigned __int128 value) {
  unsigned __int128 root = 0, digit = static_cast<unsigned __int128>(1) << 126;
  while (digit > value) digit >>= 2;
  for (; digit != 0; digit >>= 2) {
    if (value >= root + digit) {
      value -= root + digit;
      root = (root >> 1) + digit;
    } else {
      root >>= 1;
    }
  }
  return static_cast<std::uint64_t>(root);
}

}  // namespace

DelayStatistics::DelayStatistics(std::size_t count) : delays_(count) { BRDMA_CHECK(count > 0); }

void DelayStatistics::add(Duration delay) {
  const auto ns = static_cast<std::uint64_t>(std::clamp(delay, Duration{}, kDelayMax).ns());
  std::uint64_t& slot = delays_[next_];
  if (size_ == delays_.size()) {
    sum_ -= slot;
    squares_ -= static_cast<unsigned __int128>(slot) * slot;
  } else {
    ++size_;
  }
  slot = ns;
  sum_ += ns;
  squares_ += static_cast<unsigned __int128>(ns) * ns;
  next_ = next_ + 1 == delays_.size() ? 0 : next_ + 1;
  deviation_known_ = false;
}

Duration DelayStatistics::mean() const {
  return size_ == 0 ? Duration{} : Duration::from_ns(static_cast<std::int64_t>(sum_ / size_));
}

// sqrt(E[x^2] - E[x]^2), both times n^2 so that nothing is rounded before the root.
Duration DelayStatistics::deviation() const {
  if (size_ == 0) return {};
  if (!deviation_known_) {
    const unsigned __int128 spread = squares_ * size_ - static_cast<unsigned __int128>(sum_) * sum_;
    deviation_ = Duration::from_ns(static_cast<std::int64_t>(square_root(spread) / size_));
    deviation_known_ = true;
  }
  return deviation_;
}

}  // namespace brdma::recovery
