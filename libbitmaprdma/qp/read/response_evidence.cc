// qp/read/response_evidence.cc - a requester whose peer answers on several paths (spec 1: multipath): what each answer
// says of those that are missing, as a receiver judges requests (qp/paths/paths_receive.h).
#include <utility>

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

// An answer that names its path. It is in the send window, and its entry not passed by the base yet.
void Requester::Impl::note_response_path(const wire::Packet& packet, Instant now) {
  if (!response_receive_paths)
    response_receive_paths = std::make_unique<ReceivePaths>(*id.recovery, id.receiving_paths, env.segments, now);
  response_receive_paths->heard(packet.bxth.path, now);
  response_receive_paths->received(packet.bxth.path, window.base(), packet.bth.psn, 1);
}

// `sent`: when this answer was asked for.
void Requester::Impl::look_for_response_evidence(const wire::Packet& packet, Instant sent, Instant now) {
  bitmap::GapTable& gaps = loss_recovery->response_gaps;
  response_gap_rules().note_path_evidence(packet.bxth, packet.bth.psn, now);
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    // The peer responds in the order of requests. A response to a READ that was requested after the gap was
    // re-requested speaks against the re-request, where it came by the path that the repetition took. Which path that
    // is is not known.
    GapRecord& gap = gaps[i];
    if (gap.state == GapState::kPromoted && sent > gap.last_feedback)
      gap.later_paths |= static_cast<std::uint16_t>(1u << packet.bxth.path % kPathsMax);
  }
}

// Has what was asked for again been lost again?
bool Requester::Impl::rerequest_lost(const GapRecord& gap, Instant now) const {
  if (response_receive_paths && response_receive_paths->all_among(gap.later_paths, now)) return true;
  return gap.later_packets > rerequest_limits().depth_max;
}

// How far and how long one answer of a path overtakes another.
recovery::GapLimits Requester::Impl::rerequest_limits() const {
  return response_receive_paths ? tolerance_config(*id.recovery).reference : one_path_limits();
}

}  // namespace brdma::qp
