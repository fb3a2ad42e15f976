#include "bitmap/bit_ring.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace brdma::bitmap {
namespace {

// The part of one word that a range touches: `count` bits from `offset` on.
std::uint64_t mask_of(std::uint32_t offset, std::uint32_t count) {
  const std::uint64_t ones = count >= BitRing::kWordBits ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  return ones << offset;
}

}  // namespace

std::uint32_t BitRing::set_range(Psn first, std::uint32_t count) {
  BRDMA_CHECK(count <= capacity_);
  std::uint32_t fresh = 0;
  while (count > 0) {
    const std::uint32_t here = std::min(count, kWordBits - bit(first));
    const std::uint64_t mask = mask_of(bit(first), here);
    std::uint64_t& w = word(first);
    fresh += static_cast<std::uint32_t>(std::popcount(mask & ~w));
    w |= mask;
    first = first + here;
    count -= here;
  }
  return fresh;
}

void BitRing::clear_range(Psn first, std::uint32_t count) {
  BRDMA_CHECK(count <= capacity_);
  while (count > 0) {
    const std::uint32_t here = std::min(count, kWordBits - bit(first));
    word(first) &= ~mask_of(bit(first), here);
    first = first + here;
    count -= here;
  }
}

std::uint32_t BitRing::find_set(Psn first, std::uint32_t count) const {
  std::uint32_t offset = 0;
  while (offset < count) {
    const Psn here = first + offset;
    const std::uint64_t rest = word(here) >> bit(here);
    if (rest != 0) return std::min(count, offset + static_cast<std::uint32_t>(std::countr_zero(rest)));
    offset += kWordBits - bit(here);
  }
  return count;
}

std::uint32_t BitRing::find_unset(Psn first, std::uint32_t count) const {
  std::uint32_t offset = 0;
  while (offset < count) {
    const Psn here = first + offset;
    const std::uint32_t left = kWordBits - bit(here);
    const auto ones = static_cast<std::uint32_t>(std::countr_one(word(here) >> bit(here)));
    if (ones < left) return std::min(count, offset + ones);
    offset += left;
  }
  return count;
}

std::uint32_t BitRing::take_run(Psn first, std::uint32_t limit) {
  std::uint32_t taken = 0;
  while (taken < limit) {
    const Psn here = first + taken;
    const std::uint32_t left = std::min(limit - taken, kWordBits - bit(here));
    std::uint64_t& w = word(here);
    const std::uint32_t ones = std::min(left, static_cast<std::uint32_t>(std::countr_one(w >> bit(here))));
    if (ones == 0) break;
    w &= ~mask_of(bit(here), ones);
    taken += ones;
    if (ones < left) break;
  }
  return taken;
}

void BitRing::grow(std::uint32_t bits, Psn base) {
  if (bits <= capacity_) return;
  const std::uint32_t grown = std::bit_ceil(bits);
  auto fresh = std::make_unique<std::uint64_t[]>(grown / kWordBits);
  // Every old word lies whole in a new one: only base's own word is shared by the two ends of the old ring.
  const auto place = [&](Psn psn) -> std::uint64_t& { return fresh[(psn.value() & (grown - 1)) / kWordBits]; };
  for (std::uint32_t offset = 0; offset < capacity_;) {
    const Psn here = base + offset;
    const std::uint32_t left = std::min(capacity_ - offset, kWordBits - bit(here));
    place(here) |= word(here) & mask_of(bit(here), left);
    offset += left;
  }
  words_ = std::move(fresh);
  capacity_ = grown;
}

void BitRing::shrink() {
  BRDMA_CHECK_SLOW(find_set(Psn{0}, capacity_) == capacity_);
  words_.reset();
  first_word_ = 0;
  capacity_ = kWordBits;
}

void BitRing::clear_all() { std::fill_n(words(), capacity_ / kWordBits, std::uint64_t{0}); }

}  // namespace brdma::bitmap
