#include "models/rdma/swift.h"

#include <algorithm>
#include <cmath>

namespace brdma::models::rdma {

Swift::Swift(const Settings& settings)
    : settings_(settings.swift), payload_(settings.sizes.payload), packets_(settings.swift.window_start) {
  const double range = static_cast<double>(settings_.flow_range.ns());
  scale_ = range / (1 / std::sqrt(settings_.flow_min) - 1 / std::sqrt(settings_.flow_max));
  offset_ = -scale_ / std::sqrt(settings_.flow_max);
  clamp();
}

void Swift::clamp() { packets_ = std::clamp(packets_, settings_.window_min, settings_.window_max); }

Duration Swift::target() const {
  const double range = static_cast<double>(settings_.flow_range.ns());
  const double scaling = std::clamp(scale_ / std::sqrt(packets_) + offset_, 0.0, range);
  return settings_.base + settings_.per_hop * settings_.hops + Duration::from_ns(std::llround(scaling));
}

// Not within an RTT after the last cut.
bool Swift::cut(double factor, Instant now) {
  if (last_cut_ && now - *last_cut_ < rtt_) return false;
  packets_ *= factor;
  last_cut_ = now;
  ++reductions_;
  return true;
}

void Swift::on_ack(const AckFacts& facts, Instant now) {
  rtt_ = facts.rtt;
  timeouts_ = 0;
  const Duration goal = target();
  if (facts.rtt < goal) {
    const double acked = settings_.additive * static_cast<double>(facts.delivered) / payload_;
    packets_ += packets_ >= 1 ? acked / packets_ : acked;
  } else {
    const double over = static_cast<double>((facts.rtt - goal).ns()) / static_cast<double>(facts.rtt.ns());
    cut(std::max(1 - settings_.beta * over, 1 - settings_.max_cut), now);
  }
  clamp();
}

void Swift::on_loss(Instant now) {
  cut(1 - settings_.max_cut, now);
  clamp();
}

void Swift::on_timeout(Instant now) {
  ++timeouts_;
  if (timeouts_ >= settings_.timeouts_to_minimum) {
    packets_ = settings_.window_min;
    ++reductions_;
  } else {
    cut(1 - settings_.max_cut, now);
  }
  clamp();
}

std::uint64_t Swift::window() const { return static_cast<std::uint64_t>(std::max(packets_, 1.0) * payload_); }

std::int64_t Swift::gap_ps(std::uint32_t /*wire_bytes*/, Instant /*now*/) {
  constexpr double kPsPerNs = 1000;
  if (packets_ >= 1) return 0;
  return static_cast<std::int64_t>(static_cast<double>(rtt_.ns()) * kPsPerNs / packets_);
}

}  // namespace brdma::models::rdma
