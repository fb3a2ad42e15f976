#include "samples/statistics.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

namespace brdma::samples {
namespace {

constexpr std::size_t kBatches = 20, kWarmupLeast = 10;

// The first k in [0, n] for which the chance of at most k of n is not below `least`.
std::size_t binomial_quantile(std::size_t n, double p, double least) {
  const boost::math::binomial_distribution<double> below{static_cast<double>(n), p};
  std::size_t low = 0, high = n;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (boost::math::cdf(below, static_cast<double>(middle)) >= least) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

Ranks quantile_ranks(std::size_t n, double p, double confidence) {
  const double tail = (1 - confidence) / 2;
  // P(fewer than `low` below the quantile) <= tail, P(`high` or more below it) <= tail.
  const boost::math::binomial_distribution<double> below{static_cast<double>(n), p};
  std::size_t low = binomial_quantile(n, p, tail);
  if (boost::math::cdf(below, static_cast<double>(low)) <= tail) ++low;
  return {low, binomial_quantile(n, p, 1 - tail) + 1};
}

Estimate quantile(std::span<const std::uint64_t> sorted, double p, double confidence) {
  const std::size_t n = sorted.size();
  const auto at = [&](std::size_t rank) { return static_cast<double>(sorted[rank - 1]); };
  const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(n) - 1e-9));
  const Ranks ranks = quantile_ranks(n, p, confidence);
  Estimate estimate{at(std::clamp<std::size_t>(rank, 1, n)), {}, {}};
  if (ranks.low >= 1) estimate.low = at(ranks.low);
  if (ranks.high <= n) estimate.high = at(ranks.high);
  return estimate;
}

Estimate series_mean(std::span<const double> series, double confidence) {
  if (series.empty()) return {};
  Estimate estimate{mean_of(series), {}, {}};
  if (series.size() < 4) return estimate;
  const std::size_t batches = std::min(kBatches, series.size());
  std::vector<double> means;
  for (std::size_t i = 0; i < batches; ++i) {
    const std::size_t from = i * series.size() / batches, to = (i + 1) * series.size() / batches;
    means.push_back(mean_of(series.subspan(from, to - from)));
  }
  const double middle = mean_of(means);
  double squares = 0;
  for (const double mean : means) squares += (mean - middle) * (mean - middle);
  const auto n = static_cast<double>(batches);
  const boost::math::students_t_distribution<double> student{n - 1};
  const double half = boost::math::quantile(student, 1 - (1 - confidence) / 2) * std::sqrt(squares / (n - 1) / n);
  estimate.low = estimate.value - half;
  if (*std::min_element(series.begin(), series.end()) >= 0) estimate.low = std::max(*estimate.low, 0.0);
  estimate.high = estimate.value + half;
  return estimate;
}

std::size_t warmup_length(std::span<const double> series) {
  // From the end: sums of the values and of their squares behind each cut.
  if (series.size() < kWarmupLeast) return 0;
  double sum = 0, squares = 0, best = 0;
  std::size_t cut = 0;
  bool found = false;
  for (std::size_t i = series.size(); i-- > 0;) {
    sum += series[i];
    squares += series[i] * series[i];
    if (i > series.size() / 2) continue;
    const auto n = static_cast<double>(series.size() - i);
    const double error = std::max(0.0, squares - sum * sum / n) / (n * n);
    if (!found || error <= best) {
      best = error;
      cut = i;
      found = true;
    }
  }
  return cut;
}

double fairness(std::span<const double> shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : 1;
}

Difference difference(const Estimate& a, const Estimate& b) {
  if ((!a.low && !a.high) || (!b.low && !b.high)) return Difference::kUnknown;
  if (a.high && b.low && *b.low > *a.high) return Difference::kMore;
  if (a.low && b.high && *b.high < *a.low) return Difference::kLess;
  return Difference::kNone;
}

}  // namespace brdma::samples
