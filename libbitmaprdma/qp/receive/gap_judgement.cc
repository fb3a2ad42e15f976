#include "qp/receive/gap_judgement.h"

namespace brdma::qp {
namespace {

using recovery::LossCause;

Counter promotion_counter(LossCause cause) {
  switch (cause) {
    case LossCause::kAge:
      return Counter::kGapsPromotedAge;
    case LossCause::kStall:
      return Counter::kGapsPromotedStall;
    case LossCause::kSamePath:
      return Counter::kGapsPromotedPath;
    case LossCause::kRequested:
      return Counter::kGapsPromotedRequest;
    case LossCause::kDepth:
    case LossCause::kImmediate:
      break;
  }
  return Counter::kGapsPromotedDepth;
}

}  // namespace

recovery::ToleranceConfig tolerance_config(const RecoveryConfig& config) {
  return {.reference = {.depth_max = config.depth_max,
                        .age_max = config.age_max,
                        .stall_max = config.stall_max,
                        .stall_packets = config.stall_packets},
          .adaptive = config.adaptive,
          .depth_ceiling = config.depth_ceiling,
          .time_ceiling = config.time_ceiling};
}

void promote(bitmap::GapRecord& gap, LossCause cause, const Environment& env, const Identity& id, Instant now) {
  gap.state = bitmap::GapState::kPromoted;
  gap.cause = static_cast<std::uint8_t>(cause);
  env.count(promotion_counter(cause));
  env.note(now, id.qpn, trace::EventType::kGapPromoted, gap.start.value(), gap.length,
           static_cast<std::uint64_t>(cause));
  env.trace(now, id.qpn, trace::GapPromoted{gap.start, gap.length, gap.cause});
}

void note_misjudged(Psn psn, const Environment& env, const Identity& id, Instant now) {
  env.count(Counter::kMisjudgementCorrections);
  env.note(now, id.qpn, trace::EventType::kMisjudgement, psn.value());
}

}  // namespace brdma::qp
