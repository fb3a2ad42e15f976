// brdma perf: percentiles and their intervals, warm-up, differences. Expected values are those of tables of the
// binomial and of Student's distribution.
#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "values/flows.h"
#include "values/samples.h"

namespace brdma::perf {
namespace {

TEST(PerfQuantile, RanksAreThoseOfTheBinomialDistribution) {
  struct Case {
    std::size_t n;
    double p;
    std::size_t low, high;
  };
  for (const Case& each : std::vector<Case>{{10, 0.5, 2, 9},  // covers 97.9 %
                                            {100, 0.5, 40, 61},
                                            {5, 0.5, 0, 6},  // too few samples for either end
                                            {100, 0.99, 97, 101},
                                            {1000, 0.99, 983, 997}}) {
    const Ranks ranks = quantile_ranks(each.n, each.p);
    EXPECT_EQ(ranks.low, each.low) << each.n << " " << each.p;
    EXPECT_EQ(ranks.high, each.high) << each.n << " " << each.p;
  }
}

TEST(PerfQuantile, TheIntervalCoversTheTrueMedianAsOftenAsItSays) {
  Random random{7};
  int covered = 0;
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<std::uint64_t> samples;
    for (int i = 0; i < 51; ++i) samples.push_back(random.below(1'000'000));
    std::sort(samples.begin(), samples.end());
    const Estimate median = quantile(samples, 0.5);
    covered += *median.low <= 500'000 && *median.high >= 500'000 ? 1 : 0;
  }
  EXPECT_GE(covered, kTrials * 94 / 100);
  EXPECT_LE(covered, kTrials * 99 / 100);
}

TEST(PerfQuantile, ValueIsTheNearestRank) {
  const std::vector<std::uint64_t> samples{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(quantile(samples, 0.5).value, 5);
  EXPECT_EQ(quantile(samples, 0.9).value, 9);
  EXPECT_EQ(quantile(samples, 0.999).value, 10);
  EXPECT_EQ(quantile(samples, 0.5).low, 2);
  EXPECT_EQ(quantile(samples, 0.5).high, 9);
  EXPECT_FALSE(quantile(samples, 0.999).high);
  EXPECT_EQ(quantile(std::vector<std::uint64_t>{7}, 0.5).value, 7);
}

TEST(PerfSeries, MeanHasStudentsInterval) {
  EXPECT_EQ(series_mean({}).value, 0);
  EXPECT_FALSE(series_mean(std::vector<double>{1, 2, 3}).low);
  const Estimate estimate = series_mean(std::vector<double>{1, 2, 3, 4});
  EXPECT_EQ(estimate.value, 2.5);
  EXPECT_NEAR(*estimate.high - 2.5, 3.1824 * 1.29099 / 2, 1e-3);  // t(3), s / sqrt(4)
  EXPECT_NEAR(2.5 - *estimate.low, *estimate.high - 2.5, 1e-12);
}

TEST(PerfSeries, WarmUpIsCutOff) {
  std::vector<double> series{1, 3, 6};
  Random random{3};
  for (int i = 0; i < 27; ++i) series.push_back(10 + static_cast<double>(random.below(100)) / 1000);
  EXPECT_EQ(warmup_length(series), 3u);
  EXPECT_EQ(warmup_length(std::vector<double>(30, 5.0)), 0u);
  EXPECT_EQ(warmup_length({}), 0u);
  EXPECT_EQ(warmup_length(std::vector<double>{1, 9, 9, 9, 9, 9, 9, 9, 9}), 0u);  // too few to say
}

TEST(PerfSeries, FairnessIsJains) {
  EXPECT_EQ(fairness(std::vector<double>{5, 5, 5}), 1);
  EXPECT_NEAR(fairness(std::vector<double>{9, 0, 0}), 1.0 / 3, 1e-12);
  EXPECT_EQ(fairness({}), 1);
}

TEST(PerfDifference, CountsOnlyWhereIntervalsDoNotMeet) {
  const Estimate middle{10, 9, 11};
  EXPECT_EQ(difference(middle, {12, 11.5, 12.5}), Difference::kMore);
  EXPECT_EQ(difference(middle, {8, 7, 8.9}), Difference::kLess);
  EXPECT_EQ(difference(middle, {12, 11, 13}), Difference::kNone);  // they touch
  EXPECT_EQ(difference(middle, {8, 7, std::nullopt}), Difference::kNone);
  EXPECT_EQ(difference(middle, {8, std::nullopt, std::nullopt}), Difference::kUnknown);
}

TEST(PerfSeries, TheIntervalOfARateIsNotNegative) {
  const std::vector<double> rates{0, 0, 0, 8};
  const Estimate mean = series_mean(rates);
  EXPECT_EQ(mean.low, 0.0);
  EXPECT_GT(*mean.high, 8.0);
  const std::vector<double> changes{-1, 0, 0, 8};
  EXPECT_LT(*series_mean(changes).low, 0.0);
}

TEST(PerfArrivals, HaveTheirMeanDistance) {
  const SizeMix mix = SizeMix::parse("100,1\n", "mix");
  Arrivals arrivals{mix, 1000, 5};
  for (int i = 1; i < 20'000; ++i) arrivals.pass();
  EXPECT_NEAR(static_cast<double>(arrivals.next()) / 20'000, 1000, 25);
  EXPECT_EQ((Arrivals{mix, 0, 5}.next()), Arrivals::kNever);
}

}  // namespace
}  // namespace brdma::perf
