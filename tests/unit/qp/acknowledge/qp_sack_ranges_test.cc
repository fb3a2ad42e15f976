// tests docs/reference/wire.md: bitmap acknowledgement: which arrivals the ranges of an acknowledgement report
// (qp/acknowledge/sack_ranges.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "qp/acknowledge/sack_ranges.h"
#include "wire/control.h"

namespace brdma::qp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Range = std::pair<std::uint32_t, std::uint32_t>;  // first PSN, length

constexpr std::uint32_t kMtu = 1024;

// PSN 1000 is at the base. The bits of an acknowledgement end before PSN 1100.
struct Reporter {
  void receive(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t psn = first; psn <= last; ++psn) window.receive(Psn{psn});
  }
  [[nodiscard]] Psn end() const { return window.highest() + 1; }
  std::vector<Range> list(std::uint32_t from = 1100, std::uint32_t mtu = kMtu) {
    std::array<std::byte, wire::kAckRangesMax * wire::kAckRangeSize> out;
    wire::BitmapAck ack;
    ack.range_count = static_cast<std::uint16_t>(ranges.list(window, Psn{from}, end(), mtu, out.data()));
    ack.ranges = ConstBytes{out}.first(ack.range_count * wire::kAckRangeSize);
    std::vector<Range> all;
    for (std::size_t i = 0; i < ack.range_count; ++i) all.emplace_back(ack.range(i).start.value(), ack.range(i).length);
    return all;
  }
  // An acknowledgement with ranges leaves.
  std::vector<Range> report(std::uint32_t from = 1100) {
    const auto all = list(from);
    ranges.note_sent(end());
    return all;
  }

  bitmap::SegmentPool segments;
  bitmap::ReceiveWindow window{Psn{1000}, {.window = 16384}, segments};
  SackRanges ranges;
};

TEST(SackRanges, EachArrivalIsReportedTwice) {
  Reporter receiver;
  receiver.receive(1200, 1210);
  EXPECT_THAT(receiver.report(), ElementsAre(Range{1200, 11}));
  receiver.receive(1300, 1300);
  EXPECT_THAT(receiver.report(), ElementsAre(Range{1200, 11}, Range{1300, 1}));
  receiver.receive(1400, 1401);
  // All up to the highest PSN of the first report was reported twice: it is repeated behind the new ones.
  EXPECT_THAT(receiver.report(), ElementsAre(Range{1210, 1}, Range{1300, 1}, Range{1400, 2}, Range{1200, 10}));
}

TEST(SackRanges, WhatHasNotLeftIsListedAgain) {
  Reporter receiver;
  receiver.receive(1200, 1210);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(receiver.list(), ElementsAre(Range{1200, 11}));
}

TEST(SackRanges, NothingBeforeTheirBeginIsListed) {
  Reporter receiver;
  receiver.receive(1050, 1150);
  EXPECT_THAT(receiver.report(), ElementsAre(Range{1100, 51}));
  EXPECT_THAT(receiver.report(1151), IsEmpty());
}

TEST(SackRanges, WhatFillsAHoleLaterIsRepeatedInItsTurn) {
  Reporter receiver;
  receiver.receive(1200, 1200);
  receiver.receive(1210, 1210);
  receiver.receive(5000, 5000);
  (void)receiver.report();
  (void)receiver.report();
  receiver.receive(1205, 1205);
  EXPECT_THAT(receiver.report(), ElementsAre(Range{5000, 1}, Range{1200, 1}, Range{1205, 1}, Range{1210, 1}));
}

TEST(SackRanges, AnAcknowledgementRepeats4096PacketsAtMost) {
  Reporter receiver;
  receiver.receive(1200, 1200);
  receiver.receive(6000, 6000);
  receiver.receive(9000, 9000);
  (void)receiver.report();
  (void)receiver.report();
  receiver.receive(9500, 9500);
  EXPECT_THAT(receiver.report(), ElementsAre(Range{9000, 1}, Range{9500, 1}, Range{1200, 1}));
  EXPECT_THAT(receiver.report(), ElementsAre(Range{9000, 1}, Range{9500, 1}, Range{6000, 1})) << "the next part";
}

TEST(SackRanges, ThereIsAlwaysRoomForRepetitions) {
  Reporter receiver;
  for (std::uint32_t psn = 1200; psn < 1600; psn += 2) receiver.receive(psn, psn);
  EXPECT_EQ(receiver.report().size(), 48U) << "three quarters of 64";
  (void)receiver.report();
  for (std::uint32_t psn = 1600; psn < 2000; psn += 2) receiver.receive(psn, psn);
  EXPECT_EQ(receiver.report().size(), 64U);
  EXPECT_EQ(receiver.list(1100, /*mtu=*/256).size(), 16U) << "half of the packet";
}

TEST(SackRanges, AfterARestartAllAreNew) {
  Reporter receiver;
  receiver.receive(1200, 1200);
  (void)receiver.report();
  (void)receiver.report();
  receiver.ranges.restart();
  receiver.receive(1300, 1300);
  EXPECT_THAT(receiver.report(), ElementsAre(Range{1200, 1}, Range{1300, 1}));
}

}  // namespace
}  // namespace brdma::qp
