// qp/answer_evidence.cc - a requester whose peer answers on several paths (spec 1: multipath): what each answer says of
// those that are missing, as a receiver judges requests (qp/paths_receive.h).
#include <utility>

#include "qp/requester_impl.h"

namespace brdma::qp {

using bitmap::GapRecord;
using bitmap::GapState;

void Requester::recovery_changed() {
  impl_->choose_control();
  if (impl_->repairs != nullptr) impl_->repairs->answer_tolerance.configure(tolerance_config(*impl_->id.recovery));
  if (impl_->answer_ways) impl_->answer_ways->configure(*impl_->id.recovery);
}

// An answer that names its path. It is in the send window, and its entry not passed by the base yet.
void Requester::Impl::note_answer_path(const wire::Packet& packet, Instant now) {
  if (!answer_ways) answer_ways = std::make_unique<ReceivePaths>(*id.recovery, id.receiving_paths, env.segments, now);
  answer_ways->heard(packet.bxth.path, now);
  answer_ways->received(packet.bxth.path, window.base(), packet.bth.psn, 1);
}

// `sent`: when this answer was asked for.
void Requester::Impl::look_for_answer_evidence(const wire::Packet& packet, Instant sent, Instant now) {
  bitmap::GapTable& gaps = repairs->answer_gaps;
  const std::size_t records = gaps.size();
  bool look = answer_ways->attribute(packet.bxth, packet.bth.psn, gaps);
  if (gaps.size() > records) env.count(Counter::kGapsSeen, gaps.size() - records);  // one has become several
  bool oldest_unknown = true;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    GapRecord& gap = gaps[i];
    if (gap.state == GapState::kPromoted) {
      // The peer answers in the order of asking. So what was asked for after the gap was asked for again, and came by
      // the path that the repetition took, speaks against that one. Which path that is we do not know.
      if (sent > gap.last_feedback) gap.later_paths |= static_cast<std::uint16_t>(1u << packet.bxth.path % kPathsMax);
      continue;
    }
    if (!gap.path_known && std::exchange(oldest_unknown, false)) {
      // Where all have not passed that, they have passed none behind it.
      look = answer_ways->laggard_passed(packet.bxth.path, gap, now) || look;
    }
    if (look) gap.path_passed = answer_ways->passed(gap, now);
  }
}

// Has what was asked for again been lost again?
bool Requester::Impl::reissue_lost(const GapRecord& gap, Instant now) const {
  if (answer_ways && answer_ways->all_among(gap.later_paths, now)) return true;
  return gap.later_packets > reissue_limits().depth_max;
}

// How far and how long one answer of a path overtakes another.
recovery::GapLimits Requester::Impl::reissue_limits() const {
  return answer_ways ? tolerance_config(*id.recovery).reference : one_path_limits();
}

recovery::GapLimits Requester::Impl::answer_limits() const {
  return answer_ways ? answer_ways->limits() : one_path_limits();
}

}  // namespace brdma::qp
