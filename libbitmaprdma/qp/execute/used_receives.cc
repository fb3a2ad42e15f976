#include "qp/execute/used_receives.h"

namespace brdma::qp {

void UsedReceives::complete(const wire::Packet& packet, CompletionStatus status, std::uint32_t bytes, Outcome& outcome,
                            Instant now) const {
  Environment& env = parts_.env;
  const Identity& identity = parts_.identity;
  const bool good = status == CompletionStatus::kSuccess;
  Completion completion;
  completion.wr_id = parts_.receives[0].wr_id;
  completion.status = status;
  completion.opcode = wire::is_write(packet.op) ? CompletionOpcode::kReceiveRdmaWithImm : CompletionOpcode::kReceive;
  completion.byte_length = bytes;
  completion.qp_num = identity.qpn;
  completion.source_qp = identity.attributes.destination_qpn;
  if (wire::has_immediate(packet.op) && good) {
    completion.flags = kCompletionWithImm;
    completion.immediate_be = packet.immediate_be;
  }
  if (wire::has_invalidate(packet.op) && good) {
    completion.flags = kCompletionWithInvalidate;
    completion.immediate_be = packet.invalidate_rkey;  // one union with the immediate, host order
  }
  parts_.receives.pop();
  if (!good) parts_.messages.abandon();  // its receive is used up
  parts_.messages.count_receive();
  if (good) env.count(Counter::kReceives);
  if (!env.complete(*identity.receive_cq, completion, packet.bth.solicited || !good, now))
    outcome = Outcome{.to_error = true, .async_event = kEventQpFatal};
}

void UsedReceives::flush(Instant now) const {
  ReceiveQueue& receives = parts_.receives;
  const Identity& identity = parts_.identity;
  const std::size_t begun = parts_.messages.is_inside(ReceivedMessages::Kind::kSend) ? 1 : 0;
  for (std::size_t left = identity.srq == nullptr ? receives.size() : begun; left > 0; --left) {
    Completion completion;
    completion.wr_id = receives[0].wr_id;
    completion.status = CompletionStatus::kFlushed;
    completion.opcode = CompletionOpcode::kReceive;
    completion.qp_num = identity.qpn;
    receives.pop();
    parts_.env.complete(*identity.receive_cq, completion, /*solicited=*/true, now);
  }
  receives.clear();
}

}  // namespace brdma::qp
