// registry/mask.h - which packets of an operation are here: one bit a packet, in words of 32 or 64 bits, as many as the
// width needs (design RR-17, RR-18).
//   at registration   ones for the packets that are not expected, zeros for those that are, and the first one's bit set
//   a packet          new mask = old mask with the packet's bit set; unchanged: a duplicate; all ones: complete
// Packet i is bit i, counted from the least significant bit of the first word. Example: 8 packets in 32 bits, the first
// here: 1111 1111 1111 1111 1111 1111 0000 0001.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/check.h"

namespace brdma::registry {

template <std::size_t kBits>
class Mask {
 public:
  using Word = std::conditional_t<(kBits <= 32), std::uint32_t, std::uint64_t>;
  static constexpr std::size_t kWordBits = sizeof(Word) * 8;
  static constexpr std::size_t kWords = (kBits + kWordBits - 1) / kWordBits;
  static constexpr std::size_t kPacketsMax = kWords * kWordBits;

  // Registration of an operation of so many packets, 1 .. kPacketsMax, by its first one.
  explicit Mask(std::size_t packets) {
    BRDMA_CHECK(packets >= 1 && packets <= kPacketsMax);
    for (std::size_t i = 0; i < kWords; ++i) {
      const std::size_t begin = i * kWordBits;
      const std::size_t expected = packets <= begin ? 0 : packets - begin;
      words_[i] = expected >= kWordBits ? Word{0} : static_cast<Word>(kFull << expected);
    }
    words_[0] |= Word{1};
  }

  enum class Change : std::uint8_t { kNew, kComplete, kDuplicate };
  // Packet `i` came. An unexpected one counts as here already.
  Change set(std::size_t i) {
    BRDMA_CHECK(i < kPacketsMax);
    Word& word = words_[i / kWordBits];
    const auto changed = static_cast<Word>(word | static_cast<Word>(Word{1} << (i % kWordBits)));
    if (changed == word) return Change::kDuplicate;
    word = changed;
    return word == kFull && complete() ? Change::kComplete : Change::kNew;
  }
  [[nodiscard]] bool has(std::size_t i) const { return ((words_[i / kWordBits] >> (i % kWordBits)) & 1) != 0; }
  [[nodiscard]] bool complete() const {
    for (const Word word : words_) {
      if (word != kFull) return false;
    }
    return true;
  }
  [[nodiscard]] Word word(std::size_t i) const { return words_[i]; }

 private:
  static constexpr Word kFull = static_cast<Word>(~Word{0});
  std::array<Word, kWords> words_{};
};

}  // namespace brdma::registry
