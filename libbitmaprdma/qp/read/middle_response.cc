// Fast path for MIDDLE packets of a READ response: the next expected one, requested once, and nothing is missing. It
// does the same as handle_response.cc, which checks all cases and takes everything else.
#include <algorithm>

#include "qp/send/requester_impl.h"

namespace brdma::qp {

using bitmap::EntryState;

bool Requester::Impl::is_next_middle(const wire::Packet& packet) const {
  if (packet.op != wire::RcOp::kReadResponseMiddle || packet.bth.psn != scoreboard.base_psn()) return false;
  if (loss_recovery || sender_judge || response_receiver.paths() != nullptr ||
      (packet.bitmap && id.receiving_paths > 1))
    return false;
  if (scoreboard.empty() || timers.has_undecided()) return false;
  const Message& message = messages[0];
  return message.kind == MessageKind::kRead && message.by_reference == 0 && !packet.bxth.by_reference() &&
         scoreboard.base() != message.first && scoreboard.base() + 1 != message.end() &&
         scoreboard.cumulative() >= message.end() && packet.payload.size() == id.mtu() &&
         scoreboard.state(scoreboard.base()) == EntryState::kSentUnacked;
}

// False: takes the general path, or its memory is not writable.
bool Requester::Impl::take_middle_response(const wire::Packet& packet, Instant now) {
  if (!is_next_middle(packet)) return false;
  const Message& message = messages[0];
  const std::uint32_t bytes = id.mtu();
  const auto index = static_cast<std::uint32_t>(scoreboard.base() - message.first);
  if (!scatter(env.memory, id.pd, queue, message.wqe, message.offset + index * bytes, packet.payload)) return false;
  responses.on_response(bytes, true);
  trace_entry(env, id, scoreboard, scoreboard.base(), EntryState::kSentUnacked, EntryState::kAcked, now);
  timers.on_activity(now);
  progress().on_acknowledged(now);
  scoreboard.pass_response(now);
  response_receiver.note_seen(scoreboard.base());
  env.note_length(now, id.qpn, trace::WindowSide::kSend, scoreboard);
  // With more gaps than records, an unrecorded one: later packets have been processed already.
  if (scoreboard.is_acked(scoreboard.base())) [[unlikely]]
    advance(now);
  return true;
}

}  // namespace brdma::qp
