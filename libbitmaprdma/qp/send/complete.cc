// Completions: in posting order, each work request once. Unsignaled ones are silent unless they fail.
#include "qp/send/requester_impl.h"

namespace brdma::qp {
// Moves the base over executed and answered packets; a message that the base has passed is done.
void Requester::Impl::advance(Instant now) {
  const Psn before = scoreboard.base_psn();
  const std::uint32_t dropped = scoreboard.advance(now);
  if (dropped == 0) return;
  if (response_receive_paths) [[unlikely]]
    response_receive_paths->forget(before, dropped);
  env.note_length(now, id.qpn, trace::WindowSide::kSend, scoreboard);
  if (operations->size() > 0)
    env.count(Counter::kOperationsDone, operations.if_made()->retire_before(scoreboard.base()));
  if (loss_recovery != nullptr) [[unlikely]] {
    loss_recovery->response_gaps.drop_before(scoreboard.base_psn());
    note_base_at_gap(now);
    loss_recovery->overtaking.elapse(now);
    loss_recovery->response_tolerance.elapse(now);
    if (loss_recovery->gone_back_to && *loss_recovery->gone_back_to < scoreboard.base())
      loss_recovery->gone_back_to.reset();
    if (loss_recovery->done() && scoreboard.retransmitted() == 0) end_loss_recovery();
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
