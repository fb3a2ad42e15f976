#include "qp/paths/path_floors.h"

#include <algorithm>

namespace brdma::qp {
namespace {

constexpr std::int64_t kMeanGain = 64;  // 1/64 a sample: some rounds over all paths

}  // namespace

std::size_t PathFloors::place_of(std::uint16_t back) {
  for (std::size_t i = 0; i < backs_known_; ++i) {
    if (backs_[i] == back) return i;
  }
  if (backs_known_ < backs_.size()) ++backs_known_;
  backs_[backs_known_ - 1] = back;
  return backs_known_ - 1;
}

void PathFloors::begin_period(Instant now) {
  period_start_ = now;
  skew_.reset();
  for (There& there : there_) {
    there.one_way.begin_period();
    for (std::size_t i = 0; i < backs_known_; ++i) there.backs[i].begin_period();
  }
}

Duration PathFloors::sample(const Sample& sample, Instant now) {
  if (now - period_start_ > kPeriod) begin_period(now);
  There& there = there_[sample.path];
  const Duration one_way = sample.one_way - sample.waited_there;
  there.one_way.take(one_way);
  Floor& floor = there.backs[place_of(sample.back)];
  const auto before = floor.value();
  const Duration waited = before ? Duration{} : one_way - *there.one_way.value();
  floor.take(std::max(sample.round_trip - sample.waited - waited, kTick));
  if (floor.value() != before) skew_.reset();
  return *floor.value();
}

std::optional<Duration> PathFloors::shortest(std::size_t path) const {
  std::optional<Duration> shortest;
  for (std::size_t i = 0; i < backs_known_; ++i) {
    const auto value = there_[path].backs[i].value();
    if (value && (!shortest || *value < *shortest)) shortest = value;
  }
  return shortest;
}

Duration PathFloors::skew() const {
  if (skew_) return *skew_;
  Duration most;
  for (std::size_t i = 0; i < backs_known_; ++i) {
    std::optional<Duration> low, high;
    for (const There& there : there_) {
      const auto value = there.backs[i].value();
      if (!value) continue;
      low = std::min(low.value_or(*value), *value);
      high = std::max(high.value_or(*value), *value);
    }
    if (low) most = std::max(most, *high - *low);
  }
  skew_ = most;
  return most;
}

RoundTripSamples::RoundTripSample RoundTripSamples::take(const PathFloors::Sample& sample, Instant now) {
  const Duration floor = floors_.sample(sample, now);
  if (!mean_) mean_ = floor;
  const Duration moved = (floor - *mean_) / kMeanGain;
  mean_ = *mean_ + moved;
  return {sample.round_trip - floor + *mean_, moved};
}

}  // namespace brdma::qp
