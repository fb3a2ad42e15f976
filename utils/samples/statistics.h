// samples/statistics.h - what a run's samples say, with how sure that is. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace brdma::samples {

constexpr double kConfidence = 0.95;

// An estimate and its confidence interval. An end that so few samples do not give is empty.
struct Estimate {
  double value = 0;
  std::optional<double> low, high;
};

// Ranks (from 1) of the order statistics that enclose the quantile `p` of a distribution with at least `confidence`,
// whatever the distribution: the number of n samples below it is binomial. 0 or n + 1: there is no such sample.
struct Ranks {
  std::size_t low, high;
};
[[nodiscard]] Ranks quantile_ranks(std::size_t n, double p, double confidence = kConfidence);
// The sample of rank ceil(p n), and its interval. `sorted` is not empty.
[[nodiscard]] Estimate quantile(std::span<const std::uint64_t> sorted, double p, double confidence = kConfidence);

// The mean of a series in time, with Student's interval of the means of up to 20 batches: neighbours may depend on each
// other. With fewer than 4 values there is no interval. An empty series: 0. The mean of values that are not negative is
// not negative, nor is the interval.
[[nodiscard]] Estimate series_mean(std::span<const double> series, double confidence = kConfidence);

// How many values at the start of a series are warm-up: the cut, in the first half, that makes the standard error of
// the rest least (the MSER rule). Of fewer than 10: none.
[[nodiscard]] std::size_t warmup_length(std::span<const double> series);

// Jain's index of fairness: 1 all alike, 1/n one has all. 1 for none.
[[nodiscard]] double fairness(std::span<const double> shares);

// Do two intervals show a difference? Only if they do not meet. An open end meets everything.
enum class Difference { kNone, kMore, kLess, kUnknown };
// Of `b` to `a`; kUnknown: one of them has no interval.
[[nodiscard]] Difference difference(const Estimate& a, const Estimate& b);

}  // namespace brdma::samples
