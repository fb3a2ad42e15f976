// The solver against its definition: for each identification, its actual difference.
#include <gtest/gtest.h>

#include <set>

#include "base/random.h"
#include "support/bytes.h"
#include "wire/crc/icrc.h"
#include "wire/headers.h"

namespace brdma::wire {
namespace {

using test::Bytes;

struct Sample {
  explicit Sample(std::size_t size, std::uint64_t seed = 1) : packet(size) {
    Random random{seed, "identification"};
    for (auto& byte : packet) byte = static_cast<std::byte>(random.below(256));
    path.source = IpAddress::v4(10, 0, 0, 1);
    path.destination = IpAddress::v4(192, 168, 255, 254);
    path.source_port = 0xD00D;
  }
  [[nodiscard]] std::uint32_t difference(std::uint16_t ip_id) const {
    IcrcPath with = path;
    with.ip_id = ip_id;
    return packet_icrc(with, packet) ^ packet_icrc(path, packet);
  }
  Bytes packet;
  IcrcPath path;
};

TEST(IdentificationSolver, FindsEveryIdentification) {
  IdentificationSolver solver;
  for (const std::size_t size : {std::size_t{16}, std::size_t{20}, std::size_t{1040}, std::size_t{4168}}) {
    const Sample sample{size};
    for (std::uint32_t id = 0; id < 0x10000; ++id) {
      std::uint16_t found = static_cast<std::uint16_t>(~id);
      ASSERT_TRUE(solver.solve(sample.difference(static_cast<std::uint16_t>(id)), size, found)) << size << " " << id;
      ASSERT_EQ(found, id) << size;
    }
  }
}

TEST(IdentificationSolver, EveryLengthOfAPacket) {
  IdentificationSolver solver;
  Random random{2, "identification"};
  // Twice, so that each place of the bounded cache is used for several sizes, and again for evicted ones.
  for (int round = 0; round < 2; ++round) {
    for (std::size_t size = kBthSize + kIcrcSize; size <= 4200; size += 4) {
      const Sample sample{size, size};
      const auto id = static_cast<std::uint16_t>(random.below(0x10000));
      std::uint16_t found = 0;
      ASSERT_TRUE(solver.solve(sample.difference(id), size, found)) << size;
      ASSERT_EQ(found, id) << size;
    }
  }
}

TEST(IdentificationSolver, LargestDatagram) {
  IdentificationSolver solver;
  const Sample sample{65504};
  std::uint16_t found = 0;
  ASSERT_TRUE(solver.solve(sample.difference(0xBEEF), 65504, found));
  EXPECT_EQ(found, 0xBEEF);
}

// 2^16 of the 2^32 differences have a solution. Damage of one or two bits never has one: the CRC would need a burst of
// 16 and those bits to cancel.
TEST(IdentificationSolver, DamageIsNotExplainedAway) {
  IdentificationSolver solver;
  const Sample sample{1040};
  const std::uint32_t good = packet_icrc(sample.path, sample.packet);
  for (std::size_t bit = 0; bit < (sample.packet.size() - kIcrcSize) * 8; ++bit) {
    if (bit / 8 == 4) continue;  // masked
    Sample bent = sample;
    bent.packet[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    std::uint16_t found = 0;
    EXPECT_FALSE(solver.solve(packet_icrc(bent.path, bent.packet) ^ good, bent.packet.size(), found)) << bit;
  }
}

TEST(IdentificationSolver, RandomDifferencesHardlyEverHaveASolution) {
  IdentificationSolver solver;
  Random random{3, "identification"};
  const Sample sample{1040};
  unsigned solved = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const auto difference = static_cast<std::uint32_t>(random.next());
    std::uint16_t found = 0;
    if (!solver.solve(difference, 1040, found)) continue;
    ++solved;
    EXPECT_EQ(sample.difference(found), difference);  // a claimed solution is one
  }
  EXPECT_GT(solved, 0u);  // 15.3 expected: one in 65,536
  EXPECT_LT(solved, 45u);
}

TEST(IdentificationSolver, OtherLengthsGiveOtherSolutions) {
  IdentificationSolver solver;
  const Sample sample{1040};
  std::uint16_t found = 0;
  EXPECT_FALSE(solver.solve(sample.difference(0x4242), 1044, found));
}

}  // namespace
}  // namespace brdma::wire
