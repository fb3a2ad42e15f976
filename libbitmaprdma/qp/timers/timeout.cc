// A requester's timers, fired in order. When each is due: deadlines.h; what it does: timer_actions.h.
#include "qp/send/requester_impl.h"

namespace brdma::qp {
namespace {

bool is_due(const std::optional<Instant>& at, Instant now) { return at && now >= *at; }

// Packets that the sender itself counts as lost by now leave again.
void judge_by_time(Requester::Impl& me, Instant now) {
  if (!me.losses.judge) return;
  const SentPackets packets = me.sent_packets();
  const auto retransmit = [&](Sequence at, Counter cause) { packets.retransmit_range(at, at + 1, cause, now); };
  me.link_inquiries().on_timed_out(packets.judgement().by_time(me.timer_lengths().probe(), now, retransmit), now);
}

}  // namespace

std::optional<Instant> Requester::next_timeout() const { return impl_->deadlines().first(); }

Outcome Requester::handle_timeout(Instant now) {
  Impl& me = *impl_;
  if (!me.id.can_send()) return {};
  if (me.rnr.wait_is_over(now)) me.timer_actions().end_rnr_wait(now);
  if (me.rnr.waiting()) return {};

  const Deadlines due = me.deadlines();
  const TimerActions actions = me.timer_actions();
  if (const auto timeout = due.retransmission()) actions.note_own_pause(*timeout, now);
  if (due.may_exceed_retry_limit() && is_due(due.retry_limit(), now)) {
    me.env.count(Counter::kRetryExceeded);
    me.env.note(now, me.id.qpn, trace::EventType::kRetryExceeded, me.scoreboard.base_psn().value());
    return me.completer().fail(me.queue.head(), CompletionStatus::kRetryExceeded, now);
  }
  if (due.may_exceed_retry_limit() && is_due(due.stopped_query(), now))
    made(me.path.signals).stopped.query_falls_due(me.timers.progress());
  if (is_due(due.retransmission(), now)) {
    actions.fire_retransmission(now);
  } else if (is_due(due.probe(), now)) {
    actions.fire_probe(now);
  }
  me.response_gaps().judge(now, now, me.sent_packets().retransmitting(Counter::kRetransmittedFfm, now));
  if (is_due(due.bridge(), now)) me.admission.extend_bridge(me.path.congestion, now);
  judge_by_time(me, now);
  me.link_inquiries().conclude(now);
  if (is_due(due.stall(), now)) actions.fire_stall(now);
  if (me.losses.recovery) me.losses.recovery->end_waits(now);
  if (is_due(me.admission.probe_at(), now)) me.admission.on_probe_due(now + me.timer_lengths().retransmission());
  return me.outcome(now);
}

}  // namespace brdma::qp
