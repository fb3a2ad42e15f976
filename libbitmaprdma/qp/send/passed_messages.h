// qp/send/passed_messages.h - private: the base of the send window moves over packets that are executed and answered. A
// message that it has passed is done, and a work request with its last message: completions in posting order, each work
// request once. Unsignaled ones are silent unless they fail.
#pragma once

#include "base/units.h"
#include "qp/loss/loss_recovery.h"
#include "qp/loss/scoreboard.h"
#include "qp/queues/message_table.h"
#include "qp/queues/work_completer.h"
#include "qp/read/response_admission.h"
#include "qp/read/response_gaps.h"
#include "qp/send/segments.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class PassedMessages {
 public:
  struct Parts {
    Scoreboard& scoreboard;
    MessageTable& messages;
    Segments& segments;
    PooledLossRecovery& loss;
    ResponseAdmission& responses;
    ResponseReceiver& receiver;
    WorkCompleter completer;
  };
  [[gnu::always_inline]] explicit PassedMessages(const Parts& parts) : parts_(parts) {}

  // Moves the base. False: it stands where it stood, and no message is done.
  [[gnu::always_inline]] bool advance(Instant now) const;
  // Completes the messages that the base has passed.
  [[gnu::always_inline]] void complete(Instant now) const;

 private:
  Parts parts_;
};

inline bool PassedMessages::advance(Instant now) const {
  Environment& env = parts_.completer.env;
  const Identity& id = parts_.completer.id;
  Scoreboard& board = parts_.scoreboard;
  PooledLossRecovery& loss = parts_.loss;
  const Psn before = board.base_psn();
  const std::uint32_t dropped = board.advance(now);
  if (dropped == 0) return false;
  if (ReceivePaths* const several = parts_.receiver.paths()) [[unlikely]]
    several->forget(before, dropped);
  env.note_length(now, id.qpn, trace::WindowSide::kSend, board);
  if (const std::size_t done = parts_.segments.retire_before(board.base()); done > 0)
    env.count(Counter::kOperationsDone, done);
  if (loss) [[unlikely]] {
    loss->on_base_moved(board.base_psn(), board.base(), now);
    if (loss->done() && board.retransmitted() == 0) loss.end(env.pools.loss_recovery);
  }
  return true;
}

inline void PassedMessages::complete(Instant now) const {
  MessageTable& messages = parts_.messages;
  while (!messages.empty() && messages.front().end() <= parts_.scoreboard.base()) {
    const Message& message = messages.front();
    const bool answered = message.answered(), last = message.last_of_wqe, send = message.kind == MessageKind::kSend;
    messages.pop_front();
    if (answered) parts_.responses.on_message_done();
    if (last && send) parts_.completer.env.count(Counter::kSends);
    if (last) parts_.completer.complete(CompletionStatus::kSuccess, now);
  }
}

}  // namespace brdma::qp
