// qp/read/response_pacing.h: the rate at which READ responses are requested.
#include <gtest/gtest.h>

#include <cstdint>

#include "qp/read/response_pacing.h"
#include "qp/state/limits.h"
#include "support/sender_parts.h"

namespace brdma::qp {
namespace {

constexpr std::uint64_t kBurst = 16 * 1024;  // a quarter of the configured one

struct Reader : test::SenderParts {
  explicit Reader(std::uint32_t mbps = 10'000, CongestionControl control = CongestionControl::kTimely) {
    identity.attributes.peer_address = IpAddress::v4(10, 0, 0, 2);
    recovery.congestion.rate_first_mbps = mbps;
    choose(control);
  }
  void choose(CongestionControl control) {
    recovery.congestion.control = control;
    choose_response_pace(environment, identity, signals);
  }
  [[nodiscard]] ResponsePace& pace() { return *signals->responses; }
  [[nodiscard]] std::uint64_t bits() { return pace().rate.rate().bps(); }
  // Tokens that a request for so many of the message's responses takes.
  std::uint64_t charge(const Message& message, std::uint32_t packets) {
    const std::uint64_t before = pace().rate.allowance(now);
    pacing().on_requested(message, packets, now);
    return before - pace().rate.allowance(now);
  }
  void use_up() {
    (void)pace().rate.allowance(now);
    pacing().on_requested(read_of(20), 20, now);
    ASSERT_EQ(pace().rate.allowance(now), 0U);
  }
  [[nodiscard]] static Message read_of(std::uint32_t packets) {
    return {.packets = packets, .length = packets * kMtu, .kind = MessageKind::kRead};
  }
  // A first response. True: it gave a sample.
  bool sampled(Duration round_trip, std::uint64_t arrived) {
    const std::uint64_t before = bits();
    pacing().on_round_trip(round_trip, arrived, now);
    return bits() != before;
  }
};

// --- the choice ---

TEST(ResponsePacing, ExistsWhereTheControlUsesRoundTrips) {
  for (const CongestionControl control : {CongestionControl::kTimely, CongestionControl::kBoth}) {
    Reader reader(10'000, control);
    ASSERT_TRUE(reader.signals && reader.signals->responses);
    EXPECT_EQ(reader.pace().rate.config().control, CongestionControl::kTimely) << "CNPs go to the responder";
  }
  for (const CongestionControl control :
       {CongestionControl::kWindow, CongestionControl::kPaced, CongestionControl::kDcqcn, CongestionControl::kNone}) {
    const Reader reader(10'000, control);
    EXPECT_FALSE(reader.signals) << static_cast<int>(control);
  }
}

TEST(ResponsePacing, EndsWithTheControl) {
  Reader reader;
  reader.choose(CongestionControl::kDcqcn);
  ASSERT_TRUE(reader.signals);
  EXPECT_FALSE(reader.signals->responses);
}

TEST(ResponsePacing, BeginsAtAShareOfThePort) {
  Reader reader;
  reader.environment.active_qps = 3;
  reader.choose(CongestionControl::kBoth);
  EXPECT_EQ(reader.bits(), 10'000'000'000U / 4);
}

TEST(ResponsePacing, ABurstIsAQuarterOfTheConfiguredOne) {
  Reader reader;
  EXPECT_EQ(reader.pace().rate.allowance(reader.now), kBurst);
  reader.recovery.congestion.burst_bytes = 3;
  reader.choose(CongestionControl::kTimely);
  EXPECT_EQ(reader.pace().rate.allowance(reader.now), 1U) << "never nothing";
}

// --- the size of a request ---

// 10 Gbit/s: 25'000 bytes in 20 us.
TEST(ResponsePacing, ARequestIsForATimerIntervalsWorth) {
  Reader reader;
  EXPECT_EQ(reader.pacing().packets_of_request(), 25'000U / 1024);
  reader.identity.attributes.path_mtu = PathMtu::k4096;
  EXPECT_EQ(reader.pacing().packets_of_request(), 25'000U / 4096);
}

TEST(ResponsePacing, ButForAFewPackets) {
  Reader slow(1'000);  // 2'500 bytes in 20 us
  EXPECT_EQ(slow.pacing().packets_of_request(), 16U) << "16 KiB";
}

// 10 Gbit/s: 625'000 bytes in 500 us. All requests together ask for twice as much.
TEST(ResponsePacing, TheAllowedRequestsFillALongPath) {
  Reader reader;
  reader.rtt.sample(500_us, reader.now);
  EXPECT_EQ(reader.pacing().packets_of_request(), 2 * 625'000U / 16 / 1024);
  reader.identity.attributes.max_rd_atomic = 32;
  EXPECT_EQ(reader.pacing().packets_of_request(), 2 * 625'000U / 32 / 1024);
}

TEST(ResponsePacing, NoRequestIsLongerThanAChunk) {
  Reader reader;
  reader.rtt.sample(10_ms, reader.now);
  EXPECT_EQ(reader.pacing().packets_of_request(), kReadChunkBytesMax / 1024);
}

// 62'500 bytes in 50 us.
TEST(ResponsePacing, AQueuePairThatAllowsNoReadCountsAsOneThatAllowsOne) {
  Reader reader;
  reader.identity.attributes.max_rd_atomic = 0;
  reader.rtt.sample(50_us, reader.now);
  EXPECT_EQ(reader.pacing().packets_of_request(), 2 * 62'500U / 1024);
}

// --- tokens ---

// BTH 12, BXTH 32, AETH 4, ICRC 4; Ethernet 14, IPv4 20 or IPv6 40, UDP 8.
TEST(ResponsePacing, ARequestIsChargedWithItsResponsesAndTheirHeaders) {
  Reader reader;
  EXPECT_EQ(reader.charge(Reader::read_of(4), 4), 4 * 1024U + 4 * (52 + 42));
  Reader v6;
  v6.identity.attributes.peer_address = IpAddress{{0xFD, 1}};
  EXPECT_EQ(v6.charge(Reader::read_of(4), 4), 4 * 1024U + 4 * (52 + 62));
  Reader standard;  // BTH and ICRC
  standard.identity.bitmap_agreed = false;
  EXPECT_EQ(standard.charge(Reader::read_of(4), 4), 4 * 1024U + 4 * (16 + 42));
}

TEST(ResponsePacing, OnlyWhatIsRequestedIsCharged) {
  Reader reader;
  EXPECT_EQ(reader.charge(Reader::read_of(4), 2), 2 * 1024U + 2 * 94) << "the others are here";
  EXPECT_EQ(reader.charge({.packets = 1, .length = 100, .kind = MessageKind::kRead}, 1), 100U + 94);
}

TEST(ResponsePacing, OtherMessagesCostNothing) {
  Reader reader;
  for (const MessageKind kind : {MessageKind::kAtomic, MessageKind::kWrite, MessageKind::kSend})
    EXPECT_EQ(reader.charge({.packets = 1, .length = 8, .kind = kind}, 1), 0U) << static_cast<int>(kind);
}

// --- samples ---

// A round trip of 1 ms is far above TIMELY's 500 us: each sample lowers the rate.
TEST(ResponsePacing, OneSampleASegment) {
  Reader reader;
  EXPECT_TRUE(reader.sampled(1_ms, 1'000)) << "the first";
  EXPECT_FALSE(reader.sampled(1_ms, 60'000));
  EXPECT_FALSE(reader.sampled(1_ms, 5'535));
  EXPECT_TRUE(reader.sampled(1_ms, 1)) << "64 KiB";
  EXPECT_FALSE(reader.sampled(1_ms, 65'535)) << "counted from there";
}

TEST(ResponsePacing, OrOneARoundTrip) {
  Reader reader;
  EXPECT_TRUE(reader.sampled(1_ms, 1'000));
  reader.pass(1_ms - kTick);
  EXPECT_FALSE(reader.sampled(1_ms, 1'000));
  reader.pass(kTick);
  EXPECT_TRUE(reader.sampled(1_ms, 1'000));
  reader.pass(1_ms - kTick);
  EXPECT_FALSE(reader.sampled(1_ms, 1'000)) << "since the last sample";
}

// On a path of 10 ms TIMELY's low limit is 10.03 ms: it adds its 10 Mbit/s.
TEST(ResponsePacing, TheLimitsFollowTheReturnPath) {
  Reader reader(1'000);
  reader.responses.congestion().on_acknowledgement(Reader::kMtu, {10_ms}, false, reader.now);
  reader.pacing().on_round_trip(10_ms, 1'000, reader.now);
  EXPECT_EQ(reader.bits(), 1'010'000'000U);
}

// --- waiting ---

TEST(ResponsePacing, AWaitIsCountedOnce) {
  Reader reader;
  reader.use_up();
  reader.pacing().note_waiting(true, reader.now);
  reader.pacing().note_waiting(true, reader.now);
  EXPECT_TRUE(reader.pace().waits);
  EXPECT_EQ(reader.count(Counter::kPaceWaits), 1U);
  reader.pass(1_s);
  reader.pacing().note_waiting(true, reader.now);
  EXPECT_FALSE(reader.pace().waits) << "there are tokens";
  reader.use_up();
  reader.pacing().note_waiting(true, reader.now);
  EXPECT_EQ(reader.count(Counter::kPaceWaits), 2U);
}

TEST(ResponsePacing, NobodyWaitsWithoutARead) {
  Reader reader;
  reader.use_up();
  reader.pacing().note_waiting(false, reader.now);
  EXPECT_FALSE(reader.pace().waits);
  EXPECT_EQ(reader.count(Counter::kPaceWaits), 0U);
}

}  // namespace
}  // namespace brdma::qp
