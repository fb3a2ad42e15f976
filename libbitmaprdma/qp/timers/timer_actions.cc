#include "qp/timers/timer_actions.h"

#include <algorithm>

namespace brdma::qp {

using bitmap::EntryState;

namespace {

// A deadline handled so much later shows that our own process was stopped, or had no core.
constexpr Duration kOwnPauseMin = 50_ms;

}  // namespace

void TimerActions::fire_retransmission(Instant now) const {
  Environment& env = parts_.env;
  Scoreboard& board = parts_.scoreboard;
  RetransmissionTimers& timers = parts_.timers;
  env.count(Counter::kLocalAckTimeout);
  env.trace(now, parts_.id.qpn, trace::TimeoutFired{false, board.base_psn()});
  timers.on_timeout(now);
  if (parts_.paths != nullptr) parts_.paths->forget_silence();  // all are silent: no evidence against any
  Progress(env, parts_.id, board, timers).on_timeout(now);
  parts_.rnr.on_timeout(board.cumulative());
  if (!parts_.id.bitmap_agreed) {
    parts_.packets.retransmit_range(board.base(), board.next(), Counter::kRetransmittedTimeout, now);
    return;
  }
  if (parts_.lengths.follows_irn()) return retransmit_by_irn(now);
  if (board.unacked() == 0) return repeat(board.next() - 1, now);
  timers.add_undecided(board.unacked(), now);
  timers.grant(2);
  const Sequence last = parts_.packets.newest_open(), first = parts_.packets.oldest_open();
  for (Sequence at = board.base(); at < board.next(); ++at) parts_.packets.suspect(at, now);
  const std::uint32_t waiting = board.unacked() - board.pending();
  std::uint32_t again = parts_.packets.retransmit_range(first, first + 1, Counter::kRetransmittedTimeout, now);
  again += parts_.packets.retransmit_range(last, last + 1, Counter::kRetransmittedTimeout, now);
  // In one silence all packets time out once; after that only those that the timer retransmitted.
  parts_.inquiries.on_timed_out(timers.backoff() == 1 ? waiting : again, now);
}

// Nothing is missing but the acknowledgement that all is executed. A silence, of one packet.
void TimerActions::repeat(Sequence sequence, Instant now) const {
  parts_.timers.grant(1);
  parts_.packets.repeat(sequence, Counter::kRetransmittedTimeout);
  parts_.inquiries.on_timed_out(1, now);
}

// The oldest, and all missing packets before a received one.
void TimerActions::retransmit_by_irn(Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  parts_.timers.grant(1);
  if (board.unacked() == 0) return parts_.packets.repeat(board.base(), Counter::kRetransmittedTimeout);
  const Sequence first = parts_.packets.oldest_open();
  parts_.packets.retransmit_range(first, std::max(first + 1, board.arrived_end()), Counter::kRetransmittedTimeout, now);
}

// Missing responses are known here. A standard peer needs requests in order, so the first unanswered goes instead.
void TimerActions::fire_probe(Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  const SentPackets& packets = parts_.packets;
  parts_.env.trace(now, parts_.id.qpn, trace::TimeoutFired{true, board.base_psn()});
  parts_.timers.on_probe(now);
  parts_.gaps.request_all(now, [&](Sequence at) {
    return packets.retransmit(at, packets.message_of(at), Counter::kRetransmittedFfm, now);
  });
  // A retransmission that blocks everything else may be lost too.
  const Sequence blocking = board.cumulative();
  if (parts_.id.bitmap_agreed && blocking < board.next() && board.entry(blocking).transmissions > 1) {
    packets.retransmit_range(blocking, blocking + 1, Counter::kRetransmittedProbe, now);
    parts_.timers.grant(2);
  }
  if (parts_.id.bitmap_agreed && board.unacked() == 0)
    return packets.repeat(board.next() - 1, Counter::kRetransmittedProbe);
  const Sequence probe = parts_.id.bitmap_agreed ? packets.newest_open() : parts_.gaps.first_missing();
  if (probe == board.next()) return;
  const Message& message = packets.message_of(probe);
  if (message.answered() && parts_.receiver.seen() <= message.first) {
    packets.retransmit_range(probe, probe + 1, Counter::kRetransmittedProbe,
                             now);  // no response yet: the whole request
  } else {
    packets.retransmit(probe, message, Counter::kRetransmittedProbe, now);
  }
}

void TimerActions::fire_stall(Instant now) const {
  Scoreboard& board = parts_.scoreboard;
  parts_.env.count(Counter::kSendStalls);
  parts_.env.trace(now, parts_.id.qpn,
                   trace::SendStalled{board.psn_of(board.cumulative()), board.psn_of(board.arrived_end())});
  board.restart_stall(now);
  parts_.timers.on_window_stall();
  const Sequence end = board.arrived_end(), first = board.first_unreported(board.cumulative(), end);
  for (Sequence at = first; at < end; at = board.first_unreported(at + 1, end)) parts_.packets.suspect(at, now);
  // The peer may have lost its core, with the other packets in its socket: the reply to this one will show it.
  if (first < end) parts_.packets.retransmit_range(first, first + 1, Counter::kRetransmittedAck, now);
}

void TimerActions::end_rnr_wait(Instant now) const {
  parts_.rnr.on_wait_over();
  parts_.timers.on_rnr_end(now);
  parts_.scoreboard.restart_stall(now);  // the base could not move before
  for (Sequence at = parts_.scoreboard.cumulative(); at < parts_.scoreboard.next(); ++at) {
    const Message& message = parts_.packets.message_of(at);
    if (message.answered() && message.request_received) continue;
    parts_.packets.retransmit(at, message, Counter::kRetransmittedNak, now);
  }
}

void TimerActions::note_own_pause(Instant due, Instant now) const {
  if (now - due < kOwnPauseMin) return;
  parts_.timers.on_own_pause(now - due, now + parts_.lengths.retry() - parts_.lengths.retries());
}

void TimerActions::on_evidence(Instant sent, Instant now) const {
  const auto timeouts = parts_.timers.take_undecided();
  if (!timeouts) return;
  // What left at the timeout left after it: the scoreboard's times are rounded down.
  const Instant last = Scoreboard::rounded(timeouts->last);
  if (sent < last) return;
  const Scoreboard& board = parts_.scoreboard;
  std::uint32_t lost = 0;
  for (Sequence at = board.base(); at < board.next(); ++at) {
    if (board.is_acked(at) || board.sent_at(at, now) >= last) continue;
    parts_.packets.retransmit(at, parts_.packets.message_of(at), Counter::kRetransmittedTimeout, now);
    ++lost;
  }
  if (lost * 2 <= timeouts->packets) return;
  for (unsigned i = 0; i < timeouts->count; ++i) {
    parts_.congestion.on_timeout();
    parts_.responses.congestion().on_timeout();
  }
}

}  // namespace brdma::qp
