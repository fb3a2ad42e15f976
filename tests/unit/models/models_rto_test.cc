// RTO of RFC 6298, and the two other clocks: the pacer, InfiniBand's timeout.
#include <gtest/gtest.h>

#include "models/parts/pacer.h"
#include "models/parts/rto.h"
#include "models/rdma/settings.h"

namespace brdma::models {
namespace {

RtoSettings no_minimum() {
  RtoSettings settings;
  settings.minimum = Duration{};
  return settings;
}

TEST(Rto, WorkedExample) {
  RtoEstimator rto{no_minimum()};
  EXPECT_EQ(rto.rto(), 1_s);
  rto.sample(100_us);
  EXPECT_EQ(rto.rto(), 300_us);
  rto.sample(200_us);
  EXPECT_EQ(rto.rttvar(), 62'500_ns);
  EXPECT_EQ(rto.srtt(), 112'500_ns);
  EXPECT_EQ(rto.rto(), 362'500_ns);
}

TEST(Rto, MinimumOf4And200Milliseconds) {
  RtoSettings settings;
  EXPECT_EQ(settings.minimum, 200_ms);
  for (const Duration minimum : {4_ms, 200_ms}) {
    settings.minimum = minimum;
    RtoEstimator rto{settings};
    rto.sample(100_us);
    EXPECT_EQ(rto.rto(), minimum);
  }
}

TEST(Rto, DoublesUntilTheNextSampleOrItsMaximum) {
  RtoSettings settings = no_minimum();
  settings.maximum = 1_ms;
  RtoEstimator rto{settings};
  rto.sample(100_us);
  rto.back_off();
  EXPECT_EQ(rto.rto(), 600_us);
  rto.back_off();
  EXPECT_EQ(rto.rto(), 1_ms);
  EXPECT_EQ(rto.expiries(), 2u);
  rto.sample(100_us);
  EXPECT_EQ(rto.rto(), 250_us);  // RTTVAR 37.5
  EXPECT_EQ(rto.expiries(), 0u);
}

TEST(Rto, GranularityBoundsASteadyPath) {
  RtoSettings settings = no_minimum();
  settings.granularity = 10_us;
  RtoEstimator rto{settings};
  for (int i = 0; i < 100; ++i) rto.sample(100_us);
  EXPECT_EQ(rto.rto(), 110_us);
}

TEST(Pacer, FractionsOfNanosecondsAreNotLost) {
  Pacer pacer;
  Instant now = Instant::from_ns(1000);
  for (int i = 0; i < 1000; ++i) {
    pacer.sent(83'840, now);  // 1048 B at 100 Gbit/s
    now = pacer.ready();
  }
  EXPECT_EQ(now.ns(), 1000 + 83'840);
}

TEST(Pacer, IdleTimeIsNoCredit) {
  Pacer pacer;
  pacer.sent(100'000, Instant::from_ns(0));
  EXPECT_EQ(pacer.ready().ns(), 100);
  pacer.sent(100'000, Instant::from_ns(5000));
  EXPECT_EQ(pacer.ready().ns(), 5100);
}

TEST(LocalAckTimeout, Is4096NanosecondsTimesAPowerOfTwo) {
  EXPECT_EQ(rdma::local_ack_timeout(0), Duration{});
  EXPECT_EQ(rdma::local_ack_timeout(1), 8192_ns);
  EXPECT_EQ(rdma::local_ack_timeout(10), 4'194'304_ns);
  EXPECT_EQ(rdma::local_ack_timeout(14), 67'108'864_ns);
}

}  // namespace
}  // namespace brdma::models
