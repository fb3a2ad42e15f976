// tests design RR-3 to RR-13. Segments, the sender's table, the receiver's registry, the escape
// channel.
#include <gtest/gtest.h>

#include "registry/escape_channel.h"
#include "registry/operation_table.h"
#include "registry/receive_registry.h"
#include "registry/segmenter.h"

namespace brdma::registry {
namespace {

TEST(Segmenter, CutsIntoEqualSegmentsAndARest) {
  const Segmenter segmenter(20, 8);
  EXPECT_EQ(segmenter.segments(), 3u);
  const Segment first = segmenter.at(0), middle = segmenter.at(15), last = segmenter.at(16);
  EXPECT_EQ(first.number, 0u);
  EXPECT_EQ(first.place, 0u);
  EXPECT_EQ(first.packets, 8u);
  EXPECT_FALSE(first.last);
  EXPECT_EQ(middle.number, 1u);
  EXPECT_EQ(middle.place, 7u);
  EXPECT_FALSE(middle.last);
  EXPECT_EQ(last.number, 2u);
  EXPECT_EQ(last.place, 0u);
  EXPECT_EQ(last.packets, 4u);
  EXPECT_TRUE(last.last);
  EXPECT_TRUE(Segmenter(8, 8).at(7).last);
  EXPECT_EQ(Segmenter(8, 8).segments(), 1u);
}

TEST(Segmenter, PacketsOfASegmentAreAPowerOfTwo) {
  EXPECT_EQ(segment_packets(64 * 1024, 1024), 64u);
  EXPECT_EQ(segment_packets(65'535, 1024), 32u);
  EXPECT_EQ(segment_packets(100, 1024), 1u);
  EXPECT_EQ(segment_packets(1u << 20, 1024), kSegmentPacketsMax);
}

TEST(OperationTable, CountsWhatArrivesAndRetiresWithTheBase) {
  OperationTable table;
  EXPECT_EQ(table.open(100, 4, false), 0);
  EXPECT_EQ(table.open(104, 2, true), 1);
  EXPECT_FALSE(table.arrived(1));
  EXPECT_TRUE(table.arrived(1));
  table.not_arrived(1);  // the receiver took it back
  EXPECT_FALSE(table.find(1)->complete());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(table.arrived(0));
  EXPECT_TRUE(table.arrived(0));
  EXPECT_EQ(table.retire_before(103), 0u);
  EXPECT_EQ(table.retire_before(105), 1u);
  EXPECT_FALSE(table.find(0));
  ASSERT_TRUE(table.find(1));
  EXPECT_TRUE(table.find(1)->last);
  EXPECT_EQ(table.next_number(), 2);
}

TEST(OperationTable, NumbersWrapAndNeverMeanTwo) {
  OperationTable table;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(table.open(i, 1, false), static_cast<std::uint8_t>(i));
    EXPECT_EQ(table.find(static_cast<std::uint8_t>(i))->first, i);
    if (i >= 100) {
      EXPECT_EQ(table.retire_before(i - 99), 1u);
    }
  }
  while (!table.full()) table.open(1000 + table.size(), 1, false);
  EXPECT_EQ(table.size(), kUnderWayMax);
}

OperationStart start(std::uint8_t number, std::uint64_t address, std::uint16_t packets) {
  return {.address = address, .packets = packets, .packet_shift = 9, .number = number};
}

TEST(ReceiveRegistry, MatchesByAddress) {
  ReceiveRegistry registry;
  EXPECT_EQ(registry.look(7, 0x1000, 8), Match::kNone);
  EXPECT_FALSE(registry.used());
  ASSERT_TRUE(registry.begin(start(7, 0x1000, 8)));
  EXPECT_FALSE(registry.begin(start(7, 0x9000, 8)));
  EXPECT_EQ(registry.receive(7, 0x1000, 8), Match::kDuplicate);  // registration set its bit
  EXPECT_EQ(registry.look(7, 0x1200, 8), Match::kNew);
  EXPECT_EQ(registry.receive(7, 0x1200, 8), Match::kNew);
  EXPECT_EQ(registry.receive(7, 0x1200, 8), Match::kDuplicate);
  EXPECT_EQ(registry.receive(8, 0x1400, 8), Match::kNone);
  EXPECT_EQ(registry.receive(7, 0x1400, 7), Match::kOutside);  // another number of packets
  EXPECT_EQ(registry.receive(7, 0x1401, 8), Match::kOutside);  // between two packets
  EXPECT_EQ(registry.receive(7, 0x2000, 8), Match::kOutside);  // behind the operation
  EXPECT_EQ(registry.receive(7, 0x0E00, 8), Match::kOutside);  // before it
  const auto middle = registry.execute(7, 0x1C00, 8);
  EXPECT_EQ(middle.match, Match::kNew);
  EXPECT_FALSE(middle.ended);
  const auto last = registry.execute(7, 0x1E00, 8);
  EXPECT_EQ(last.match, Match::kNew);
  EXPECT_TRUE(last.ended) << "though others are missing: it was executed, so they will not come";
  EXPECT_EQ(registry.find(7), nullptr);
  EXPECT_EQ(registry.execute(7, 0x1E00, 8).match, Match::kNone);
}

TEST(ReceiveRegistry, CompletesInAnyOrderAndReportsIt) {
  ReceiveRegistry registry;
  for (std::uint8_t number = 0; number < 4; ++number) {
    ASSERT_TRUE(registry.begin(start(number, 0x1000u * number, 2)));
  }
  EXPECT_EQ(registry.completed().next, 0);
  EXPECT_EQ(registry.receive(1, 0x1200, 2), Match::kComplete);
  EXPECT_EQ(registry.receive(3, 0x3200, 2), Match::kComplete);
  EXPECT_EQ(registry.completed().next, 0);
  EXPECT_EQ(registry.completed().beyond, 0b1010'0000);
  EXPECT_EQ(registry.receive(0, 0x200, 2), Match::kComplete);
  EXPECT_EQ(registry.completed().next, 2);
  EXPECT_EQ(registry.completed().beyond, 0b1000'0000);
  registry.release(1);
  EXPECT_EQ(registry.find(1), nullptr);
  EXPECT_EQ(registry.size(), 3u);
  EXPECT_EQ(registry.completed().next, 2);
}

TEST(ReceiveRegistry, NumbersThatShareAPlaceMakeItGrow) {
  ReceiveRegistry registry;
  for (unsigned number = 0; number < 256; ++number) {
    ASSERT_TRUE(registry.begin(start(static_cast<std::uint8_t>(number), number * 0x1000, 3)));
  }
  EXPECT_EQ(registry.size(), 256u);
  for (unsigned number = 0; number < 256; ++number) {
    EXPECT_EQ(registry.receive(static_cast<std::uint8_t>(number), number * 0x1000 + 0x400, 3), Match::kNew);
  }
}

TEST(EscapeChannel, IsBoundedInBytesAndTime) {
  EscapeChannel channel(2048);
  const Instant begin = Instant::from_ns(1000);
  channel.admit({Psn{10}, 1, 1024, begin});
  EXPECT_TRUE(channel.has_room(1024));
  channel.admit({Psn{11}, 2, 1024, begin + 5_us});
  EXPECT_FALSE(channel.has_room(1));
  EXPECT_EQ(channel.next_deadline(10_us), begin + 10_us);
  std::vector<std::uint32_t> out;
  channel.expire(begin + 10_us, 10_us, [&](const EscapedPacket& packet) { out.push_back(packet.psn.value()); });
  EXPECT_EQ(out, std::vector<std::uint32_t>{10});
  EXPECT_EQ(channel.bytes(), 1024u);
  channel.take(2, [&](const EscapedPacket& packet) { out.push_back(packet.psn.value()); });
  EXPECT_EQ(out, (std::vector<std::uint32_t>{10, 11}));
  EXPECT_TRUE(channel.empty());
  EXPECT_FALSE(channel.next_deadline(10_us));
  channel.admit({Psn{12}, 3, 100, begin});
  EXPECT_TRUE(channel.forget(Psn{12}));
  EXPECT_FALSE(channel.forget(Psn{12}));
  EXPECT_EQ(channel.bytes(), 0u);
}

}  // namespace
}  // namespace brdma::registry
