// bitmap/segmented_bits.h - one bit a PSN, in 64-bit words in a segmented array: the storage of both windows. A bit's
// place is its PSN's, so a PSN keeps its place over the wrap-around. It knows no base. Its owner keeps every set bit
// within one range of PSNs and names the first of them with each bit that it sets. It clears the bits it leaves behind
// and reports that (leave, release).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/psn.h"
#include "bitmap/segmented_array.h"
#include "bitmap/window_shape.h"

namespace brdma::bitmap {

class SegmentedBits {
 public:
  static constexpr std::uint32_t kWordBits = 64;

  SegmentedBits(const WindowShape& shape, SegmentPool& pool);

  [[nodiscard]] bool test(Psn psn) const { return ((word(psn) >> bit(psn)) & 1) != 0; }
  // `first`: where the range begins that the bit belongs to.
  void set(Psn first, Psn psn) { words_.reach(index(first), index(psn)) |= std::uint64_t{1} << bit(psn); }
  // The range reaches as far as `psn` now. Bits beyond its earlier reach must not be read before.
  void extend(Psn first, Psn psn) { words_.reach(index(first), index(psn)); }
  void clear(Psn psn) {
    if (std::uint64_t* const w = words_.find(index(psn))) *w &= ~(std::uint64_t{1} << bit(psn));
  }
  // 64 bits from `psn` on; bit 0 is `psn`.
  [[nodiscard]] std::uint64_t load(Psn psn) const {
    const std::uint64_t low = word(psn) >> bit(psn);
    return bit(psn) == 0 ? low : low | word(psn + (kWordBits - bit(psn))) << (kWordBits - bit(psn));
  }

  // Sets / clears [psn, psn + count). set_range returns how many were unset before.
  std::uint32_t set_range(Psn first, Psn psn, std::uint32_t count);
  void clear_range(Psn psn, std::uint32_t count);
  // Offset of the first set (unset) bit in [psn, psn + count); `count` if none.
  [[nodiscard]] std::uint32_t find_set(Psn psn, std::uint32_t count) const;
  [[nodiscard]] std::uint32_t find_unset(Psn psn, std::uint32_t count) const;
  // Counts the run of set bits from `psn` on, at most `limit`, and clears it.
  std::uint32_t take_run(Psn psn, std::uint32_t limit);

  // The range began at `from`, now it begins at `to` and has `held` PSNs; no bit before `to` is set.
  void leave(Psn from, Psn to, std::uint32_t held) { words_.leave(index(from), index(to), held / kWordBits + 1); }
  // No bit is set any more; the range began at `first` and had `count` PSNs.
  void release(Psn first, std::uint32_t count) { words_.release(index(first), (count + bit(first)) / kWordBits + 1); }
  // Forgets all bits, wherever they are.
  void clear_all() { words_.clear(); }

  // PSNs that a range beginning at `first` may have without new memory for its length.
  [[nodiscard]] std::uint32_t room(Psn first) const { return words_.fits() * kWordBits - bit(first); }
  [[nodiscard]] WindowUse use(const WindowShape& shape) const {
    return {words_.segmented(), shape.base + words_.extensions() * shape.extension, words_.segments(), words_.bytes()};
  }
  [[nodiscard]] LengthChange take_length_change() { return words_.take_length_change(); }
  [[nodiscard]] std::size_t allocated_bytes() const { return words_.bytes(); }

 private:
  [[nodiscard]] std::uint64_t word(Psn psn) const {
    const std::uint64_t* const w = words_.find(index(psn));
    return w == nullptr ? 0 : *w;
  }
  static std::uint32_t index(Psn psn) { return psn.value() / kWordBits; }
  static std::uint32_t bit(Psn psn) { return psn.value() % kWordBits; }

  SegmentedArray<std::uint64_t> words_;
};

}  // namespace brdma::bitmap
