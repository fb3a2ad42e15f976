// Acknowledgements: AETHs (standard: everything up to a PSN) and BitmapAcks (everything before the base, and a bitmap
// of the rest). Both may carry a NAK. This file has the order of things; the rules stand with their owners.
#include <algorithm>

#include "qp/loss/ack_fast_path.h"
#include "qp/loss/executed_requests.h"
#include "qp/loss/refusals.h"
#include "qp/loss/reported_arrivals.h"
#include "qp/loss/reported_losses.h"
#include "qp/loss/sender_judgement.h"
#include "qp/paths/path_evidence.h"

namespace brdma::qp {
namespace {

using Impl = Requester::Impl;

std::uint8_t kind_of(std::uint8_t syndrome) { return syndrome & wire::kSyndromeKindMask; }
constexpr std::uint8_t kKindRnr = 0x20, kKindNak = 0x60;

// --- views that only acknowledgements need ---

ReportedArrivals reported_arrivals(Impl& me) {
  return ReportedArrivals{{me.env, me.id, me.scoreboard, me.segments, me.path.congestion, me.losses.recovery,
                           me.path.several.get(), me.losses.judge != nullptr, me.sent_packets(), me.progress(),
                           me.link_inquiries(), me.timer_lengths()}};
}

ReportedLosses reported_losses(Impl& me) {
  return ReportedLosses{{me.env, me.id, me.scoreboard, me.path.rtt, me.path.congestion, me.timers, me.rnr,
                         me.losses.feedback_order, me.path.signals.get(), me.path.several.get(), me.sent_packets()}};
}

Refusals refusals(Impl& me) {
  return Refusals{
      {me.env, me.id, me.scoreboard, me.path.rtt, me.losses.recovery, me.rnr, me.sent_packets(), me.references()}};
}

// Precondition: there are several paths.
PathEvidence path_evidence(Impl& me) {
  return PathEvidence{{me.env, me.id, me.scoreboard, me.path.congestion, me.responses.congestion(), *me.path.several,
                       me.sent_packets(), me.timer_lengths()}};
}

// --- NAKs ---

// A reserved kind only acknowledges all before it.
Outcome handle_refusal(Impl& me, std::uint8_t syndrome, Sequence at, Instant now) {
  const Refusals refused = refusals(me);
  if (kind_of(syndrome) == kKindRnr) {
    switch (refused.on_not_ready(syndrome, at, now)) {
      case Refusals::Rnr::kRepeated:
        return {};
      case Refusals::Rnr::kWaits:
        me.progress().on_acknowledged(now);  // the peer is alive, but its refusals go on counting
        return {};
      case Refusals::Rnr::kTooMany:
        return me.completer().fail(me.messages.of(at).wqe, CompletionStatus::kRnrRetryExceeded, now);
    }
  }
  if (kind_of(syndrome) != kKindNak) return {};
  if (syndrome == wire::kSyndromeNakSequence) {
    refused.on_sequence_nak(at, now);
    return {};
  }
  const CompletionStatus status = refused.status(syndrome, at);
  const std::uint64_t wqe = me.messages.of(at).wqe;
  me.advance(now);  // earlier finished requests complete as done
  return me.completer().fail(wqe, status, now);
}

// --- echoes ---

// Nothing: the sample is impossible.
std::optional<Duration> measured_round_trip(const wire::BitmapAck& ack, Instant echo, Instant now) {
  const Duration measured = now - echo - ack.held();
  return recovery::is_possible_round_trip(measured) ? std::optional{measured} : std::nullopt;
}

// Applies the echoed timestamp: an RTT sample, with the bytes acknowledged.
void take_echo(Impl& me, const wire::BitmapAck& ack, std::uint64_t acknowledged, std::uint16_t source_port,
               Instant now) {
  const Instant echo = wire::instant_of(ack.ts_echo, now);
  const auto measured = measured_round_trip(ack, echo, now);
  if (!measured) return;
  me.path.rtt.sample(*measured, now);
  const Duration sample =
      me.path.several ? path_evidence(me).on_echo(ack, source_port, echo, *measured, now) : *measured;
  me.take_round_trip({sample, ack.waited + me.env.waited}, acknowledged, echo, now);
}

// Overtaken by responses that acknowledged the same: only its path evidence is new.
void take_path_echo(Impl& me, const wire::BitmapAck& ack, std::uint16_t source_port, Instant now) {
  const Instant echo = wire::instant_of(ack.ts_echo, now);
  if (const auto measured = measured_round_trip(ack, echo, now))
    (void)path_evidence(me).on_echo(ack, source_port, echo, *measured, now);
}

// Before its arrivals are applied.
void take_first_report(Impl& me, const wire::BitmapAck& ack, Instant now) {
  if (!ack.echo_valid) me.round_trips().on_first_report(ack.highest, now);
}

// --- bitmap acknowledgements ---

// All before its base was known to be executed.
void drop_stale(Impl& me, const wire::BitmapAck& ack, std::uint16_t source_port, Instant now) {
  if (me.path.several && ack.echo_valid) [[unlikely]]
    take_path_echo(me, ack, source_port, now);
  if (ack.piggybacked) return me.env.count(Counter::kStalePiggybacks);  // no fault of the data that carried it
  me.env.drop(DropReason::kStaleResponse);
}

// A packet never sent cannot have arrived.
bool names_unsent(const Impl& me, const wire::BitmapAck& ack, Sequence base) {
  const Scoreboard& board = me.scoreboard;
  return base > board.next() || (ack.operations_valid && me.segments.names_unsent(ack, board.next())) ||
         distance(ack.highest, board.base_psn()) >= static_cast<std::int32_t>(board.entries());
}

bool names_arrivals(const wire::BitmapAck& ack) { return ack.bit_count > 0 || ack.range_count > 0; }

// A receiver in bitmap mode names missing packets itself: a sequence NAK says nothing.
bool refuses_base(const wire::BitmapAck& ack) {
  return !wire::acknowledges(ack.syndrome) && ack.syndrome != wire::kSyndromeNakSequence;
}

// Precondition: the sender judges losses by itself.
void judge_losses(Impl& me, const wire::BitmapAck& ack, Sequence base, Instant now) {
  const SentPackets packets = me.sent_packets();
  packets.judgement().on_acknowledgement(
      ack, base, now, [&](Sequence at, Counter cause) { packets.retransmit_range(at, at + 1, cause, now); });
}

// Precondition: refuses_base(), and the packet was sent.
Outcome handle_bitmap_refusal(Impl& me, const wire::BitmapAck& ack, Sequence base, Instant now) {
  if (kind_of(ack.syndrome) == kKindRnr) reported_arrivals(me).take_back(ack, base, now);
  return handle_refusal(me, ack.syndrome, base, now);
}

}  // namespace

// The packet left at `echo`.
void Requester::Impl::take_round_trip(const congestion::RoundTrip& trip, std::uint64_t acknowledged, Instant echo,
                                      Instant now) {
  round_trips().on_echo(trip, acknowledged, now);
  if (timers.has_undecided()) [[unlikely]]
    timer_actions().on_evidence(echo, now);
}

void Requester::Impl::apply_pending_round_trip() {
  env.round_trip.requester = nullptr;
  const PendingRoundTrip& pending = env.round_trip;
  path.rtt.sample(pending.measured, pending.acked_at);
  take_round_trip({pending.measured, pending.waited}, pending.acknowledged, pending.sent, pending.acked_at);
}

// The peer has executed all requests before `boundary`.
void Requester::Impl::acknowledge_requests_before(Sequence boundary, Instant now) {
  if (boundary <= scoreboard.cumulative()) return;
  const ExecutedRequests executed{{scoreboard, rnr, sent_packets(), progress(), cumulative_acks().in_bulk()}};
  if (executed.acknowledge_before(boundary, now)) timer_actions().end_rnr_wait(now);
}

// Standard acknowledgement: psn is the newest request executed, or the one that a NAK refuses.
Outcome Requester::handle_aeth(const wire::Packet& packet, Instant now) {
  Impl& me = *impl_;
  const Scoreboard& board = me.scoreboard;
  const std::uint8_t syndrome = packet.aeth.syndrome;
  const auto sequence = board.sequence_of(packet.bth.psn);
  const bool refusal = !wire::acknowledges(syndrome);
  if (!refusal && packet.bth.psn + 1 == board.psn_of(board.cumulative())) {
    me.env.count(Counter::kAcksReceived);  // a duplicate, or acknowledged by responses before
    return {};
  }
  if (!sequence || (*sequence < board.cumulative() && !refusals(me).refuses_rest(syndrome, *sequence))) {
    me.env.drop(DropReason::kStaleResponse);
    return {};
  }
  me.env.count(Counter::kAcksReceived);
  me.env.trace(now, me.id.qpn,
               trace::AckReceived{refusal ? packet.bth.psn : packet.bth.psn + 1, packet.bth.psn, syndrome});
  const bool measures = !refusal && board.entry(*sequence).transmissions == 1;
  const Duration trip = now - board.sent_at(*sequence, now);
  if (measures) me.round_trips().on_standard(trip, now);
  me.timers.on_acknowledgement(now);
  const std::uint64_t bytes_before = board.flight().bytes;
  me.acknowledge_requests_before(refusal ? *sequence : *sequence + 1, now);
  if (measures) me.round_trips().on_standard_acknowledged(trip, bytes_before - board.flight().bytes, now);
  if (refusal) [[unlikely]] {
    if (const Outcome result = handle_refusal(me, syndrome, *sequence, now); result.to_error) return result;
  }
  me.advance(now);
  return me.outcome(now);
}

Outcome Requester::handle_bitmap_ack(const wire::BitmapAck& ack, std::uint16_t source_port, Instant now) {
  Impl& me = *impl_;
  const std::int32_t at = distance(ack.base, me.scoreboard.base_psn());
  const Sequence next = me.scoreboard.next();
  if (at < 0 || me.scoreboard.base() + static_cast<Sequence>(at) < me.scoreboard.cumulative()) {
    drop_stale(me, ack, source_port, now);
    return {};
  }
  const Sequence base = me.scoreboard.base() + static_cast<Sequence>(at);
  if (names_unsent(me, ack, base)) {
    me.env.drop(DropReason::kBadControl);
    return {};
  }
  if (!names_arrivals(ack) && wire::acknowledges(ack.syndrome)) {
    const CumulativeAck all = CumulativeAck::of(ack);
    if (me.cumulative_acks().acknowledges_all(all)) {
      me.on_cumulative_ack(all, now);
      return me.outcome(now);
    }
  }
  me.env.count(Counter::kAcksReceived);
  me.env.trace(now, me.id.qpn, trace::AckReceived{ack.base, ack.highest, ack.syndrome});
  me.timers.on_acknowledgement(now);
  take_first_report(me, ack, now);
  const std::uint64_t bytes_before = me.scoreboard.flight().bytes;
  me.id.peer_credit = PeerCredit{ack.credit_packets, ack.credit_bytes};
  me.admission.on_credit();
  me.acknowledge_requests_before(base, now);
  if (names_arrivals(ack) || ack.operations_valid) reported_arrivals(me).on_acknowledgement(ack, base, now);
  if (me.losses.judge) [[unlikely]]
    judge_losses(me, ack, base, now);
  if (ack.echo_valid) take_echo(me, ack, bytes_before - me.scoreboard.flight().bytes, source_port, now);
  if (refuses_base(ack) && base < next) [[unlikely]] {
    if (const Outcome result = handle_bitmap_refusal(me, ack, base, now); result.to_error) return result;
  }
  me.advance(now);
  return me.outcome(now);
}

// --- losses that are named ---

Outcome Requester::handle_ffm(const wire::Ffm& ffm, Instant now) {
  impl_->round_trips().on_first_report(ffm.highest, now);
  reported_losses(*impl_).on_feedback(ffm, now);
  return {};
}

Outcome Requester::handle_edn(const wire::Edn& edn, Instant now) {
  Impl& me = *impl_;
  if (const std::uint32_t again = reported_losses(me).on_drops(edn, now); again != 0) {
    made(me.path.signals).edn_applied_at = now;
    me.link_inquiries().on_timed_out(again, now);  // as they would have, had the switch not reported it sooner
  }
  return me.outcome(now);
}

}  // namespace brdma::qp
