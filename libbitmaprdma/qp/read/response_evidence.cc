// qp/read/response_evidence.cc - a requester whose peer responds on several paths (spec 1: multipath): evidence of each
// response about the missing ones, as a receiver judges requests (qp/paths/paths_receive.h).
#include "qp/send/requester_impl.h"

namespace brdma::qp {

using bitmap::GapRecord;
using bitmap::GapState;

void Requester::recovery_changed() {
  impl_->choose_control();
  if (impl_->loss_recovery != nullptr)
    impl_->loss_recovery->response_tolerance.configure(tolerance_config(*impl_->id.recovery));
  if (impl_->response_receive_paths) impl_->response_receive_paths->configure(*impl_->id.recovery);
}

// A response that names its path. It is in the send window, and the base has not passed its entry.
void Requester::Impl::note_response_path(const wire::Packet& packet, Instant now) {
  if (!response_receive_paths)
    response_receive_paths = std::make_unique<ReceivePaths>(*id.recovery, id.receiving_paths, env.segments, now);
  response_receive_paths->on_packet(packet.bxth.path, now);
  response_receive_paths->received(packet.bxth.path, scoreboard.base_psn(), packet.bth.psn, 1);
}

// `sent`: when this response was requested.
void Requester::Impl::look_for_response_evidence(const wire::Packet& packet, Instant sent, Instant now) {
  bitmap::GapTable& gaps = loss_recovery->response_gaps;
  response_gap_rules().note_path_evidence(packet.bxth, packet.bth.psn, now);
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    // The peer responds in request order. So a response requested after the gap's re-request, on the path that the
    // repetition took, is evidence against the repetition. Which path that is we do not know.
    GapRecord& gap = gaps[i];
    if (gap.state == GapState::kPromoted && sent > gap.last_feedback)
      gap.later_paths |= static_cast<std::uint16_t>(1u << packet.bxth.path % kPathsMax);
  }
}

// Has the re-requested response been lost again?
bool Requester::Impl::rerequest_lost(const GapRecord& gap, Instant now) const {
  if (response_receive_paths && response_receive_paths->all_among(gap.later_paths, now)) return true;
  return gap.later_packets > rerequest_limits().depth_max;
}

// How far and how long one response of a path overtakes another.
recovery::GapLimits Requester::Impl::rerequest_limits() const {
  return response_receive_paths ? tolerance_config(*id.recovery).reference : one_path_limits();
}

}  // namespace brdma::qp
