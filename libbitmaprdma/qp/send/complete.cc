// Completions: in posting order, each work request once. Unsignaled ones are silent unless they fail.
#include "qp/send/requester_impl.h"

namespace brdma::qp {
namespace {

CompletionOpcode completion_opcode(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kRdmaWrite:
    case WorkOpcode::kRdmaWriteWithImm:
      return CompletionOpcode::kRdmaWrite;
    case WorkOpcode::kRdmaRead:
      return CompletionOpcode::kRdmaRead;
    case WorkOpcode::kAtomicCmpSwap:
      return CompletionOpcode::kCompSwap;
    case WorkOpcode::kAtomicFetchAdd:
      return CompletionOpcode::kFetchAdd;
    case WorkOpcode::kAtomicWrite:
      return CompletionOpcode::kAtomicWrite;
    case WorkOpcode::kFlush:
      return CompletionOpcode::kFlush;
    case WorkOpcode::kBindMw:
      return CompletionOpcode::kBindMw;
    case WorkOpcode::kLocalInvalidate:
      return CompletionOpcode::kLocalInvalidate;
    default:
      return CompletionOpcode::kSend;
  }
}

}  // namespace

// Moves the base over executed and answered packets; a message that the base has passed is done.
void Requester::Impl::advance(Instant now) {
  const Psn before = window.base();
  const std::uint32_t dropped = window.advance(psn_of(cumulative));
  if (dropped == 0) return;
  looked_at += dropped;
  if (response_receive_paths) [[unlikely]]
    response_receive_paths->forget(before, dropped);
  base += dropped;
  base_moved = now;
  env.note_length(now, id.qpn, trace::WindowSide::kSend, window);
  if (operations->size() > 0) env.count(Counter::kOperationsDone, operations.if_made()->retire_before(base));
  if (loss_recovery != nullptr) [[unlikely]] {
    loss_recovery->response_gaps.drop_before(window.base());
    note_base_at_gap(now);
    loss_recovery->overtaking.elapse(now);
    loss_recovery->response_tolerance.elapse(now);
    if (loss_recovery->gone_back_to && *loss_recovery->gone_back_to < base) loss_recovery->gone_back_to.reset();
    if (loss_recovery->done() && resent_under_way == 0) end_loss_recovery();
  }
  complete_passed(now);
}

// Completes the messages that the base has passed.
void Requester::Impl::complete_passed(Instant now) {
  while (!messages.empty() && messages.front().end() <= base) {
    const Message& message = messages.front();
    const bool answered = message.answered(), last = message.last_of_wqe, send = message.kind == MessageKind::kSend;
    messages.pop_front();
    if (answered) --responses.messages;
    if (last && send) env.count(Counter::kSends);
    if (last) complete_next(CompletionStatus::kSuccess, now);
  }
}

[[gnu::always_inline]] inline void Requester::Impl::complete_next(CompletionStatus status, Instant now) {
  const bool good = status == CompletionStatus::kSuccess;
  do {
    const SendWqe& wqe = queue[queue.head()];
    if (!good || id.signal_all || (wqe.flags & kSendSignaled) != 0) make_completion(wqe, status, now);
    queue.pop();
    // Local operations behind it have waited for just this.
  } while (good && queue.head() < queue.next() && is_local(queue[queue.head()].opcode));
}

void Requester::Impl::complete_head(CompletionStatus status, Instant now) { complete_next(status, now); }

[[gnu::always_inline]] inline void Requester::Impl::make_completion(const SendWqe& wqe, CompletionStatus status,
                                                                    Instant now) {
  const bool good = status == CompletionStatus::kSuccess;
  const auto fill = [&](Completion& completion) {
    completion = {.wr_id = wqe.wr_id,
                  .status = status,
                  .opcode = completion_opcode(wqe.opcode),
                  .byte_length = good ? wqe.length : 0,
                  .qp_num = id.qpn};
  };
  if (good && env.sink == nullptr && id.send_cq->is_quiet()) [[likely]]
    return fill(id.send_cq->add());
  Completion completion;
  fill(completion);
  if (!env.complete(*id.send_cq, completion, !good, now)) completions_lost = true;
}

Outcome Requester::Impl::fail(std::uint64_t wqe, CompletionStatus status, Instant now) {
  while (queue.head() < wqe) complete_head(CompletionStatus::kFlushed, now);
  complete_head(status, now);
  return Outcome{.to_error = true};
}

void Requester::Impl::break_locally(std::uint64_t wqe, CompletionStatus status) {
  if (broken_wqe && *broken_wqe <= wqe) return;
  broken_wqe = wqe;
  broken_status = status;
}

Outcome Requester::Impl::outcome_of_fault(Instant now) {
  if (broken_wqe && queue.head() == *broken_wqe) return fail(*broken_wqe, broken_status, now);
  if (completions_lost) return {.to_error = true, .async_event = kEventQpFatal};
  return {.wants_local = wants_local};
}

}  // namespace brdma::qp
