#include "models/rdma/dcqcn.h"

#include <algorithm>

namespace brdma::models::rdma {

namespace {
constexpr double kMbps = 1e6;
constexpr double kPsPerSecond = 1e12;

DcqcnSettings dcqcn_common(Bandwidth line) {
  DcqcnSettings settings;
  settings.line = static_cast<double>(line.bps());
  const double scale = settings.line / (25'000 * kMbps);
  settings.minimum = std::min(1000 * kMbps, settings.line);
  settings.additive = 5 * kMbps * scale;
  settings.hyper = 50 * kMbps * scale;
  return settings;
}
}  // namespace

DcqcnSettings dcqcn_nic(Bandwidth line) {
  DcqcnSettings settings = dcqcn_common(line);
  settings.alpha_interval = 1_us;
  settings.decrease_interval = 4_us;
  settings.increase_interval = 300_us;
  return settings;
}

DcqcnSettings dcqcn_paper(Bandwidth line) {
  DcqcnSettings settings = dcqcn_common(line);
  settings.alpha_interval = 50_us;
  settings.decrease_interval = 50_us;
  settings.increase_interval = 55_us;
  return settings;
}

void Dcqcn::cut(Instant at) {
  if (steps_ > 0 || cuts_ == 0 || settings_.clamp_target) target_ = rate_;
  rate_ = std::max(settings_.minimum, rate_ * (1 - alpha_ / 2));
  steps_ = 0;
  ++cuts_;
  cnp_for_cut_ = false;
  cut_at_ = at + settings_.decrease_interval;
  increase_at_ = at + settings_.increase_interval;
}

void Dcqcn::increase() {
  if (steps_ == settings_.fast_steps) target_ += settings_.additive;
  if (steps_ > settings_.fast_steps) target_ += settings_.hyper;
  target_ = std::min(target_, settings_.line);
  rate_ = (rate_ + target_) / 2;
  ++steps_;
}

// All alpha intervals that end at `until` or before.
void Dcqcn::age_alpha(Instant until) {
  constexpr double kNothing = 1e-60;
  while (*alpha_at_ <= until) {
    if (alpha_ < kNothing && !cnp_for_alpha_) {  // idle for long
      const std::int64_t intervals = (until - *alpha_at_).ns() / settings_.alpha_interval.ns() + 1;
      *alpha_at_ = *alpha_at_ + settings_.alpha_interval * intervals;
      return;
    }
    alpha_ = (1 - settings_.g) * alpha_ + (cnp_for_alpha_ ? settings_.g : 0.0);
    cnp_for_alpha_ = false;
    *alpha_at_ = *alpha_at_ + settings_.alpha_interval;
  }
}

void Dcqcn::advance(Instant now) {
  if (!alpha_at_) return;
  for (;;) {
    const bool cuts_next = cnp_for_cut_ && cut_at_ <= increase_at_;
    const Instant at = cuts_next ? cut_at_ : increase_at_;
    if (at > now) break;
    age_alpha(at);  // alpha first: HPCC's simulator delays the cut by 1 ns for it
    if (cuts_next) {
      cut(at);
      continue;
    }
    increase();
    increase_at_ = increase_at_ + settings_.increase_interval;
    if (rate_ >= settings_.line * (1 - 1e-12) && !cnp_for_cut_) {  // further increases change nothing
      rate_ = settings_.line;
      const std::int64_t skipped =
          std::max<std::int64_t>((now - increase_at_).ns() / settings_.increase_interval.ns(), 0);
      increase_at_ = increase_at_ + settings_.increase_interval * skipped;
    }
  }
  age_alpha(now);
}

void Dcqcn::on_cnp(Instant now) {
  advance(now);
  if (!alpha_at_) {  // the first
    alpha_at_ = now + settings_.alpha_interval;
    cut(now);
    return;
  }
  cnp_for_alpha_ = true;
  cnp_for_cut_ = true;
  if (cut_at_ <= now) cut(now);
}

std::int64_t Dcqcn::gap_ps(std::uint32_t wire_bytes, Instant now) {
  advance(now);
  if (rate_ >= settings_.line) return 0;
  return static_cast<std::int64_t>(static_cast<double>(wire_bytes) * 8 * kPsPerSecond / rate_);
}

}  // namespace brdma::models::rdma
