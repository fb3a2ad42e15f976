// What an operator sees of gaps and of the limits in force (spec 1: management): of both receivers of a queue pair, of
// requests and of READ responses.
#include <algorithm>

#include "qp/requester_impl.h"
#include "qp/responder_impl.h"

namespace brdma::qp {
namespace {

using bitmap::GapRecord;
using bitmap::GapState;
using recovery::LossCause;

// `stuck_since`: where the base stands because of it.
OpenGap open_gap(const GapRecord& gap, Psn highest, const std::optional<Instant>& stuck_since, Instant now) {
  return {.start = gap.start,
          .length = gap.length,
          .first_seen = gap.first_seen,
          .promoted = gap.state == GapState::kPromoted,
          .cause = static_cast<LossCause>(gap.cause),
          .path = gap.path,
          .path_known = gap.path_known,
          .depth = static_cast<std::uint32_t>(std::max(distance(highest, gap.start), 0)),
          .stalls = stuck_since.has_value(),
          .stalled = stuck_since ? now - std::max(gap.first_seen, *stuck_since) : Duration{},
          .feedbacks = gap.feedbacks,
          .last_feedback = gap.last_feedback};
}

}  // namespace

std::vector<OpenGap> Responder::open_gaps(Instant now) const {
  const Impl& me = *impl_;
  std::vector<OpenGap> open;
  if (me.disorder == nullptr) return open;
  for (std::size_t i = 0; i < me.disorder->gaps.size(); ++i) {
    const GapRecord& gap = me.disorder->gaps[i];
    const bool stalls = gap.start == me.base();
    open.push_back(
        open_gap(gap, me.window.highest(), stalls ? std::optional{gap.base_stuck_since} : std::nullopt, now));
  }
  return open;
}

recovery::GapLimits Responder::limits(Instant now) const {
  const Impl& me = *impl_;
  return me.paths ? me.paths->limits_at(now) : me.tolerance.limits_at(tolerance_config(me.recovery()), now);
}

std::vector<PathReceived> Responder::receive_paths(Instant now) const {
  return impl_->paths ? impl_->paths->report(now) : std::vector<PathReceived>{};
}

std::vector<OpenGap> Requester::open_gaps(Instant now) const {
  const Impl& me = *impl_;
  std::vector<OpenGap> open;
  if (me.repairs == nullptr) return open;
  for (std::size_t i = 0; i < me.repairs->answer_gaps.size(); ++i) {
    const GapRecord& gap = me.repairs->answer_gaps[i];
    const bool stalls = gap.start == me.window.base();
    open.push_back(
        open_gap(gap, me.psn_of(me.answers_seen) - 1, stalls ? std::optional{me.base_moved} : std::nullopt, now));
    open.back().response = true;
  }
  return open;
}

recovery::GapLimits Requester::limits(Instant now) const {
  const Impl& me = *impl_;
  const recovery::ToleranceConfig config = tolerance_config(*me.id.recovery);
  if (me.answer_ways) return me.answer_ways->limits_at(now);
  return me.repairs == nullptr ? config.reference : me.repairs->answer_tolerance.limits_at(config, now);
}

std::vector<PathReceived> Requester::receive_paths(Instant now) const {
  return impl_->answer_ways ? impl_->answer_ways->report(now) : std::vector<PathReceived>{};
}

}  // namespace brdma::qp
