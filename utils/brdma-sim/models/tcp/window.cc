#include "models/tcp/window.h"

#include <algorithm>
#include <cmath>

namespace brdma::models::tcp {

RenoWindow::RenoWindow(const Settings& settings)
    : segment_(settings.sizes.payload), bytes_(segment_ * settings.initial_window) {}

void RenoWindow::on_ack(std::uint64_t acked, Duration /*rtt*/, Instant /*now*/) {
  if (bytes_ < ssthresh_) {
    bytes_ += std::min(acked, segment_);
  } else {
    bytes_ += std::max<std::uint64_t>(segment_ * segment_ / bytes_, 1);
  }
}

void RenoWindow::on_loss(std::uint64_t flight, Instant /*now*/) {
  ssthresh_ = std::max(flight / 2, 2 * segment_);
  bytes_ = ssthresh_;
}

void RenoWindow::on_timeout(std::uint64_t flight, bool repeated) {
  if (!repeated) ssthresh_ = std::max(flight / 2, 2 * segment_);
  bytes_ = segment_;
}

CubicWindow::CubicWindow(const Settings& settings)
    : segment_(settings.sizes.payload), window_(settings.initial_window) {}

std::uint64_t CubicWindow::bytes() const { return static_cast<std::uint64_t>(window_ * segment_); }

double CubicWindow::cubic(double seconds) const {
  const double from_k = seconds - k_;
  return kC * from_k * from_k * from_k + w_max_;
}

void CubicWindow::begin_epoch(Instant now) {
  epoch_ = now;
  w_est_ = window_;
  if (w_max_ <= window_) {  // slow start ended without a loss, or went past it
    w_max_ = window_;
    k_ = 0;
  } else {
    k_ = std::cbrt((w_max_ - window_) / kC);
  }
}

void CubicWindow::on_ack(std::uint64_t acked, Duration rtt, Instant now) {
  const double segments = static_cast<double>(acked) / segment_;
  if (window_ < ssthresh_) {
    window_ += std::min(segments, 1.0);
    return;
  }
  if (!epoch_) begin_epoch(now);
  constexpr double kSecond = 1e9;
  const double elapsed = static_cast<double>((now - *epoch_).ns()) / kSecond;
  const double ahead = elapsed + static_cast<double>(rtt.ns()) / kSecond;
  w_est_ += (w_est_ >= prior_ ? 1.0 : kAlpha) * segments / window_;
  if (cubic(elapsed) < w_est_) {
    window_ = std::max(window_, w_est_);
  } else {
    const double target = std::clamp(cubic(ahead), window_, 1.5 * window_);
    window_ += (target - window_) * segments / window_;
  }
}

void CubicWindow::reduce(std::uint64_t flight) {
  prior_ = window_;
  w_max_ = window_ < w_max_ ? window_ * (1 + kBeta) / 2 : window_;
  ssthresh_ = std::max(static_cast<double>(flight) / segment_ * kBeta, 2.0);
  epoch_.reset();
}

void CubicWindow::on_loss(std::uint64_t flight, Instant /*now*/) {
  reduce(flight);
  window_ = ssthresh_;
}

void CubicWindow::on_timeout(std::uint64_t flight, bool repeated) {
  if (!repeated) reduce(flight);
  epoch_.reset();
  w_max_ = 0;  // the next epoch begins with Wmax = cwnd and K = 0 (section 4.8)
  window_ = 1;
}

std::unique_ptr<Window> make_window(const Settings& settings) {
  if (settings.congestion == Congestion::kCubic) return std::make_unique<CubicWindow>(settings);
  return std::make_unique<RenoWindow>(settings);
}

}  // namespace brdma::models::tcp
