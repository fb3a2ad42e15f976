// Whole flows against theory: throughput over loss, the sawtooth over the buffer, fairness, completion times.
#include <gtest/gtest.h>

#include <cmath>

#include "bottleneck.h"

namespace brdma::models::bottleneck {
namespace {

constexpr std::uint32_t kPayload = 1000;
const Bandwidth k10G = Bandwidth::from_bps(10'000'000'000);
const Bandwidth k100G = Bandwidth::from_bps(100'000'000'000);

tcp::Settings tcp_of(std::string_view name, Duration rtt) {
  auto settings = std::get<tcp::Settings>(*find_protocol(name, {k10G, rtt}, kPayload));
  settings.rto.minimum = 4_ms;
  return settings;
}
rdma::Settings rdma_of(std::string_view name, Bandwidth rate, Duration rtt) {
  return std::get<rdma::Settings>(*find_protocol(name, {rate, rtt}, kPayload));
}

// Throughput over 1.22 / sqrt(p) segments a round trip of 1 ms: 300 losses, after a start of 300 round trips.
double reno_ratio(const tcp::Settings& settings, Options options, double p) {
  options.one_way = 500_us;
  options.rate = Bandwidth::from_bps(1'000'000'000'000);
  Network network{options};
  const FlowId flow = network.add(settings, 1'000'000'000'000);
  network.run_until(300_ms);
  const std::uint64_t before = network.receiver(flow).in_order();
  const double expected = std::sqrt(1.5 / p);
  const auto rounds = static_cast<std::int64_t>(300 / p / expected);
  network.run_until(300_ms + 1_ms * rounds);
  const auto segments = static_cast<double>(network.receiver(flow).in_order() - before) / kPayload;
  return segments / static_cast<double>(rounds) / expected;
}
Options random_loss(std::uint32_t per_million) {
  Options options;
  options.loss_per_million = per_million;
  return options;
}
Options each(std::uint64_t nth) {
  Options options;
  options.loss_every = nth;
  return options;
}

TEST(RenoTheory, ThroughputIs122OverTheRootOfTheLoss) {
  for (const std::string_view name : {"tcp", "tcp-newreno", "tcp-tlp"}) {
    for (const std::uint32_t per_million : {1000u, 3000u, 5000u}) {
      EXPECT_NEAR(reno_ratio(tcp_of(name, 1_ms), random_loss(per_million), per_million / 1e6), 1, 0.1)
          << name << " at " << per_million << " in a million";
    }
    EXPECT_NEAR(reno_ratio(tcp_of(name, 1_ms), each(1000), 0.001), 1, 0.1) << name;
  }
}

// At 1 % the window is 12 segments: the round trip of recovery and the unused part of a segment count.
TEST(RenoTheory, SmallWindowsStayBelow) {
  const double ratio = reno_ratio(tcp_of("tcp", 1_ms), random_loss(10'000), 0.01);
  EXPECT_GT(ratio, 0.85);
  EXPECT_LT(ratio, 1);
}

TEST(RenoTheory, DelayedAcksGive087) {
  tcp::Settings settings = tcp_of("tcp", 1_ms);
  settings.ack_every = 2;
  EXPECT_NEAR(reno_ratio(settings, random_loss(1000), 0.001), std::sqrt(0.5), 0.1 * std::sqrt(0.5));
}

// Reno-friendly: AIMD(0.529, 0.7) has the same throughput, sqrt(0.529 * 1.7 / (2 * 0.3 p)).
TEST(CubicTheory, IsRenosThroughputWhereRoundTripsAreShort) {
  EXPECT_NEAR(std::sqrt(0.529 * 1.7 / 0.6), std::sqrt(1.5), 0.001);
  EXPECT_NEAR(reno_ratio(tcp_of("tcp-cubic", 1_ms), each(1000), 0.001), 1, 0.1);
}

// One flow, a path of 100 packets, a buffer of `packets`; the window swings between W and W / 2, W = 100 + buffer.
double utilisation(std::uint64_t packets) {
  constexpr std::uint64_t kWire = kPayload + 70;
  Options options;
  options.rate = k10G;
  options.one_way = 42'800_ns - 428_ns;  // 100 packets of 856 ns in all, with the time on the link
  options.buffer = packets * kWire;
  Network network{options};
  network.add(tcp_of("tcp", 85'600_ns), 10'000'000ull * kPayload);
  network.run_until(20_ms);
  const std::uint64_t before = network.sent_bytes();
  network.run_until(220_ms);
  return static_cast<double>(network.sent_bytes() - before) * 8 / 0.2 / 1e10;
}

// The pipe and the packet on the link hold 100; beyond, b wait. From (100 + b) / 2 the window grows by one a round
// trip.
double sawtooth(double b) {
  const double low = (100 + b) / 2;
  double sent = 0;
  double time = 0;
  for (double window = low; window < 100 + b; window += 1) {
    sent += window;
    time += std::max(window, 100.0);
  }
  return sent / time;
}

TEST(RenoTheory, SawtoothOverTheBuffer) {
  EXPECT_NEAR(sawtooth(0), 0.75, 0.01);
  EXPECT_NEAR(utilisation(3), sawtooth(3), 0.02);
  EXPECT_NEAR(utilisation(25), sawtooth(25), 0.02);
  EXPECT_NEAR(utilisation(105), 1, 0.02);
}

double jain(double a, double b) { return (a + b) * (a + b) / (2 * (a * a + b * b)); }

TEST(DcqcnTheory, TwoFlowsFromUnequalRatesConverge) {
  Options options;
  options.rate = k10G;
  options.host_rate = k10G;
  options.one_way = 4_us;
  options.ecn = EcnThresholds::hpcc(k10G);
  Network network{options};
  rdma::Settings settings = rdma_of("dcqcn-paper", k10G, 10_us);
  const FlowId fast = network.add(settings, 10'000'000'000);
  const FlowId slow = network.add(settings, 10'000'000'000, 20_ms);
  network.run_until(20_ms + 100_us);
  for (int i = 0; i < 20; ++i) {  // the second is cut alone: a start from unequal rates
    Frame cnp;
    cnp.flow = slow;
    cnp.kind = FrameKind::kCnp;
    network.sender(slow).on_frame(cnp, Instant{} + 20_ms + 100_us + 50_us * i);
  }
  network.run_until(21_ms + 50_us);
  const double before = jain(static_cast<double>(network.sender(fast).rate().bps()),
                             static_cast<double>(network.sender(slow).rate().bps()));
  EXPECT_LT(before, 0.9);
  network.run_until(300_ms);
  const std::uint64_t fast_bytes = network.receiver(fast).in_order();
  const std::uint64_t slow_bytes = network.receiver(slow).in_order();
  network.run_until(500_ms);
  const double a = static_cast<double>(network.receiver(fast).in_order() - fast_bytes);
  const double b = static_cast<double>(network.receiver(slow).in_order() - slow_bytes);
  EXPECT_GT(jain(a, b), 0.99);
  EXPECT_GT((a + b) * 8 / 0.2 / 1e10, 0.85);
  EXPECT_EQ(network.dropped(), 0u);
}

TEST(SwiftTheory, TwoFlowsShareAndKeepTheQueueBelowTheirTarget) {
  Options options;
  options.rate = k10G;
  options.host_rate = k10G;
  options.one_way = 5_us;
  Network network{options};
  rdma::Settings settings = rdma_of("swift", k10G, 12_us);
  settings.swift.hops = 1;
  const FlowId first = network.add(settings, 1'000'000'000);
  const FlowId second = network.add(settings, 1'000'000'000, 1_ms);
  network.run_until(20_ms);
  const std::uint64_t first_bytes = network.receiver(first).in_order();
  const std::uint64_t second_bytes = network.receiver(second).in_order();
  network.run_until(60_ms);
  const double a = static_cast<double>(network.receiver(first).in_order() - first_bytes);
  const double b = static_cast<double>(network.receiver(second).in_order() - second_bytes);
  EXPECT_GT(jain(a, b), 0.95);
  EXPECT_GT((a + b) * 8 / 0.04 / 1e10, 0.85);
  EXPECT_LT(network.queued_max(), 100'000u);
}

TEST(OneFlow, CompletesInTheStandaloneTimeToTheNanosecond) {
  for (const std::string_view name : {"rdma", "irn", "irn-ns3", "dcqcn", "rdma-edn"}) {
    Options options;
    options.rate = k100G;
    options.host_rate = k100G;
    options.one_way = 1_us;
    rdma::Settings settings = rdma_of(name, k100G, 1_ms);  // no cap is reached
    Network network{options};
    const FlowId flow = network.add(settings, 100ull * kPayload);
    ASSERT_TRUE(network.run_until_done(1_s));
    const Duration packet = k100G.time_for(kPayload + 62);
    EXPECT_EQ(*network.ended(flow) - Instant{}, packet * 101 + 2_us) << name;  // two links, the second in a row
    EXPECT_EQ(network.sender(flow).counters().sent, 100u) << name;
  }
}

// 1 % of random loss: all arrives, and what each rule sends again.
struct Repeated {
  std::uint64_t sent;
  std::uint64_t again;
  std::uint64_t timeouts;
};
Repeated over_loss(std::string_view name) {
  Options options;
  options.rate = k100G;
  options.host_rate = k100G;
  options.one_way = 5_us;
  options.loss_per_million = 10'000;
  options.notifies = true;
  Network network{options};
  const auto protocol = find_protocol(name, {k100G, 12_us}, kPayload);
  const FlowId flow = network.add(*protocol, 20'000ull * kPayload);
  EXPECT_TRUE(network.run_until_done(100_s)) << name;
  EXPECT_EQ(network.receiver(flow).in_order(), 20'000ull * kPayload) << name;
  const Counters& counters = network.sender(flow).counters();
  EXPECT_EQ(counters.sent, 20'000 + counters.retransmitted()) << name;
  return {counters.sent, counters.retransmitted(), counters.timeouts};
}

TEST(OverLoss, EachProtocolDeliversAllBytes) {
  for (const std::string_view name : kProtocolNames) {
    if (name == "rdma-notimer") continue;  // a lost tail waits for ever
    over_loss(name);
  }
}

TEST(OverLoss, GoBackNRepeatsAWindowAndIrnAPacketPerLoss) {
  const Repeated go_back = over_loss("rdma");
  const Repeated irn = over_loss("irn");
  const Repeated ns3 = over_loss("irn-ns3");
  EXPECT_GT(go_back.again, 20 * irn.again);
  EXPECT_LT(irn.again, 300u);  // 200 losses and those of retransmissions
  EXPECT_GT(ns3.again, 5 * irn.again);
}

TEST(OverLoss, NotifiedDropsNeedNoTimeout) {
  for (const std::string_view name : {"tcp-edn", "rdma-edn", "irn-edn", "gobackn-edn"}) {
    EXPECT_EQ(over_loss(name).timeouts, 0u) << name;
  }
  EXPECT_LT(over_loss("rdma-edn").again, 300u);
}

TEST(OverLoss, OneSeedOneResult) { EXPECT_EQ(over_loss("tcp-tlp").sent, over_loss("tcp-tlp").sent); }

}  // namespace
}  // namespace brdma::models::bottleneck
