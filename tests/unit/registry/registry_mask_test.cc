// tests design RR-17 to RR-19. The worked example to the bit, and every width around the edges of a word.
#include <gtest/gtest.h>

#include "registry/mask.h"

namespace brdma::registry {
namespace {

// 4 KB operation, packets of 512 B: 8 expected, 32-bit mask.
TEST(Mask, WorkedExample) {
  using Mask32 = Mask<32>;
  Mask32 mask(4096 / 512);
  EXPECT_EQ(mask.word(0), 0b1111'1111'1111'1111'1111'1111'0000'0001u);
  constexpr std::uint64_t kBase = 0x7F00'0000'1000;
  const auto bit = [](std::uint64_t address) { return static_cast<std::size_t>((address - kBase) / 512); };
  EXPECT_EQ(mask.set(bit(kBase + 3 * 512)), Mask32::Change::kNew);
  EXPECT_EQ(mask.word(0), 0b1111'1111'1111'1111'1111'1111'0000'1001u);
  EXPECT_EQ(mask.set(bit(kBase + 3 * 512)), Mask32::Change::kDuplicate);
  EXPECT_EQ(mask.set(bit(kBase)), Mask32::Change::kDuplicate);  // the start of operation once more
  for (const std::size_t i : {7, 1, 2, 5, 4}) EXPECT_EQ(mask.set(i), Mask32::Change::kNew) << i;
  EXPECT_EQ(mask.word(0), 0b1111'1111'1111'1111'1111'1111'1011'1111u);
  EXPECT_FALSE(mask.complete());
  EXPECT_EQ(mask.set(6), Mask32::Change::kComplete);
  EXPECT_EQ(mask.word(0), 0xFFFF'FFFFu);
  EXPECT_TRUE(mask.complete());
}

TEST(Mask, APacketThatIsNotExpectedCountsAsHere) {
  Mask<32> mask(8);
  EXPECT_EQ(mask.set(8), Mask<32>::Change::kDuplicate);
  EXPECT_EQ(mask.set(31), Mask<32>::Change::kDuplicate);
}

TEST(Mask, OnePacketIsCompleteAtRegistration) { EXPECT_TRUE(Mask<32>(1).complete()); }

template <std::size_t kBits>
void every_length() {
  for (std::size_t packets = 1; packets <= Mask<kBits>::kPacketsMax; ++packets) {
    Mask<kBits> mask(packets);
    for (std::size_t i = 0; i < Mask<kBits>::kPacketsMax; ++i) {
      ASSERT_EQ(mask.has(i), i == 0 || i >= packets) << packets << " " << i;
    }
    for (std::size_t i = packets - 1; i > 0; --i) {  // last first
      ASSERT_FALSE(mask.complete());
      const auto change = mask.set(i);
      ASSERT_EQ(change, i == 1 ? Mask<kBits>::Change::kComplete : Mask<kBits>::Change::kNew) << packets << " " << i;
    }
    ASSERT_TRUE(mask.complete()) << packets;
  }
}

TEST(Mask, AnyWidth) {
  every_length<32>();
  every_length<64>();
  every_length<96>();
  every_length<256>();
  EXPECT_EQ(Mask<8>::kWords, 1u);
  EXPECT_EQ(Mask<32>::kWordBits, 32u);
  EXPECT_EQ(Mask<256>::kWords, 4u);
}

}  // namespace
}  // namespace brdma::registry
