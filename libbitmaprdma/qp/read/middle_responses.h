// qp/read/middle_responses.h - private: fast path for MIDDLE packets of a READ response: the next expected one,
// requested once, and nothing is missing. It does the same as handle_response.cc, which checks all cases and takes
// everything else. Inlined there: one comes for most packets of a long READ.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "qp/loss/loss_recovery.h"
#include "qp/loss/sent_packets.h"
#include "qp/queues/message_table.h"
#include "qp/queues/payload_cursor.h"
#include "qp/queues/send_queue.h"
#include "qp/read/response_admission.h"
#include "qp/read/response_gaps.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/timers/progress.h"
#include "qp/timers/retransmission_timers.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class MiddleResponses {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const SendQueue& queue;
    const MessageTable& messages;
    Scoreboard& scoreboard;
    const PooledLossRecovery& loss;
    bool sender_judges;
    ResponseAdmission& responses;
    ResponseReceiver& receiver;
    RetransmissionTimers& timers;
  };
  [[gnu::always_inline]] explicit MiddleResponses(const Parts& parts) : parts_(parts) {}

  // False: takes the general path, or its memory is not writable.
  [[gnu::always_inline]] bool take(const wire::Packet& packet, Instant now) const;

 private:
  [[nodiscard, gnu::always_inline]] bool is_next(const wire::Packet& packet) const;

  Parts parts_;
};

inline bool MiddleResponses::is_next(const wire::Packet& packet) const {
  const Identity& id = parts_.id;
  const Scoreboard& board = parts_.scoreboard;
  if (packet.op != wire::RcOp::kReadResponseMiddle || packet.bth.psn != board.base_psn()) return false;
  if (parts_.loss || parts_.sender_judges || parts_.receiver.paths() != nullptr ||
      (packet.bitmap && id.receiving_paths > 1))
    return false;
  if (board.empty() || parts_.timers.has_undecided()) return false;
  const Message& message = parts_.messages[0];
  return message.kind == MessageKind::kRead && message.by_reference == 0 && !packet.bxth.by_reference() &&
         board.base() != message.first && board.base() + 1 != message.end() && board.cumulative() >= message.end() &&
         packet.payload.size() == id.mtu() && board.state(board.base()) == bitmap::EntryState::kSentUnacked;
}

inline bool MiddleResponses::take(const wire::Packet& packet, Instant now) const {
  if (!is_next(packet)) return false;
  Environment& env = parts_.env;
  const Identity& id = parts_.id;
  Scoreboard& board = parts_.scoreboard;
  const Message& message = parts_.messages[0];
  const std::uint32_t bytes = id.mtu();
  const auto index = static_cast<std::uint32_t>(board.base() - message.first);
  if (!scatter(env.memory, id.pd, parts_.queue, message.wqe, message.offset + index * bytes, packet.payload))
    return false;
  parts_.responses.on_response(bytes, true);
  trace_entry(env, id, board, board.base(), bitmap::EntryState::kSentUnacked, bitmap::EntryState::kAcked, now);
  parts_.timers.on_activity(now);
  Progress{env, id, board, parts_.timers}.on_acknowledged(now);
  board.pass_response(now);
  parts_.receiver.note_seen(board.base());
  env.note_length(now, id.qpn, trace::WindowSide::kSend, board);
  return true;
}

}  // namespace brdma::qp
