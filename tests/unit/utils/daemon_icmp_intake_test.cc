// ICMP that anybody may send to brdmad: limits of the number of messages taken.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "network/icmp_intake.h"
#include "wire/edn.h"

namespace brdma::daemon {
namespace {

constexpr std::size_t kBth = 28, kBxth = 40;  // behind IPv4 and UDP headers

// A source quench about a packet of bitmap mode.
std::vector<std::byte> source_quench() {
  std::array<std::byte, kBxth + wire::kBxthSize> dropped{};
  store_be16(dropped.data(), 0x4500);
  dropped[9] = std::byte{17};
  store_be16(&dropped[22], 4791);
  store_u8(&dropped[kBth], 0xC6);
  store_u8(&dropped[kBxth], 0x20);
  store_be24(&dropped[kBxth + 1], 0x2001);
  std::vector<std::byte> message(wire::kIcmpHeaderSize + wire::kQuoteMax);
  message.resize(wire::emit_icmp_edn(dropped, 1, Duration{}, message.data()));
  return message;
}

// Messages of a flood from one source are taken up to a rate, and leave room for the others'.
TEST(IcmpIntakeLimits, EachSourceByItself) {
  IcmpIntake intake{{[](std::uint32_t, const IcmpIntake::Messages&) { return IcmpIntake::Delivery::kDone; },
                     [] { return std::vector<std::uint32_t>{}; }}};
  const auto message = source_quench();
  constexpr unsigned kFlood = 100'000;
  for (unsigned i = 0; i < kFlood; ++i) intake.take(message, 0x0A000001);
  intake.flush();
  EXPECT_GE(intake.counters().limited, kFlood / 2);
  const std::uint64_t limited = intake.counters().limited, handed = intake.counters().handed;
  EXPECT_EQ(limited + handed, kFlood);
  for (int i = 0; i < IcmpIntake::kSourceBurst; ++i) intake.take(message, 0x0A000002);
  intake.flush();
  EXPECT_EQ(intake.counters().limited, limited);
  EXPECT_EQ(intake.counters().handed, handed + IcmpIntake::kSourceBurst);
}

}  // namespace
}  // namespace brdma::daemon
