// Streams between two hosts: does one fill its link, does it retransmit needlessly, how much goodput is left when
// packets are lost or hosts lose their cores, do two share.
#include "streams/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace brdma::test {
namespace {

constexpr double kPayloadShare = 0.976;  // of a frame of 4096 bytes of data
constexpr sim::Stalls kBusy{20_ms, 3_ms};

StreamConfig at(std::uint64_t mbit) {
  StreamConfig config;
  config.rate_bps = mbit * 1'000'000;
  config.requests_posted = 128;
  config.measured = mbit < 1000 ? 1_s : 300_ms;
  return config;
}

std::string text(const StreamConfig& config, const StreamResult& result) {
  return std::to_string(config.rate_bps / 1'000'000) + " Mbit/s: share " + std::to_string(result.share) + ", " +
         std::to_string(result.packets) + " packets, " + std::to_string(result.retransmitted) + " again (" +
         std::to_string(result.by_probe) + " by probe, " + std::to_string(result.by_timeout) + " by timeout), " +
         std::to_string(result.queue_dropped) + " dropped by the queue";
}

TEST(Stream, FillsALinkAndSendsNothingTwice) {
  for (const std::uint64_t mbit : {100u, 1000u, 2000u, 10'000u}) {
    const StreamConfig config = at(mbit);
    const StreamResult result = run_stream(config);
    SCOPED_TRACE(text(config, result));
    EXPECT_GT(result.share, 0.99 * kPayloadShare);
    EXPECT_LE(result.retransmitted, result.queue_dropped + result.packets / 1000);
    EXPECT_LE(result.queue_dropped, result.packets / 200) << "at its start";
  }
}

// One packet in a few thousand is answered milliseconds late; packets sent meanwhile wait in the socket.
TEST(Stream, AReceiverThatLosesItsCoreIsNotWaitedFor) {
  for (const std::uint64_t mbit : {100u, 1000u, 2000u}) {
    StreamConfig config = at(mbit);
    config.receiver_stalls = kBusy;
    const StreamResult result = run_stream(config);
    SCOPED_TRACE(text(config, result));
    EXPECT_GT(result.share, 0.95 * kPayloadShare);
    EXPECT_LE(result.retransmitted, result.queue_dropped + result.packets / 1000);
  }
}

// Also one that is never there for long: its acknowledgements come in bursts of a window.
TEST(Stream, AReceiverThatIsOftenAwayIsNotWaitedFor) {
  for (const std::uint64_t mbit : {1000u, 2000u, 10'000u}) {
    StreamConfig config = at(mbit);
    config.receiver_stalls = {100_us, 300_us};
    const StreamResult result = run_stream(config);
    SCOPED_TRACE(text(config, result));
    EXPECT_GT(result.share, 0.95 * kPayloadShare);
    EXPECT_LE(result.retransmitted, result.queue_dropped + result.packets / 1000);
  }
}

// A sender away for a twentieth of the time and for longer than its queue lasts cannot make up for it.
TEST(Stream, HostsThatLoseTheirCoresRetransmitNothingForIt) {
  for (const std::uint64_t mbit : {100u, 1000u, 2000u, 10'000u}) {
    StreamConfig config = at(mbit);
    config.sender_stalls = config.receiver_stalls = kBusy;
    const StreamResult result = run_stream(config);
    SCOPED_TRACE(text(config, result));
    EXPECT_GT(result.share, (mbit < 10'000 ? 0.88 : 0.8) * kPayloadShare);
    EXPECT_LE(result.retransmitted, result.queue_dropped + result.packets / 1000);
  }
}

TEST(Stream, LossCostsLittleMoreThanWhatIsLost) {
  for (const bool busy : {false, true}) {
    for (const std::uint64_t mbit : {1000u, 2000u, 10'000u}) {
      StreamConfig config = at(mbit);
      if (busy) config.sender_stalls = config.receiver_stalls = kBusy;
      const double clean = run_stream(config).share;
      for (const auto& [ppm, share] : {std::pair{10'000u, 0.95}, std::pair{50'000u, 0.85}}) {
        config.loss_ppm = ppm;
        const StreamResult result = run_stream(config);
        SCOPED_TRACE(text(config, result) + ", lost " + std::to_string(result.lost));
        EXPECT_GT(result.share, share * clean);
        EXPECT_LE(result.retransmitted, (result.lost + result.queue_dropped) * 11 / 10 + result.packets / 1000);
      }
    }
  }
}

// The retransmission after an FFM takes longer here than the first repetition waits.
TEST(Stream, LossOnALongPathIsRepairedOnce) {
  for (const std::int64_t delay_us : {200, 500, 1000, 2000}) {
    StreamConfig config = at(200);
    config.delay = 1_us * delay_us;
    config.loss_ppm = 10'000;
    const StreamResult result = run_stream(config);
    SCOPED_TRACE(text(config, result) + ", " + std::to_string(result.lost) + " lost");
    EXPECT_LE(result.retransmitted, result.lost + result.queue_dropped + result.packets / 1000);
  }
}

TEST(Stream, TwoShareALinkAndNeitherStarves) {
  for (const bool busy : {false, true}) {
    for (const std::uint64_t mbit : {1000u, 10'000u}) {
      StreamConfig config = at(mbit);
      config.flows = 2;
      config.warm_up = 1_s;
      if (busy) config.sender_stalls = config.receiver_stalls = kBusy;
      const StreamResult result = run_stream(config);
      SCOPED_TRACE(text(config, result));
      EXPECT_GT(*std::min_element(result.shares.begin(), result.shares.end()), 0.15);
      EXPECT_LE(result.queue_dropped, result.packets / 100);
    }
  }
}

// Within the tolerance of eight packets and 50 us, also where several are held back at once.
TEST(Stream, ReorderingWithinTheToleranceIsNoLoss) {
  for (const std::uint64_t mbit : {2000u, 10'000u}) {
    StreamConfig config = at(mbit);
    config.reorder_ppm = 20'000;
    config.reorder_depth = mbit < 10'000 ? 2 : 4;  // 2 Gbit/s: 17 us a packet
    const StreamResult result = run_stream(config);
    SCOPED_TRACE(text(config, result));
    EXPECT_GT(result.share, 0.98 * kPayloadShare);
    EXPECT_LE(result.retransmitted, result.queue_dropped + result.packets / 1000);
  }
}

TEST(Stream, ReadsGoOnUnderLoss) {
  for (const std::uint64_t mbit : {1000u, 2000u, 10'000u}) {
    StreamConfig config = at(mbit);
    config.reads = true;
    const double clean = run_stream(config).share;
    EXPECT_GT(clean, 0.99 * kPayloadShare);
    config.loss_ppm = 50'000;
    const StreamResult result = run_stream(config);
    SCOPED_TRACE(text(config, result));
    EXPECT_GT(result.share, 0.85 * clean);
  }
}

// 1 Gbit/s and 20 ms, and an application that posts more than path and queue hold, but less than the window has grown
// to.
TEST(Stream, ASlowLongPathIsFilledAndItsQueueIsNotOverflowed) {
  StreamConfig config = at(1000);
  config.delay = 10_ms;
  config.queue_bytes = 4u << 20;
  config.switched = true;
  config.requests_posted = 128;
  config.warm_up = 500_ms;
  config.measured = 1_s;
  const StreamResult result = run_stream(config);
  SCOPED_TRACE(text(config, result));
  EXPECT_GT(result.share, 0.98 * kPayloadShare);
  EXPECT_LT(result.retransmitted, 100u);
}

// An application that keeps posted twice the capacity of the path: when a gap closes all of it completes, and is posted
// again.
TEST(Stream, OnALongPathTheDefaultWindowDoesNotLeaveAsOneBurst) {
  StreamConfig config = at(1000);
  config.delay = 10_ms;
  config.queue_bytes = 625'000;  // a quarter of the path's capacity
  config.requests_posted = 76;
  config.warm_up = 1_s;
  config.measured = 2_s;
  config.loss_ppm = 100;
  const StreamResult result = run_stream(config);
  SCOPED_TRACE(text(config, result));
  EXPECT_GT(result.share, 0.9 * kPayloadShare);
  EXPECT_LT(result.queue_dropped, 500u);
}

// Losses at the start of a paced window, which doubles, if the queue is a quarter of the path.
TEST(Stream, TheStartOfAPacedFlowLosesLittle) {
  StreamConfig config = at(10'000);
  config.delay = 5_ms;
  config.queue_bytes = 3u << 20;
  config.congestion.control = CongestionControl::kPaced;
  config.window = config.receive_packets = 16384;
  config.receive_bytes = 64u << 20;
  config.requests_posted = 1024;
  config.warm_up = 300_ms;
  config.measured = 100_ms;
  const StreamResult result = run_stream(config);
  SCOPED_TRACE(text(config, result));
  EXPECT_GT(result.share, 0.98 * kPayloadShare);
  EXPECT_LT(result.queue_dropped, 2000u);
}

// Hosts that lose their cores now and then: late acknowledgements make the delivered rate look lower than it is. A rate
// that follows the delivered rate must not sink with it.
TEST(Stream, ARateThatIsSpreadDoesNotFallOnBusyHosts) {
  StreamConfig config = at(200);
  config.mode = RecoveryMode::kWan;
  config.delay = 5_ms;
  config.mtu = PathMtu::k1024;
  config.sender_stalls = config.receiver_stalls = {.every = 500_us, .length_max = 1_ms};
  config.requests_posted = 128;
  config.warm_up = 2_s;
  config.measured = 2_s;
  const StreamResult result = run_stream(config);
  SCOPED_TRACE(text(config, result));
  EXPECT_GT(result.share, 0.72) << "0.69 where a sixteenth is all that is tried";
}

// Delivered and sent bytes are counted without headers. At path MTU 1024 headers exceed the margin that is tried beyond
// the delivered rate. If they counted, the rate would sink round by round.
TEST(Stream, ARateThatIsSpreadDoesNotSinkByItsHeaders) {
  StreamConfig config = at(200);
  config.mode = RecoveryMode::kWan;
  config.delay = 25_ms;
  config.mtu = PathMtu::k1024;
  config.window = config.receive_packets = 16384;
  config.receive_bytes = 64u << 20;
  config.requests_posted = 128;
  config.warm_up = 4_s;
  config.measured = 2_s;
  const StreamResult result = run_stream(config);
  SCOPED_TRACE(text(config, result));
  EXPECT_GT(result.share, 0.87);
}

// Loss judged by a TCP sender's rules recovers single losses as fast as bitmap mode does; reordering counts as loss.
TEST(Stream, TheSelectiveBaselineRecoversLossAndMistakesReordering) {
  StreamConfig config = at(10'000);
  config.measured = 100_ms;
  config.flight_log = true;
  config.loss_ppm = 10'000;
  config.mode = RecoveryMode::kSelective;
  const StreamResult lossy = run_stream(config);
  EXPECT_GT(lossy.share, 0.95 * kPayloadShare);
  EXPECT_LE(lossy.spurious, lossy.packets / 1000);
  config.loss_ppm = 0;
  config.reorder_ppm = 50'000;
  config.reorder_depth = 32;
  const StreamResult mistaken = run_stream(config);
  EXPECT_GT(mistaken.spurious, mistaken.packets / 100);
  config.mode = RecoveryMode::kBitmap;
  const StreamResult learnt = run_stream(config);
  EXPECT_LT(learnt.spurious, learnt.packets / 1000);
  EXPECT_GT(learnt.share, mistaken.share);
}

// A lost READ request shows by later ones that have arrived: the responses of none of them come before it comes again.
TEST(Stream, TheSelectiveBaselineRecoversLostReadRequestsWithoutTimeouts) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    StreamConfig config = at(10'000);
    config.reads = true;
    config.mode = RecoveryMode::kSelective;
    config.request_bytes = 65'536;
    config.requests_posted = 4;
    config.measured = 50_ms;
    config.loss_ppm = 10'000;
    config.seed = seed;
    const StreamResult result = run_stream(config);
    SCOPED_TRACE(text(config, result));
    EXPECT_GT(result.lost, 100u);
    EXPECT_EQ(result.by_timeout, 0u);
    config.mode = RecoveryMode::kBitmap;
    EXPECT_GT(result.share, 0.95 * run_stream(config).share);
  }
}

// The baseline is as fast as bitmap mode without loss.
TEST(Stream, GoBackNFillsALinkThatLosesNothing) {
  for (const std::uint64_t mbit : {1000u, 10'000u}) {
    StreamConfig config = at(mbit);
    config.mode = RecoveryMode::kGoBackN;
    const StreamResult result = run_stream(config);
    SCOPED_TRACE(text(config, result));
    EXPECT_GT(result.share, 0.9);
  }
}

}  // namespace
}  // namespace brdma::test
