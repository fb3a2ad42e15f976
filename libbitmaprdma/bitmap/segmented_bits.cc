#include "bitmap/segmented_bits.h"

#include <algorithm>
#include <bit>

namespace brdma::bitmap {
namespace {

constexpr std::uint32_t kWordBits = SegmentedBits::kWordBits;

// Mask of the part of one word that a range touches: `count` bits from `offset` on.
std::uint64_t mask_of(std::uint32_t offset, std::uint32_t count) {
  const std::uint64_t ones = count >= kWordBits ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  return ones << offset;
}

// In words. An unaligned range has one word more than its bits fill.
SegmentedArray<std::uint64_t>::Shape words_of(const WindowShape& shape) {
  const auto words = [](std::uint32_t bits) { return std::max(bits / kWordBits, 1u); };
  return {.base = std::bit_ceil(words(shape.base) + 1),
          .extension = words(shape.extension),
          .segment = words(shape.segment),
          .index_bits = 18 - static_cast<unsigned>(std::countr_zero(shape.granularity))};
}

}  // namespace

SegmentedBits::SegmentedBits(const WindowShape& shape, SegmentPool& pool) : words_(words_of(shape), pool) {}

std::uint32_t SegmentedBits::set_range(Psn first, Psn psn, std::uint32_t count) {
  std::uint32_t fresh = 0;
  while (count > 0) {
    const std::uint32_t here = std::min(count, kWordBits - bit(psn));
    const std::uint64_t mask = mask_of(bit(psn), here);
    std::uint64_t& w = words_.reach(index(first), index(psn));
    fresh += static_cast<std::uint32_t>(std::popcount(mask & ~w));
    w |= mask;
    psn = psn + here;
    count -= here;
  }
  return fresh;
}

void SegmentedBits::clear_range(Psn psn, std::uint32_t count) {
  while (count > 0) {
    const std::uint32_t here = std::min(count, kWordBits - bit(psn));
    if (std::uint64_t* const w = words_.find(index(psn))) *w &= ~mask_of(bit(psn), here);
    psn = psn + here;
    count -= here;
  }
}

std::uint32_t SegmentedBits::find_set(Psn psn, std::uint32_t count) const {
  std::uint32_t offset = 0;
  while (offset < count) {
    const Psn here = psn + offset;
    const std::uint64_t* const w = words_.find(index(here));
    const std::uint64_t rest = w == nullptr ? 0 : *w >> bit(here);
    if (rest != 0) return std::min(count, offset + static_cast<std::uint32_t>(std::countr_zero(rest)));
    // In a segment that does not exist no bit is set.
    const std::uint32_t words = w == nullptr ? words_.in_block(index(here), (count - offset) / kWordBits + 1) : 1;
    offset += words * kWordBits - bit(here);
  }
  return count;
}

std::uint32_t SegmentedBits::find_unset(Psn psn, std::uint32_t count) const {
  std::uint32_t offset = 0;
  while (offset < count) {
    const Psn here = psn + offset;
    const std::uint32_t left = kWordBits - bit(here);
    const auto ones = static_cast<std::uint32_t>(std::countr_one(word(here) >> bit(here)));
    if (ones < left) return std::min(count, offset + ones);
    offset += left;
  }
  return count;
}

std::uint32_t SegmentedBits::take_run(Psn psn, std::uint32_t limit) {
  std::uint32_t taken = 0;
  while (taken < limit) {
    const Psn here = psn + taken;
    const std::uint32_t left = std::min(limit - taken, kWordBits - bit(here));
    std::uint64_t* const w = words_.find(index(here));
    if (w == nullptr) break;
    const std::uint32_t ones = std::min(left, static_cast<std::uint32_t>(std::countr_one(*w >> bit(here))));
    if (ones == 0) break;
    *w &= ~mask_of(bit(here), ones);
    taken += ones;
    if (ones < left) break;
  }
  return taken;
}

}  // namespace brdma::bitmap
