#include "bitmap/path_bitmap.h"

#include <bit>

namespace brdma::bitmap {

void PathBitmap::receive(Psn base, Psn first, std::uint32_t count) {
  const Psn last = first + (count - 1);
  if (set_ == 0 || distance(last, newest_) > 0) newest_ = last;
  set_ += bits_.set_range(base, first, count);
}

void PathBitmap::forget_set(Psn base, std::uint32_t count) {
  const auto held = static_cast<std::uint32_t>(distance(newest_, base) + 1);  // bits are set, so at least one
  const std::uint32_t here = std::min(count, held);
  for (std::uint32_t i = 0; i < here; ++i) {
    if (!bits_.test(base + i)) continue;
    bits_.clear(base + i);
    --set_;
  }
  if (set_ == 0) {
    bits_.release(base, held);
  } else {
    bits_.leave(base, base + count, held - count);
  }
}

void PathBitmap::clear() {
  bits_.clear_all();
  set_ = 0;
}

std::uint32_t PathBitmap::beyond(Psn psn, std::uint32_t most) const {
  if (set_ == 0) return 0;
  std::uint32_t count = 0;
  for (std::int32_t left = distance(newest_, psn); left > 0 && count < most;) {
    ++psn;
    const std::uint64_t bits = bits_.load(psn);
    const auto here = std::min(left, static_cast<std::int32_t>(SegmentedBits::kWordBits));
    const std::uint64_t mask = here == SegmentedBits::kWordBits ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1;
    count += static_cast<std::uint32_t>(std::popcount(bits & mask));
    psn = psn + static_cast<std::uint32_t>(here - 1);
    left -= here;
  }
  return std::min(count, most);
}

}  // namespace brdma::bitmap
