// Packets lie in a host until its program gets a core (docs/reference/wire.md#bitmap-acknowledgement): both hosts
// report how long, and congestion control uses the rest of the round trip.
#include <gmock/gmock.h>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

constexpr Duration kWay = 20_us;

struct Waits : testing::Test {
  TwoEngines pair{options()};
  static PairOptions options() {
    PairOptions options;
    options.one_way_delay = kWay;
    return options;
  }
  void write(std::uint32_t bytes, std::uint64_t number) {
    ASSERT_TRUE(pair.post(0, pair.write(0, 0, bytes, number)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    ASSERT_EQ(pair.poll(0).at(0).status, CompletionStatus::kSuccess);
  }
  [[nodiscard]] qp::Requester::Snapshot sender() const { return pair.side[0].qp->requester().snapshot(); }
};

TEST_F(Waits, TheAcknowledgementStatesHowLongThePacketLay) {
  pair.waits[1] = 300_us;
  write(64, 1);
  const auto ack =
      std::ranges::find_if(pair.wire, [](const Sent& sent) { return sent.control(wire::Control::kBitmapAck); });
  ASSERT_NE(ack, pair.wire.end());
  const auto packet = ack->packet();
  const auto said = wire::parse_bitmap_ack(packet.payload, packet.bth.psn);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->waited, Duration::from_ns(300'000 / 256 * 256));
}

TEST_F(Waits, NothingIsReportedOfPacketsThatDidNotWait) {
  write(64, 1);
  const auto ack =
      std::ranges::find_if(pair.wire, [](const Sent& sent) { return sent.control(wire::Control::kBitmapAck); });
  ASSERT_NE(ack, pair.wire.end());
  EXPECT_EQ(ack->packet().payload.size(), wire::kBitmapAckSize);
}

TEST_F(Waits, NoneOfItCountsAsThePath) {
  pair.waits[0] = 100_us;
  pair.waits[1] = 300_us;
  for (std::uint64_t n = 0; n < 20; ++n) write(64, n);
  EXPECT_GE(sender().srtt, kWay * 2 + 400_us) << "a timeout has to wait for all of it";
  EXPECT_GE(sender().base_rtt, kWay * 2);
  EXPECT_LE(sender().base_rtt, kWay * 2 + 2_us);
}

// A host that is away again and again is no queue: the data in flight may grow to the window of credit.
TEST_F(Waits, TheWindowGrowsThough) {
  pair.waits[1] = 20_us;
  write(1u << 20, 0);
  for (std::uint64_t n = 1; n < 20; ++n) {
    pair.waits[1] = Duration::from_ns(static_cast<std::int64_t>(n % 5) * 500'000);
    write(1u << 20, n);
  }
  EXPECT_GE(sender().congestion_bytes, 512u * 1024);
}

}  // namespace
}  // namespace brdma::test
