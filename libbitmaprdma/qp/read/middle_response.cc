// Fast path for MIDDLE packets of a READ response: the next expected one, requested once, and nothing is missing. It
// does the same as handle_response.cc, which checks all cases and takes everything else.
#include <algorithm>

#include "qp/send/requester_impl.h"

namespace brdma::qp {

using bitmap::EntryState;

bool Requester::Impl::is_next_middle(const wire::Packet& packet) const {
  if (packet.op != wire::RcOp::kReadResponseMiddle || packet.bth.psn != window.base()) return false;
  if (loss_recovery != nullptr || sender_judge || response_receive_paths || (packet.bitmap && id.receiving_paths > 1))
    return false;
  if (window.in_window() == 0 || timers.has_undecided()) return false;
  const Message& message = messages[0];
  return message.kind == MessageKind::kRead && message.by_reference == 0 && !packet.bxth.by_reference() &&
         base != message.first && base + 1 != message.end() && cumulative >= message.end() &&
         packet.payload.size() == id.mtu() && window.entry(window.base()).state == EntryState::kSentUnacked;
}

// False: takes the general path, or its memory is not writable.
bool Requester::Impl::take_middle_response(const wire::Packet& packet, Instant now) {
  if (!is_next_middle(packet)) return false;
  const Message& message = messages[0];
  const std::uint32_t bytes = id.mtu();
  const auto index = static_cast<std::uint32_t>(base - message.first);
  if (!scatter(env.memory, id.pd, queue, message.wqe, message.offset + index * bytes, packet.payload)) return false;
  responses.bytes -= bytes;
  responses.came += bytes;
  --responses.packets;
  trace_entry(base, EntryState::kSentUnacked, EntryState::kAcked, now);
  timers.on_activity(now);
  note_progress(now);
  window.pass_first();
  looked_at += 2;  // acknowledged, and skipped
  base_moved = now;
  ++base;
  responses_seen = std::max(responses_seen, base);
  env.note_length(now, id.qpn, trace::WindowSide::kSend, window);
  // With more gaps than records, an unrecorded one: later packets have been processed already.
  if (window.entry(window.base()).state == EntryState::kAcked) [[unlikely]]
    advance(now);
  return true;
}

}  // namespace brdma::qp
