// Completions: in posting order, each work request once. Unsignaled ones are silent unless they fail.
#include "qp/send/requester_impl.h"

namespace brdma::qp {
// Moves the base over executed and answered packets; a message that the base has passed is done.
void Requester::Impl::advance(Instant now) {
  const Psn before = scoreboard.base_psn();
  const std::uint32_t dropped = scoreboard.advance(now);
  if (dropped == 0) return;
  if (ReceivePaths* const several = response_receiver.paths()) [[unlikely]]
    several->forget(before, dropped);
  env.note_length(now, id.qpn, trace::WindowSide::kSend, scoreboard);
  if (const std::size_t done = segments.retire_before(scoreboard.base()); done > 0)
    env.count(Counter::kOperationsDone, done);
  if (loss_recovery) [[unlikely]] {
    loss_recovery->on_base_moved(scoreboard.base_psn(), scoreboard.base(), now);
    if (loss_recovery->done() && scoreboard.retransmitted() == 0) loss_recovery.end(env.loss_recovery);
  }
  complete_passed(now);
}

// Completes the messages that the base has passed.
void Requester::Impl::complete_passed(Instant now) {
  while (!messages.empty() && messages.front().end() <= scoreboard.base()) {
    const Message& message = messages.front();
    const bool answered = message.answered(), last = message.last_of_wqe, send = message.kind == MessageKind::kSend;
    messages.pop_front();
    if (answered) responses.on_message_done();
    if (last && send) env.count(Counter::kSends);
    if (last) completer().complete(CompletionStatus::kSuccess, now);
  }
}

}  // namespace brdma::qp
