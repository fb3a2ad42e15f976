#include "congestion/window/additive.h"

#include <algorithm>
#include <utility>

#include "congestion/scaled.h"

namespace brdma::congestion {
namespace {

constexpr AdditiveConfig kConfig;
constexpr std::uint64_t kOne = 1 << 16;

std::uint64_t product(std::uint64_t a, std::uint64_t b) { return a * b / kOne; }

}  // namespace

bool Additive::on_round(Duration queued, Duration target) {
  const bool lost = std::exchange(lost_, false) && queued > target * 3 / 4;
  calm_ = lost ? kConfig.calm_rounds * 5 / 4 : std::max(calm_ - 1, 0);
  return lost;
}

std::uint64_t Additive::bytes(Duration allowed, Duration rtt) const {
  const std::uint64_t part = scale(ns(allowed), kOne, ns(std::max(rtt, kTick)));
  const std::uint64_t power = std::min(part, kOne), square = product(power, power), fourth = product(square, square);
  return returned(product(kConfig.bytes, product(product(fourth, fourth), fourth)));
}

std::uint64_t Additive::returned(std::uint64_t bytes) const {
  const int rounds = kConfig.calm_rounds - std::min(calm_, kConfig.calm_rounds);
  return bytes * static_cast<std::uint64_t>(rounds) / kConfig.calm_rounds;
}

}  // namespace brdma::congestion
