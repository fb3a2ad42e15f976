// bitmap/bit_ring.h - one bit a PSN in a power-of-two ring of 64-bit words: what both windows are made of.
// A PSN's place is its low bits: 2^24 is a multiple of every capacity, so a PSN keeps its place over the wrap-around.
// The ring knows no base; its owner keeps every set bit within one capacity of PSNs, grows the ring before it sets a
// bit further away, and clears what it leaves behind. Starts with one word inside the object; grows by doubling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/psn.h"

namespace brdma::bitmap {

class BitRing {
 public:
  static constexpr std::uint32_t kWordBits = 64;

  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }  // bits
  [[nodiscard]] std::size_t allocated_bytes() const { return words_ ? capacity_ / 8 : 0; }

  [[nodiscard]] bool test(Psn psn) const { return ((word(psn) >> bit(psn)) & 1) != 0; }
  void set(Psn psn) { word(psn) |= std::uint64_t{1} << bit(psn); }
  void clear(Psn psn) { word(psn) &= ~(std::uint64_t{1} << bit(psn)); }

  // 64 bits from `psn` on, bit 0 being `psn` (wrapping round the ring).
  [[nodiscard]] std::uint64_t load(Psn psn) const {
    const std::uint64_t low = word(psn) >> bit(psn);
    return bit(psn) == 0 ? low : low | word(psn + (kWordBits - bit(psn))) << (kWordBits - bit(psn));
  }

  // Sets / clears [first, first + count); count <= capacity(). set_range answers how many were unset before.
  std::uint32_t set_range(Psn first, std::uint32_t count);
  void clear_range(Psn first, std::uint32_t count);
  // How many bits from `first` on are alike: the offset of the first set (unset) bit in [first, first + count), `count`
  // where there is none. count <= capacity().
  [[nodiscard]] std::uint32_t find_set(Psn first, std::uint32_t count) const;
  [[nodiscard]] std::uint32_t find_unset(Psn first, std::uint32_t count) const;
  // Counts the run of set bits from `first` on, at most `limit`, and clears it.
  std::uint32_t take_run(Psn first, std::uint32_t limit);

  // Doubles until `bits` fit. `base`: first of the capacity() PSNs that the ring holds now.
  void grow(std::uint32_t bits, Psn base);
  // Back to one word; every bit is unset by then (our bug otherwise).
  void shrink();
  void clear_all();

 private:
  [[nodiscard]] const std::uint64_t* words() const { return words_ ? words_.get() : &first_word_; }
  [[nodiscard]] std::uint64_t* words() { return words_ ? words_.get() : &first_word_; }
  [[nodiscard]] std::uint64_t& word(Psn psn) { return words()[(psn.value() & (capacity_ - 1)) / kWordBits]; }
  [[nodiscard]] const std::uint64_t& word(Psn psn) const {
    return words()[(psn.value() & (capacity_ - 1)) / kWordBits];
  }
  static std::uint32_t bit(Psn psn) { return psn.value() % kWordBits; }

  std::uint32_t capacity_ = kWordBits;
  std::uint64_t first_word_ = 0;
  std::unique_ptr<std::uint64_t[]> words_;  // where one word is not enough
};

}  // namespace brdma::bitmap
