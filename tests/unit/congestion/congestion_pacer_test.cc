// The token bucket: exact over any division into packets and times, bursts bounded, few wakes.
#include <gtest/gtest.h>

#include "base/random.h"
#include "congestion/pacer.h"

namespace brdma::congestion {
namespace {

Instant at(std::int64_t ns) { return Instant::from_ns(ns); }
Bandwidth bps(std::uint64_t value) { return Bandwidth::from_bps(value); }

TEST(Pacer, BeginsWithABurstAndThenGivesItsRate) {
  Pacer pacer({.burst_bytes = 10'000, .interval = Duration{}}, bps(8'000'000'000));  // a byte a nanosecond
  EXPECT_EQ(pacer.allowance(at(1'000)), 10'000u);
  pacer.spend(10'000);
  EXPECT_EQ(pacer.allowance(at(1'000)), 0u);
  EXPECT_EQ(pacer.ready_at(), at(1'001));
  EXPECT_EQ(pacer.allowance(at(1'500)), 500u);
}

TEST(Pacer, ALargerBurstMakesUpForALaterTimer) {
  Pacer pacer({.burst_bytes = 1'000, .interval = Duration{}}, bps(8'000'000'000));
  pacer.set_burst(5'000);
  EXPECT_EQ(pacer.allowance(at(0)), 1'000u) << "what is there stays";
  EXPECT_EQ(pacer.allowance(at(10'000)), 5'000u);
  pacer.set_burst(2'000);
  EXPECT_EQ(pacer.allowance(at(20'000)), 2'000u);
}

TEST(Pacer, ADebtIsPaidBeforeTheNextPacket) {
  Pacer pacer({.burst_bytes = 1'000, .interval = Duration{}}, bps(8'000'000'000));
  ASSERT_EQ(pacer.allowance(at(0)), 1'000u);
  pacer.spend(4'096);
  EXPECT_EQ(pacer.ready_at(), at(3'097));
  EXPECT_EQ(pacer.allowance(at(3'096)), 0u);
  EXPECT_EQ(pacer.allowance(at(3'097)), 1u);
}

// Odd rates, odd sizes, odd times: after any of them as many bytes have left as the rate gives, to the last packet.
TEST(Pacer, DoesNotDrift) {
  Random random(1, "pacer");
  for (const std::uint64_t rate : {1'000'003ull, 333'333'333ull, 9'999'999'967ull, 100'000'000'007ull}) {
    Pacer pacer({.burst_bytes = 65'536, .interval = 20_us}, bps(rate));
    std::uint64_t sent = 0, first = 0;
    Instant now = at(0), begun;
    while (sent < 5'000'000) {
      now = std::max(now, pacer.ready_at());
      for (std::uint64_t allowed = pacer.allowance(now); allowed > 0; allowed = pacer.allowance(now)) {
        const std::uint64_t packet = 64 + random.below(4'200);
        pacer.spend(packet);
        sent += packet;
        if (first == 0 && sent >= 65'536) first = sent, begun = now;
      }
      // A timer may come late, by less than the burst lasts.
      now = now + Duration::from_ns(static_cast<std::int64_t>(random.below(1'000)));
    }
    const auto given = static_cast<double>(rate) * static_cast<double>((now - begun).ns()) / 8e9;
    EXPECT_NEAR(static_cast<double>(sent - first), given, 2 * 4'264 + static_cast<double>(rate) * 40e-6 / 8) << rate;
  }
}

TEST(Pacer, FewWakesNotOneAPacket) {
  Pacer pacer({.burst_bytes = 65'536, .interval = 20_us}, bps(10'000'000'000));
  unsigned wakes = 0, packets = 0;
  for (Instant now = at(0); now < at(10'000'000); now = pacer.ready_at(), ++wakes) {
    for (; pacer.allowance(now) > 0; ++packets) pacer.spend(1'066);
  }
  EXPECT_GT(packets, 11'600u);  // 10 ms of 10 Gbit/s
  EXPECT_LE(wakes, 501u);       // 20 us each
}

TEST(Pacer, ATimerThatComesLateLosesNothingUpToTheBurst) {
  Pacer pacer({.burst_bytes = 20'000, .interval = Duration{}}, bps(8'000'000'000));
  pacer.spend(20'000);
  EXPECT_EQ(pacer.allowance(at(15'000)), 15'000u);
  pacer.spend(15'000);
  EXPECT_EQ(pacer.allowance(at(100'000)), 20'000u);
}

TEST(Pacer, AnotherRateHoldsFromThenOn) {
  Pacer pacer({.burst_bytes = 100'000, .interval = Duration{}}, bps(8'000'000'000));
  pacer.spend(100'000);
  pacer.set_rate(bps(800'000'000), at(1'000));
  EXPECT_EQ(pacer.allowance(at(2'000)), 1'100u);
}

TEST(Pacer, ABurstSmallerThanTheIntervalGivesIsNoEndlessWait) {
  Pacer pacer({.burst_bytes = 100, .interval = 10_ms}, bps(8'000'000'000));
  pacer.spend(100);
  EXPECT_EQ(pacer.ready_at(), at(50));
  EXPECT_EQ(pacer.allowance(at(100)), 100u);
}

}  // namespace
}  // namespace brdma::congestion
