// What io decides without the system: credit figures, cutting batches, holding acknowledgements back.
#include <gmock/gmock.h>

#include <array>
#include <string>
#include <vector>

#include "io/ack_deferral.h"
#include "io/receive_budget.h"
#include "io/split_batch.h"

namespace brdma::io {
namespace {

using testing::ElementsAre;

TEST(ReceiveBudget, DefaultBufferGivesWhatWasMeasuredToFit) {
  // 212992 bytes hold 25 datagrams of 4116 B that come singly, or 256 small ones (docs/datapath.md).
  const ReceiveBudget budget = receive_budget(212992);
  EXPECT_EQ(budget.packets, 64u);       // 212992 / 4 / 832
  EXPECT_EQ(budget.bytes, 85196u);      // 212992 * 3/4 * 8/15
  EXPECT_EQ(budget.bytes / 4096, 20u);  // below 25
}

TEST(ReceiveBudget, BothLimitsAtOnceFit) {
  for (const std::uint64_t buffer : {2304u, 212992u, 8u << 20, 64u << 20}) {
    const ReceiveBudget budget = receive_budget(buffer);
    EXPECT_LE(budget.packets * kChargePerPacket + budget.bytes * kChargeNumerator / kChargeDenominator, buffer);
  }
}

TEST(ReceiveBudget, HugeBufferDoesNotOverflow) {
  EXPECT_EQ(receive_budget(~std::uint64_t{0}).bytes, receive_budget(1u << 30).bytes);
}

std::vector<std::string> split(std::vector<std::string> parts, std::uint16_t segment_bytes, std::uint16_t segments) {
  std::vector<Slice> slices;
  Transmit transmit;
  for (const auto& part : parts) {
    slices.push_back({part.data(), part.size()});
    transmit.bytes += static_cast<std::uint32_t>(part.size());
  }
  transmit.slices = slices;
  transmit.segment_bytes = segment_bytes;
  transmit.segments = segments;
  std::array<iovec, kSplitPiecesMax> pieces;
  std::array<PacketPieces, kSegmentsMax> packets;
  std::vector<std::string> out;
  const std::size_t count = split_batch(transmit, pieces, packets);
  for (std::size_t i = 0; i < count; ++i) {
    auto& packet = out.emplace_back();
    for (std::uint32_t k = 0; k < packets[i].count; ++k) {
      const iovec& piece = pieces[packets[i].first + k];
      packet.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    }
  }
  return out;
}

TEST(SplitBatch, CutsWithinSlices) {
  // Headers, payload, then one slice with the end of the first packet and the start of the second; a shorter last one.
  EXPECT_THAT(split({"hh", "pppp", "tHH", "PPPP", "Tx", "y"}, 7, 3), ElementsAre("hhppppt", "HHPPPPT", "xy"));
}
TEST(SplitBatch, OneSliceManyPackets) { EXPECT_THAT(split({"abcdefg"}, 3, 3), ElementsAre("abc", "def", "g")); }
TEST(SplitBatch, ManySlicesOnePacket) { EXPECT_THAT(split({"a", "b", "", "c"}, 3, 1), ElementsAre("abc")); }

constexpr Instant at(std::int64_t us) { return Instant{} + 1_us * us; }

TEST(AckDeferral, HeldBackUntilThePostThatFollows) {
  AckDeferral deferral{5_us};
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(deferral.hold_back(at(i * 10)));
    EXPECT_TRUE(deferral.hold_back(at(i * 10 + 4)));  // still
    EXPECT_EQ(deferral.deadline(), at(i * 10 + 5));
    deferral.posted(at(i * 10 + 4));
    EXPECT_FALSE(deferral.holding());
  }
}
TEST(AckDeferral, RunsOutAtTheDeadline) {
  AckDeferral deferral{5_us};
  EXPECT_TRUE(deferral.hold_back(at(0)));
  EXPECT_FALSE(deferral.hold_back(at(5)));
}
TEST(AckDeferral, MissesMakeItCautious) {
  AckDeferral deferral{5_us};
  const auto miss = [&](std::int64_t us) {
    EXPECT_TRUE(deferral.hold_back(at(us)));
    EXPECT_FALSE(deferral.hold_back(at(us + 5)));
    deferral.sent(/*gained=*/false);
  };
  miss(0);
  for (int i = 0; i < 16; ++i) EXPECT_FALSE(deferral.hold_back(at(100))) << i;
  miss(200);
  for (int i = 0; i < 32; ++i) EXPECT_FALSE(deferral.hold_back(at(300))) << i;
  EXPECT_TRUE(deferral.hold_back(at(400)));  // tries again, succeeds, and the patience is back
  deferral.posted(at(401));
  miss(500);
  for (int i = 0; i < 16; ++i) EXPECT_FALSE(deferral.hold_back(at(600))) << i;
  EXPECT_TRUE(deferral.hold_back(at(700)));
}
TEST(AckDeferral, APostThatCameTooLateIsAMiss) {
  AckDeferral deferral{5_us};
  EXPECT_TRUE(deferral.hold_back(at(0)));
  deferral.posted(at(900));
  EXPECT_FALSE(deferral.hold_back(at(901)));
}
TEST(AckDeferral, JoiningOtherOutputIsNoMiss) {
  AckDeferral deferral{5_us};
  EXPECT_TRUE(deferral.hold_back(at(0)));
  deferral.sent(/*gained=*/true);
  EXPECT_TRUE(deferral.hold_back(at(1)));
}

}  // namespace
}  // namespace brdma::io
