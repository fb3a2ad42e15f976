// recovery/delay_statistics.h - mean and standard deviation of the last N delays (design WT-4). Integers only,
// exact; a sample costs the same whatever N is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace brdma::recovery {

class DelayStatistics {
 public:
  static constexpr Duration kDelayMax = Duration::from_ns(std::int64_t{1} << 36);  // 68 s; longer ones count as that

  explicit DelayStatistics(std::size_t count);  // N, 1 or more

  void add(Duration delay);
  [[nodiscard]] std::size_t size() const { return size_; }  // of N
  [[nodiscard]] Duration mean() const;                      // 0: nothing added
  [[nodiscard]] Duration deviation() const;                 // rounded down
  [[nodiscard]] std::size_t allocated_bytes() const { return delays_.capacity() * sizeof(std::uint64_t); }

 private:
  std::vector<std::uint64_t> delays_;  // ns, a ring
  std::size_t next_ = 0, size_ = 0;
  std::uint64_t sum_ = 0;
  unsigned __int128 squares_ = 0;
  mutable Duration deviation_{};  // computed once an acknowledgement, not once a sample
  mutable bool deviation_known_ = false;
};

}  // namespace brdma::recovery
