#include "qp/receive/duplicate_requests.h"

#include "wire/read_copy.h"

namespace brdma::qp {

void DuplicateRequests::note(const wire::Packet& packet, Instant now) const {
  Environment& env = parts_.env;
  env.count(Counter::kDuplicateRequest);
  const Psn psn = packet.bth.psn;
  const bool executed = distance(psn, parts_.window.base()) < 0;
  env.duplicates.record({now, parts_.identity.qpn, psn, packet.bxth.path, executed});
  ReceivePaths* const several = parts_.tolerance.paths();
  if (several == nullptr || !packet.bitmap || !packet.bxth.retransmitted) return;
  if (const auto took = several->repetition_came(psn, env.arrived_at(now))) parts_.feedback.on_repetition(*took, now);
}

std::optional<DropReason> DuplicateRequests::on_executed(const wire::Packet& packet, Answer answer, Instant now) const {
  note(packet, now);
  // A copy; or the original behind its copy, or twice. A re-request is marked as such.
  if (wire::is_copy(packet) || (packet.bitmap && !packet.bxth.retransmitted && packet.op == wire::RcOp::kReadRequest))
    return DropReason::kDuplicate;
  const bool answered = wire::is_answered(packet.op);
  // A READ re-request is no evidence about the feedback's path, if responses take several.
  if (!answered || parts_.identity.sending_paths == 1) parts_.ack_loss.on_sign(parts_.window.highest());
  keep_echo(packet);
  if (answered) return answer(packet);
  parts_.acknowledgements.schedule.on_copy(now);  // of a WRITE or SEND
  return DropReason::kDuplicate;
}

void DuplicateRequests::on_early(const wire::Packet& packet, bool bitmap, Instant now) const {
  note(packet, now);
  if (!bitmap) return;
  parts_.acknowledgements.schedule.on_copy(now);
  keep_echo(packet);
}

}  // namespace brdma::qp
