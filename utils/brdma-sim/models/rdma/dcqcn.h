// models/rdma/dcqcn.h - DCQCN's source. Source: "Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015),
// in the form of HPCC's simulator for NICs; parameters of it in settings.h.
//   CNP: target = rate (unless no increase came since the last cut, and clamp_target is off); rate *= 1 - alpha / 2,
//     never below the minimum. At most one cut per decrease interval: a CNP within it takes effect at its end.
//   alpha: 1 at the first CNP; each alpha interval: (1 - g) alpha + g if a CNP came in it, else (1 - g) alpha.
//   Each increase interval after a cut, with s steps before it:
//     s < F: nothing;  s = F: target += additive;  s > F: target += hyper (at most the line's rate);  then
//     rate = (rate + target) / 2
// Left out, as in that simulator: the byte counter. Times are worked off when the state is asked for: no events.
// Worked at 100 Gbit/s, F = 1: first CNP 50; then 75, 87.5 Gbit/s; alpha after n silent intervals: (255 / 256)^n.
#pragma once

#include <optional>

#include "models/rdma/control.h"

namespace brdma::models::rdma {

class Dcqcn final : public Control {
 public:
  explicit Dcqcn(const DcqcnSettings& settings) : settings_(settings), rate_(settings.line), target_(settings.line) {}

  void on_cnp(Instant now) override;
  std::int64_t gap_ps(std::uint32_t wire_bytes, Instant now) override;
  [[nodiscard]] Bandwidth rate() const override { return Bandwidth::from_bps(static_cast<std::uint64_t>(rate_)); }
  [[nodiscard]] std::uint64_t reductions() const override { return cuts_; }
  // To the state at `now`.
  void advance(Instant now);
  [[nodiscard]] double alpha() const { return alpha_; }
  [[nodiscard]] double bits_per_second() const { return rate_; }

 private:
  void cut(Instant at);
  void increase();
  void age_alpha(Instant until);

  DcqcnSettings settings_;
  double rate_;
  double target_;
  double alpha_ = 1;
  unsigned steps_ = 0;  // increases since the last cut
  std::uint64_t cuts_ = 0;
  bool cnp_for_alpha_ = false;
  bool cnp_for_cut_ = false;
  std::optional<Instant> alpha_at_;  // from the first CNP on
  Instant cut_at_;                   // the end of the decrease interval
  Instant increase_at_;
};

}  // namespace brdma::models::rdma
