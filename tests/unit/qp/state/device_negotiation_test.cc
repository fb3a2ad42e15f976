// Negotiation of bitmap mode: late, over silent paths.
#include <gtest/gtest.h>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

bool both_agreed(const TwoEngines& pair) {
  return pair.side[0].qp->identity().bitmap_agreed && pair.side[1].qp->identity().bitmap_agreed;
}

// The first side's queries found nobody. So the second side's query is answered by another query.
TEST(Negotiation, ASideThatComesLateAgreesWithinTwoRoundTrips) {
  for (const Duration late : {600_us, 3_ms, 30_ms, 1_s}) {
    SCOPED_TRACE(late.ns());
    PairOptions options;
    options.connect = false;
    TwoEngines pair{options};
    pair.connect(0);
    pair.run_for(late);
    pair.connect(1);
    pair.run_for(options.one_way_delay * 4 + 1_us);
    EXPECT_TRUE(both_agreed(pair));
  }
}

class SilentPath : public testing::TestWithParam<std::tuple<int, std::uint16_t>> {};

TEST_P(SilentPath, OfFourKeepsNobodyFromAgreeing) {
  const auto [from, path] = GetParam();
  for (const Duration late : {0_us, 300_us, 10_ms, 90_ms, 1_s}) {
    for (const int first : {0, 1}) {
      SCOPED_TRACE(testing::Message() << "late by " << late.ns() << " ns, first " << first);
      PairOptions options;
      options.connect = false;
      options.paths = 4;
      TwoEngines pair{options};
      const auto silent = static_cast<std::uint16_t>(pair.side[from].config.source_ports[0] + path);
      pair.drop = [from = from, silent](const Sent& sent) { return sent.from == from && sent.source_port == silent; };
      pair.connect(first);
      pair.run_for(late);
      pair.connect(1 - first);
      pair.run_for(200_ms);
      EXPECT_TRUE(both_agreed(pair));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SilentPath, testing::Combine(testing::Values(0, 1), testing::Values(0, 1, 2, 3)));

}  // namespace
}  // namespace brdma::test
