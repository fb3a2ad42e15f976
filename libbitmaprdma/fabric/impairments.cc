#include "fabric/impairments.h"

#include <algorithm>
#include <string>

namespace brdma::fabric {
namespace {

Random stream(std::uint64_t seed, std::string_view link, std::string_view fault) {
  std::string name{link};
  name.append(".").append(fault);
  return Random{seed, name};
}

}  // namespace

Jitter::Jitter(std::uint64_t seed, std::string_view link) : random_(stream(seed, link, "jitter")) {}

Duration Jitter::extra_delay(Duration jitter, Instant now) {
  if (jitter <= Duration{}) return Duration{};
  const Duration step = jitter * 2;
  const auto draw = [&] {
    return static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(jitter.ns()) + 1));
  };
  if (jitter != height_ || now >= to_ + step) {  // first packet, new setting, or idle for longer than a line
    height_ = jitter;
    from_ = now;
    to_ = now + step;
    from_ns_ = draw();
    to_ns_ = draw();
  } else if (now >= to_) {
    from_ = to_;
    from_ns_ = to_ns_;
    to_ = from_ + step;
    to_ns_ = draw();
  }
  // Times may go back by a driver's lateness: then the line's beginning holds. Both factors are at most 2 * jitter: in
  // 64 bits up to a jitter of two seconds (fabric/network.h allows one).
  const std::int64_t elapsed = std::max<std::int64_t>((now - from_).ns(), 0);
  return Duration::from_ns(from_ns_ + (to_ns_ - from_ns_) * elapsed / step.ns());
}

Impairments::Impairments(const ImpairmentConfig& config, std::uint64_t seed, std::string_view link)
    : config_(config),
      loss_(stream(seed, link, "loss")),
      burst_(stream(seed, link, "burst")),
      reorder_(stream(seed, link, "reorder")),
      duplicate_(stream(seed, link, "duplicate")),
      corrupt_(stream(seed, link, "corrupt")),
      jitter_(seed, link) {}

bool Impairments::judge_burst() {
  if (config_.burst_loss_ppm == 0) {
    in_burst_ = false;
    return false;
  }
  // Geometric length: after each lost packet the burst goes on with chance 1 - 1/mean.
  in_burst_ =
      (in_burst_ && burst_.below(config_.burst_length_mean) != 0) || burst_.chance_per_million(config_.burst_loss_ppm);
  return in_burst_;
}

Verdict Impairments::judge() {
  Verdict verdict;
  if (judge_burst()) verdict.fate = Fate::kBurstLost;
  if (loss_.chance_per_million(config_.loss_ppm)) verdict.fate = Fate::kLost;
  if (reorder_.chance_per_million(config_.reorder_ppm)) verdict.hold_for_packets = config_.reorder_depth;
  verdict.duplicate = duplicate_.chance_per_million(config_.duplicate_ppm);
  if (corrupt_.chance_per_million(config_.corrupt_ppm)) verdict.corruption = corrupt_.next();
  return verdict;
}

}  // namespace brdma::fabric
