// Packets that the kernel steered here: which are for this shard.
#include <gtest/gtest.h>

#include <array>

#include "io/shard/slot_filter.h"

namespace brdma::io {
namespace {

// Passes a packet to `qpn`?
bool passes(const SlotFilter& filter, std::uint32_t qpn, const std::vector<std::uint32_t>& slots) {
  std::array<std::byte, 16> packet{};
  store_be24(&packet[5], qpn);
  return filter.passes(packet, slots);
}

TEST(SlotFilter, PassesItsOwnSlotsAndMulticast) {
  const SlotFilter filter{2, 8};
  const std::vector<std::uint32_t> slots{2, 7};
  EXPECT_TRUE(passes(filter, 0x102, slots));
  EXPECT_TRUE(passes(filter, 0x507, slots)) << "a further slot";
  EXPECT_FALSE(passes(filter, 0x103, slots));
  EXPECT_FALSE(passes(filter, 0x207 ^ 0x01, slots));
  EXPECT_TRUE(passes(filter, 0xFF'FFFF, slots));
  EXPECT_FALSE(passes(filter, 0xFF'FFFE, slots));
}

TEST(SlotFilter, LeavesWhatIsTooShortToTheEngine) {
  const SlotFilter filter{2, 8};
  const std::array<std::byte, 8> packet{};
  EXPECT_TRUE(filter.passes(ConstBytes{packet}.first(7), {2}));
  EXPECT_FALSE(filter.passes(packet, {2})) << "8 bytes have a number";
}

}  // namespace
}  // namespace brdma::io
