#include "congestion/pacer.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::congestion {
namespace {

constexpr std::int64_t kPerByte = 8'000'000'000;
constexpr std::uint64_t kBurstMax = 1u << 26;  // credit fits into 63 bits, and so does a debt as large

std::int64_t credit_of(Bandwidth rate, Duration time) {
  const auto credit = static_cast<__int128>(rate.bps()) * time.ns();
  constexpr __int128 kMost = static_cast<__int128>(kBurstMax) * kPerByte;
  return static_cast<std::int64_t>(std::min(credit, kMost));
}

}  // namespace

Pacer::Pacer(const PacerConfig& config, Bandwidth rate)
    : config_(config), rate_(rate), credit_(static_cast<std::int64_t>(config.burst_bytes) * kPerByte) {
  BRDMA_CHECK(rate.bps() > 0 && config.burst_bytes > 0 && config.burst_bytes <= kBurstMax);
}

void Pacer::catch_up(Instant now) {
  if (now <= at_) return;
  const std::int64_t most = static_cast<std::int64_t>(config_.burst_bytes) * kPerByte;
  credit_ = std::min(credit_ + credit_of(rate_, now - at_), most);
  at_ = now;
}

void Pacer::set_rate(Bandwidth rate, Instant now) {
  BRDMA_CHECK(rate.bps() > 0);
  catch_up(now);
  rate_ = rate;
}

void Pacer::set_burst(std::uint64_t bytes) { config_.burst_bytes = std::clamp<std::uint64_t>(bytes, 1, kBurstMax); }

// At least one byte's worth.
std::int64_t Pacer::quantum() const {
  const std::int64_t most = static_cast<std::int64_t>(config_.burst_bytes) * kPerByte;
  return std::max(std::min(credit_of(rate_, config_.interval), most / 2), kPerByte);
}

std::uint64_t Pacer::allowance(Instant now) {
  catch_up(now);
  return credit_ < kPerByte ? 0 : static_cast<std::uint64_t>(credit_ / kPerByte);
}

void Pacer::spend(std::uint64_t bytes) { credit_ -= static_cast<std::int64_t>(bytes) * kPerByte; }

Instant Pacer::ready_at() const {
  if (credit_ >= kPerByte) return at_;
  const std::int64_t missing = quantum() - credit_;
  const auto rate = static_cast<std::int64_t>(rate_.bps());
  return at_ + Duration::from_ns((missing + rate - 1) / rate);
}

}  // namespace brdma::congestion
