// Rate controls over whole engines: full rate alone, a fair share for a later flow, reaction to marks and drops.
#include <gtest/gtest.h>

#include "bottlenecks/bottleneck.h"
#include "streams/stream.h"

namespace brdma::test {
namespace {

StreamConfig with(CongestionControl control) {
  StreamConfig config;
  config.congestion.control = control;
  config.delay = 10_us;
  config.requests_posted = 64;
  config.warm_up = 60_ms;
  config.measured = 100_ms;
  return config;
}

// Kmin, Kmax, Pmax for 10 Gbit/s: 100 KB and 400 KB are those of 25.
StreamConfig marked(StreamConfig config) {
  config.marking = fabric::MarkingConfig{40 * 1024, 160 * 1024, 200'000};
  return config;
}

double jain(const StreamResult& result) {
  double sum = 0, squares = 0;
  for (const double share : result.shares) sum += share, squares += share * share;
  return sum * sum / (squares * static_cast<double>(result.shares.size()));
}

TEST(Rate, AloneItIsTheLinks) {
  for (const CongestionControl control : {CongestionControl::kTimely, CongestionControl::kDcqcn}) {
    const StreamResult result = run_stream(with(control));
    EXPECT_GT(result.share, 0.95);
    EXPECT_EQ(result.retransmitted, 0u);
    EXPECT_GT(result.pace_waits, 1'000u);
    EXPECT_LT(result.pace_waits * 2, result.packets) << "no timer a packet";
  }
}

// At defaults, for any port rate: fewer than one in a hundred packets is dropped by the switch and retransmitted. With
// the rates of a port of 10 Gbit/s the queue overflows from the first packets on.
TEST(Rate, FirstAndHighestRateFollowThePort) {
  for (const CongestionControl control :
       {CongestionControl::kTimely, CongestionControl::kDcqcn, CongestionControl::kBoth}) {
    StreamConfig config = with(control);
    config.rate_bps = 1'000'000'000;
    config.delay = 100_us;
    config.switched = true;  // with an uplink that takes everything the host sends
    config.uplink.same = false;
    config.marking = fabric::MarkingConfig{20 * 1024, 80 * 1024, 100'000};
    config.warm_up = Duration{};
    config.measured = 500_ms;
    const StreamResult of_port = run_stream(config);
    config.congestion.rate_first_mbps = config.congestion.rate_max_mbps = 10'000;
    const StreamResult of_ten = run_stream(config);
    SCOPED_TRACE(static_cast<int>(control));
    EXPECT_LT(of_port.retransmitted * 100, of_port.packets);
    EXPECT_GT(of_port.share, 0.85);
    EXPECT_GT(of_ten.queue_dropped, 10 * of_port.queue_dropped);
  }
}

TEST(Rate, WhoComesLaterGetsAFairShare) {
  for (const CongestionControl control : {CongestionControl::kTimely, CongestionControl::kDcqcn}) {
    StreamConfig config = marked(with(control));
    config.flows = 2;
    config.stagger = 20_ms;
    config.measured = 300_ms;
    const StreamResult result = run_stream(config);
    EXPECT_GT(result.share, 0.85);
    EXPECT_GT(jain(result), 0.95);
  }
}

TEST(Rate, DcqcnReactsToMarks) {
  StreamConfig config = marked(with(CongestionControl::kDcqcn));
  config.flows = 4;
  const StreamResult result = run_stream(config);
  EXPECT_GT(result.marked, 100u);
  EXPECT_GT(result.cnps, 100u);
  EXPECT_LE(result.cnps, result.marked);
  EXPECT_GT(result.share, 0.9);
  config.congestion.ecn = EcnField::kOff;  // no marks: the queue overflows
  const StreamResult deaf = run_stream(config);
  EXPECT_EQ(deaf.cnps, 0u);
  EXPECT_GT(deaf.queue_dropped, 10 * result.queue_dropped);
}

TEST(Rate, TimelyReactsToATranslatedRoundTrip) {
  StreamConfig config = with(CongestionControl::kTimely);
  config.marking = fabric::MarkingConfig{8 * 1024, 32 * 1024, 200'000};
  config.flows = 4;
  const StreamResult alone = run_stream(config);
  config.translation = fabric::RttTranslator::Config{.increment = {.longest = 100_us}};
  const StreamResult notified = run_stream(config);
  EXPECT_GT(notified.rewritten, 50u);
  EXPECT_LT(notified.marked * 2, alone.marked) << "a shorter queue";
  EXPECT_GT(notified.share, 0.75);
}

// The requester gets the RTT samples, so the requester is paced. READ streams share the bottleneck as WRITE streams do,
// and keep its queue as short. A single run depends on nanoseconds: the mean of several networks is compared.
TEST(Rate, ReadsUnderTimelyArePacedLikeWrites) {
  constexpr int kNetworks = 6;
  for (const CongestionControl control : {CongestionControl::kTimely, CongestionControl::kBoth}) {
    double share = 0, jain = 0;  // by how much READs' is larger
    for (int i = 0; i < kNetworks; ++i) {
      BottleneckConfig config;
      config.flows = 4;
      config.access = Duration::from_ns(5000 + 13 * i);
      config.host = [control](sim::HostConfig& host) { host.engine.recovery.congestion.control = control; };
      const BottleneckResult writes = run_bottleneck(config);
      config.reads = true;
      const BottleneckResult reads = run_bottleneck(config);
      share += (reads.share - writes.share) / kNetworks;
      jain += (reads.jain - writes.jain) / kNetworks;
      EXPECT_LT(reads.queue_p99, writes.queue_p99 + 16 * 1024) << i;
      EXPECT_EQ(reads.dropped, 0u) << i;
    }
    EXPECT_GT(share, -0.06);
    EXPECT_GT(jain, -0.06);
  }
}

TEST(Rate, AloneAReadStreamGetsTheLinksRate) {
  for (const CongestionControl control :
       {CongestionControl::kTimely, CongestionControl::kDcqcn, CongestionControl::kBoth}) {
    StreamConfig config = with(control);
    config.reads = true;
    const StreamResult result = run_stream(config);
    EXPECT_GT(result.share, 0.95);
    EXPECT_EQ(result.queue_dropped, 0u);
    ASSERT_EQ(result.rates.size(), control == CongestionControl::kDcqcn ? 0u : 1u) << "nobody paces twice";
  }
}

// A path of 10 ms: requests must ask for more, or those in flight would not fill it.
TEST(Rate, ReadsFillALongPathToo) {
  StreamConfig config = with(CongestionControl::kTimely);
  config.delay = 500_us;
  config.rate_bps = 5'000'000'000;
  config.reads = true;
  config.warm_up = 200_ms;
  const StreamResult result = run_stream(config);
  EXPECT_GT(result.share, 0.9);
}

// Two flows through a queue that is shorter than their windows' target: the dropped responses lower the requested rate.
// (Without that it would drop a fifth of them for ever.)
TEST(Window, ReadsStayBelowAQueueThatWasFull) {
  BottleneckConfig config;
  config.reads = true;
  config.access = 12'500_ns;
  config.beyond = 37'500_ns;
  config.queue_bytes = 16 * 4200;
  config.alone = Duration{};
  config.together = 400_ms;
  config.step = 100_ms;
  const BottleneckResult result = run_bottleneck(config);
  const BottleneckStep& settled = result.course.at(1);
  const BottleneckStep& last = result.course.back();
  EXPECT_GT(settled.dropped, 0u) << "the start finds the end of the queue";
  EXPECT_LT((last.dropped - settled.dropped) * 50, last.offered - settled.offered);
  EXPECT_GT(result.share, 0.93);
}

// Drops set the pace: no storm of retransmissions into a full queue.
TEST(Rate, ReportedDropsLowerIt) {
  for (const CongestionControl control :
       {CongestionControl::kWindow, CongestionControl::kTimely, CongestionControl::kDcqcn}) {
    StreamConfig config = with(control);
    config.congestion.rate_max_mbps = 100'000;
    config.delay = 50_us;
    config.requests_posted = 128;
    config.flows = 8;
    config.edn = fabric::EdnForm::kIcmp;
    config.warm_up = 20_ms;
    config.measured = 50_ms;
    const StreamResult notified = run_stream(config);
    EXPECT_GT(notified.share, 0.95);
    EXPECT_LT(notified.queue_dropped * 5, notified.packets);
    config.congestion.edn = false;
    EXPECT_GT(run_stream(config).queue_dropped, 5 * notified.queue_dropped);
  }
}

// Each learns how short the shared queue is, and keeps to a part of it.
TEST(Rate, ManyFlowsWithReportedDropsShareAShortQueue) {
  StreamConfig config;
  config.flows = 32;
  config.measured = 70_ms;
  const StreamResult unnotified = run_stream(config);
  config.edn = fabric::EdnForm::kIcmp;
  const StreamResult notified = run_stream(config);
  EXPECT_LT(notified.queue_dropped * 5, unnotified.queue_dropped);
  EXPECT_LT(notified.notices * 40, notified.packets);
  EXPECT_GT(notified.share, 0.98 * unnotified.share);
}

}  // namespace
}  // namespace brdma::test
