// bitmap/path_bitmap.h - PBM_k (design BR-29): which PSNs of the receive window came on one path. It lies beside
// the global bitmap, over the same PSN space. It knows no gaps: a PSN that did not come on this path may have been sent
// on another. Memory follows the range from the base to the highest PSN of the path, as the global bitmap's does.
//
// The owner marks PSNs at or beyond the base of its window, and forgets those that the base passes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/psn.h"
#include "bitmap/segmented_bits.h"

namespace brdma::bitmap {

class PathBitmap {
 public:
  // `pool` outlives the bitmap.
  PathBitmap(const WindowShape& shape, SegmentPool& pool) : bits_(shape, pool) {}

  // [first, first + count) came on this path. `base` of the receive window; no PSN of the range lies before it.
  void receive(Psn base, Psn first, std::uint32_t count);
  // The base passes [base, base + count).
  void forget(Psn base, std::uint32_t count) {
    if (set_ != 0) forget_set(base, count);
  }
  void clear();
  // How many PSNs beyond `psn` came, counted up to `most`. `psn` at or beyond the base.
  [[nodiscard]] std::uint32_t beyond(Psn psn, std::uint32_t most) const;
  [[nodiscard]] bool has(Psn psn) const { return set_ != 0 && distance(newest_, psn) >= 0 && bits_.test(psn); }
  [[nodiscard]] bool empty() const { return set_ == 0; }
  [[nodiscard]] std::uint32_t marked() const { return set_; }
  // The highest PSN that is marked. Precondition: not empty().
  [[nodiscard]] Psn newest() const { return newest_; }
  [[nodiscard]] std::size_t allocated_bytes() const { return bits_.allocated_bytes(); }

 private:
  void forget_set(Psn base, std::uint32_t count);

  std::uint32_t set_ = 0;  // bits set
  Psn newest_;
  SegmentedBits bits_;  // set bits only from the base to newest_
};

}  // namespace brdma::bitmap
