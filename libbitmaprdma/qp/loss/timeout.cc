// Silence: the tail loss probe, the retransmission timeout, the retry limit, the end of an RNR wait, and the packet
// that probes a peer without credit. How long each is: timer_lengths.h.
//
// The retry limit waits while the peer's host reports its process as stopped (stopped_peer.cc), and while we were
// stopped.
#include <algorithm>

#include "qp/send/requester_impl.h"

namespace brdma::qp {
namespace {

using bitmap::EntryState;

constexpr Duration kLongStall = 100_ms;  // longer than a busy machine delays a process; reported to the operator
// A deadline handled so much later shows that our own process was stopped, or had no core.
constexpr Duration kOwnPauseMin = 50_ms;

void consider(std::optional<Instant>& first, std::optional<Instant> at) {
  if (at && (!first || *at < *first)) first = at;
}

}  // namespace

void Requester::follow_irn(const IrnTimeouts& timeouts) { impl_->sender_judge->follow_irn(timeouts); }

std::optional<Instant> Requester::Impl::retransmit_deadline() const {
  if (scoreboard.empty() || rnr.waiting()) return std::nullopt;
  if (!id.bitmap_agreed && id.attributes.timeout == 0) return std::nullopt;
  const TimerLengths lengths = timer_lengths();
  const Duration timeout = id.bitmap_agreed ? lengths.retransmission() : lengths.attribute();
  return timers.armed() + (peer_is_stopped() ? std::max(timeout, lengths.stopped()) : timeout);
}

std::optional<Instant> Requester::Impl::probe_deadline() const {
  if (scoreboard.empty() || scoreboard.pending() > 0 || rnr.waiting() || timers.probe_sent()) return std::nullopt;
  if (timer_lengths().follows_irn()) return std::nullopt;
  // A standard peer does not acknowledge a duplicate probe; but a READ can be re-requested from any peer.
  if (!id.bitmap_agreed && (responses.packets() == 0 || goes_back())) {
    return std::nullopt;
  }
  return timers.activity() + timer_lengths().probe();
}

// The window stands still: packets beyond arrive, the one at its base does not. (The FFM should report the hole, but
// FFMs may be lost too.) If nothing arrives any more it is a silence, not a stall, and resending everything each time
// would exceed the RTO's backoff.
std::optional<Instant> Requester::Impl::stall_deadline() const {
  if (!id.bitmap_agreed || !scoreboard.has_holes() || rnr.waiting() || sender_judge) return std::nullopt;
  if (!timers.acknowledged_since_stall()) return std::nullopt;
  return scoreboard.cumulative_moved() + timer_lengths().stall();
}

void Requester::Impl::fire_stall(Instant now) {
  env.count(Counter::kSendStalls);
  env.trace(
      now, id.qpn,
      trace::SendStalled{scoreboard.psn_of(scoreboard.cumulative()), scoreboard.psn_of(scoreboard.arrived_end())});
  scoreboard.restart_stall(now);
  timers.on_window_stall();
  for (Sequence at = scoreboard.first_unreported(scoreboard.cumulative(), scoreboard.arrived_end());
       at < scoreboard.arrived_end(); at = scoreboard.first_unreported(at + 1, scoreboard.arrived_end()))
    suspect(at, now);
  // The peer may have lost its core, with the other packets in its socket: the reply to this one will show it.
  const Sequence first = scoreboard.first_unreported(scoreboard.cumulative(), scoreboard.arrived_end());
  if (first < scoreboard.arrived_end()) request_resend_range(first, first + 1, Counter::kRetransmittedAck, now);
}

void Requester::Impl::suspect(Sequence sequence, Instant now) {
  if (scoreboard.state(sequence) != EntryState::kSentUnacked) return;
  scoreboard.suspect(sequence);
  trace_entry(sequence, EntryState::kSentUnacked, EntryState::kSuspectedLost, now);
}

std::optional<Instant> Requester::Impl::bridge_deadline() const {
  if (!id.bitmap_agreed || scoreboard.pending() > 0 || timers.has_undecided()) return std::nullopt;
  return admission.bridge_at(congestion);
}

std::optional<Instant> Requester::Impl::retry_limit_at() const {
  if (scoreboard.empty() || rnr.waiting() || id.attributes.timeout == 0) return std::nullopt;
  const Instant from = signals ? signals->stopped.silent_from(timers.progress()) : timers.progress();
  return from + timer_lengths().retries();
}

// A process that was stopped, or had no core, finds its deadlines long past. It received nothing in that time, so the
// time does not count as silence. One retry remains in any case, whose acknowledgement may be in flight. (Packets
// received meanwhile lie in the socket: a round of them is processed before timers are checked.)
void Requester::Impl::note_own_pause(Instant now) {
  const auto due = retransmit_deadline();
  if (!due || now - *due < kOwnPauseMin) return;
  timers.on_own_pause(now - *due, now + timer_lengths().retry() - timer_lengths().retries());
}

// The retry limit ends a silence only if it lasted through a retransmission: this process may have been stopped.
bool Requester::Impl::may_exceed_retry_limit() const { return timers.backoff() > 0 || id.attributes.retry_count == 0; }

// Packets are in flight, and only the retransmission timeout and the probe can be due: the other deadlines of
// next_timeout() are unset.
bool Requester::Impl::waits_plainly() const {
  return !scoreboard.empty() && scoreboard.pending() == 0 && id.can_send() && id.bitmap_agreed && !rnr.waiting() &&
         sender_judge == nullptr && !has_signals() && !loss_recovery && admission.is_quiet() &&
         !scoreboard.has_holes() && !may_exceed_retry_limit();
}

// Precondition: waits_plainly(). The same as retransmit_deadline() and probe_deadline() before the first timeout.
Instant Requester::Impl::plain_deadline() const { return timer_lengths().first_due(); }

std::optional<Instant> Requester::next_timeout() const {
  const Impl& me = *impl_;
  if (!me.id.can_send()) return std::nullopt;
  if (me.rnr.waiting()) return me.rnr.until();
  std::optional<Instant> first = me.retransmit_deadline();
  consider(first, me.probe_deadline());
  if (me.may_exceed_retry_limit()) {
    consider(first, me.retry_limit_at());
    consider(first, me.stopped_query_at());
  }
  if (me.loss_recovery) consider(first, me.loss_recovery->response_judge_at);
  consider(first, me.admission.probe_at());
  consider(first, me.bridge_deadline());
  consider(first, me.stall_deadline());
  if (me.sender_judge) consider(first, me.judgement().judged_at(me.timer_lengths().probe()));
  consider(first, me.inquiry_until());
  consider(first, me.loss_recovery.paused_until());
  if (me.scoreboard.pending() > 0) consider(first, me.loss_recovery.held_until());
  return first;
}

Outcome Requester::handle_timeout(Instant now) {
  Impl& me = *impl_;
  if (!me.id.can_send()) return {};
  if (me.rnr.wait_is_over(now)) me.end_rnr_wait(now);
  if (me.rnr.waiting()) return {};

  me.note_own_pause(now);
  if (const auto dead = me.retry_limit_at(); dead && now >= *dead && me.may_exceed_retry_limit()) {
    me.env.count(Counter::kRetryExceeded);
    me.env.note(now, me.id.qpn, trace::EventType::kRetryExceeded, me.scoreboard.base_psn().value());
    return me.completer().fail(me.queue.head(), CompletionStatus::kRetryExceeded, now);
  }
  if (const auto query = me.may_exceed_retry_limit() ? me.stopped_query_at() : std::nullopt; query && now >= *query)
    me.signals_made().stopped.query_falls_due(me.timers.progress());
  if (const auto due = me.retransmit_deadline(); due && now >= *due) {
    me.fire_retransmit_timeout(now);
  } else if (const auto probe = me.probe_deadline(); probe && now >= *probe) {
    me.fire_probe(now);
  }
  me.judge_response_gaps(now, now);
  if (const auto bridge = me.bridge_deadline(); bridge && now >= *bridge)
    me.admission.extend_bridge(me.congestion, now);
  if (me.sender_judge) {
    const auto resend = [&](Sequence at, Counter cause) { me.request_resend_range(at, at + 1, cause, now); };
    me.note_timed_out(me.judgement().by_time(me.timer_lengths().probe(), now, resend), now);
  }
  me.conclude_inquiry(now);
  if (const auto stall = me.stall_deadline(); stall && now >= *stall) me.fire_stall(now);
  if (const auto held = me.loss_recovery.held_until(); held && now >= *held) me.loss_recovery->held_until.reset();
  if (const auto paused = me.loss_recovery.paused_until(); paused && now >= *paused)
    me.loss_recovery->paused_until.reset();
  if (const auto probe = me.admission.probe_at(); probe && now >= *probe)
    me.admission.on_probe_due(now + me.timer_lengths().retransmission());
  return me.outcome(now);
}

// The newest unacknowledged entry. If all have arrived but their execution is not acknowledged (the last
// acknowledgement was lost), the newest of all is opened again: a duplicate is acknowledged.
Sequence Requester::Impl::last_open(Instant now) {
  Sequence last = scoreboard.next() - 1;
  if (scoreboard.unacked() == 0) reopen(last, message_of(last), now);
  while (scoreboard.is_acked(last)) --last;
  return last;
}

void Requester::Impl::fire_retransmit_timeout(Instant now) {
  env.count(Counter::kLocalAckTimeout);
  env.trace(now, id.qpn, trace::TimeoutFired{false, scoreboard.base_psn()});
  timers.on_timeout(now);
  if (paths) paths->forget_silence();  // all are silent: no evidence against any
  if (!timers.is_stalled() && now - timers.progress() >= kLongStall) {
    timers.begin_stall();
    env.count(Counter::kStallsBegun);
    env.note(now, id.qpn, trace::EventType::kStallBegun, scoreboard.base_psn().value());
  }
  rnr.on_timeout(scoreboard.cumulative());
  if (!id.bitmap_agreed) {
    request_resend_range(scoreboard.base(), scoreboard.next(), Counter::kRetransmittedTimeout, now);
    return;
  }
  if (timer_lengths().follows_irn()) return resend_by_irn(now);
  timers.add_undecided(scoreboard.unacked(), now);
  timers.grant(2);
  const Sequence last = last_open(now);
  Sequence first = scoreboard.base();
  while (scoreboard.is_acked(first)) ++first;
  for (Sequence at = scoreboard.base(); at < scoreboard.next(); ++at) suspect(at, now);
  const std::uint32_t waiting = scoreboard.unacked() - scoreboard.pending();
  std::uint32_t again = request_resend_range(first, first + 1, Counter::kRetransmittedTimeout, now);
  again += request_resend_range(last, last + 1, Counter::kRetransmittedTimeout, now);
  // In one silence all packets time out once; after that only those that the timer retransmitted.
  note_timed_out(timers.backoff() == 1 ? waiting : again, now);
}

// The oldest, and all missing packets before a received one.
void Requester::Impl::resend_by_irn(Instant now) {
  timers.grant(1);
  if (scoreboard.unacked() == 0) reopen(scoreboard.base(), message_of(scoreboard.base()), now);
  Sequence first = scoreboard.base();
  while (scoreboard.is_acked(first)) ++first;
  request_resend_range(first, std::max(first + 1, scoreboard.arrived_end()), Counter::kRetransmittedTimeout, now);
}

// Retransmits the last packet: if the tail was lost, the receiver now sees a gap and reports the missing packets.
// Missing responses are known here. A standard peer needs requests in order, so the first unanswered goes instead.
void Requester::Impl::fire_probe(Instant now) {
  env.trace(now, id.qpn, trace::TimeoutFired{true, scoreboard.base_psn()});
  timers.on_probe(now);
  response_gaps().request_all(
      now, [&](Sequence at) { return request_resend(at, message_of(at), Counter::kRetransmittedFfm, now); });
  // A retransmission that blocks everything else may be lost too.
  const bool stuck = id.bitmap_agreed && scoreboard.cumulative() < scoreboard.next() &&
                     scoreboard.entry(scoreboard.cumulative()).transmissions > 1;
  if (stuck)
    request_resend_range(scoreboard.cumulative(), scoreboard.cumulative() + 1, Counter::kRetransmittedProbe, now);
  if (stuck) timers.grant(2);
  const Sequence probe = id.bitmap_agreed ? last_open(now) : response_gaps().first_missing();
  if (probe == scoreboard.next()) return;
  const Message& message = message_of(probe);
  if (message.answered() && response_receiver.seen() <= message.first) {
    request_resend_range(probe, probe + 1, Counter::kRetransmittedProbe, now);  // no response yet: the whole request
  } else {
    request_resend(probe, message, Counter::kRetransmittedProbe, now);
  }
}

void Requester::Impl::end_rnr_wait(Instant now) {
  rnr.on_wait_over();
  timers.on_rnr_end(now);
  for (Sequence at = scoreboard.cumulative(); at < scoreboard.next(); ++at) {
    const Message& message = message_of(at);
    if (message.answered() && message.request_received) continue;
    request_resend(at, message, Counter::kRetransmittedNak, now);
  }
}

}  // namespace brdma::qp
