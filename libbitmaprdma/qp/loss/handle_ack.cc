// Acknowledgements: AETHs (standard: everything up to a PSN) and BitmapAcks (everything before the base, and a bitmap
// of the rest). Both may carry a NAK.
#include <algorithm>

#include "qp/loss/ack_fast_path.h"

namespace brdma::qp {
namespace {

std::uint8_t kind_of(std::uint8_t syndrome) { return syndrome & wire::kSyndromeKindMask; }
constexpr std::uint8_t kKindRnr = 0x20, kKindNak = 0x60;

}  // namespace

void Requester::Impl::sample_rtt(Duration measured, Instant now) {
  if (recovery::is_possible_round_trip(measured)) rtt.sample(measured, now);
}

// The peer has executed all requests before `boundary`.
void Requester::Impl::acknowledge_requests_before(Sequence boundary, Instant now) {
  if (boundary <= scoreboard.cumulative()) return;
  if (acknowledges_in_bulk()) {
    sent_packets().acknowledge_run(scoreboard.cumulative(), boundary, now);
  } else {
    sent_packets().acknowledge_before(boundary, now);
  }
  scoreboard.set_cumulative(boundary, now);
  rnr.on_executed(scoreboard.cumulative());
  progress().on_acknowledged(now);
  if (rnr.waiting())
    timer_actions().end_rnr_wait(now);  // the refused packet has been taken: a receive was posted meanwhile
}

// Standard acknowledgement: psn is the newest request executed, or the one that a NAK refuses.
Outcome Requester::Impl::handle_aeth(const wire::Packet& packet, Instant now) {
  const std::uint8_t syndrome = packet.aeth.syndrome;
  const auto sequence = scoreboard.sequence_of(packet.bth.psn);
  const bool refusal = !wire::acknowledges(syndrome);
  if (!refusal && packet.bth.psn + 1 ==
                      scoreboard.psn_of(scoreboard.cumulative())) {  // a duplicate, or acknowledged by responses before
    env.count(Counter::kAcksReceived);
    return {};
  }
  if (!sequence || (*sequence < scoreboard.cumulative() && !refusals().refuses_rest(syndrome, *sequence))) {
    env.drop(DropReason::kStaleResponse);
    return {};
  }
  env.count(Counter::kAcksReceived);
  env.trace(now, id.qpn, trace::AckReceived{refusal ? packet.bth.psn : packet.bth.psn + 1, packet.bth.psn, syndrome});
  const bool measures = !refusal && scoreboard.entry(*sequence).transmissions == 1;
  const Duration trip = now - scoreboard.sent_at(*sequence, now);
  if (measures) sample_rtt(trip, now);
  if (measures) sending_rate().on_round_trip(std::max(trip - env.waited, rtt.minimum()), rtt.minimum(), now);
  timers.on_acknowledgement(now);
  const std::uint64_t bytes_before = scoreboard.flight().bytes;
  acknowledge_requests_before(refusal ? *sequence : *sequence + 1, now);
  if (measures && id.goes_back()) {
    congestion.on_acknowledgement(bytes_before - scoreboard.flight().bytes, {trip, env.waited},
                                  admission.congestion_limited(), now);
    admission.on_round_trip();
  }
  if (refusal) [[unlikely]] {
    if (const Outcome result = handle_refusal(syndrome, *sequence, now); result.to_error) return result;
  }
  advance(now);
  return outcome(now);
}

// Nothing: the sample is impossible.
inline std::optional<Duration> measured_round_trip(const wire::BitmapAck& ack, Instant echo, Instant now) {
  const Duration measured = now - echo - ack.held();
  return recovery::is_possible_round_trip(measured) ? std::optional{measured} : std::nullopt;
}

// Applies the echoed timestamp: an RTT sample, with the bytes acknowledged.
inline void Requester::Impl::take_echo(const wire::BitmapAck& ack, std::uint64_t acknowledged,
                                       std::uint16_t source_port, Instant now) {
  const Instant echo = wire::instant_of(ack.ts_echo, now);
  const auto measured = measured_round_trip(ack, echo, now);
  if (!measured) return;
  rtt.sample(*measured, now);
  const Duration sample = paths ? path_evidence().on_echo(ack, source_port, echo, *measured, now) : *measured;
  take_round_trip({sample, ack.waited + env.waited}, acknowledged, echo, now);
}

// Overtaken by responses that acknowledged the same: only its path evidence is new.
void Requester::Impl::on_path_echo(const wire::BitmapAck& ack, std::uint16_t source_port, Instant now) {
  const Instant echo = wire::instant_of(ack.ts_echo, now);
  if (const auto measured = measured_round_trip(ack, echo, now))
    (void)path_evidence().on_echo(ack, source_port, echo, *measured, now);
}

void Requester::Impl::apply_pending_round_trip() {
  env.round_trip.requester = nullptr;
  const PendingRoundTrip& pending = env.round_trip;
  rtt.sample(pending.measured, pending.acked_at);
  take_round_trip({pending.measured, pending.waited}, pending.acknowledged, pending.sent, pending.acked_at);
}

// The packet left at `echo`.
void Requester::Impl::take_round_trip(const congestion::RoundTrip& trip, std::uint64_t acknowledged, Instant echo,
                                      Instant now) {
  congestion.on_acknowledgement(acknowledged, trip, admission.congestion_limited(), now);
  sending_rate().on_round_trip(trip.on_the_way(), congestion.base_rtt(), now);
  if (sending_rate().may_spread()) [[unlikely]]
    sending_rate().spread(limits().window_bytes(), now);
  admission.on_round_trip();
  if (timers.has_undecided()) [[unlikely]]
    timer_actions().on_evidence(echo, now);
}

Outcome Requester::handle_bitmap_ack(const wire::BitmapAck& ack, std::uint16_t source_port, Instant now) {
  Impl& me = *impl_;
  const std::int32_t at = distance(ack.base, me.scoreboard.base_psn());
  const Sequence next = me.scoreboard.next();
  if (at < 0 || me.scoreboard.base() + static_cast<Sequence>(at) < me.scoreboard.cumulative()) {
    if (me.paths && ack.echo_valid) [[unlikely]]
      me.on_path_echo(ack, source_port, now);
    if (ack.piggybacked) {
      me.env.count(Counter::kStalePiggybacks);  // no fault of the data that carried it
    } else {
      me.env.drop(DropReason::kStaleResponse);
    }
    return {};
  }
  const Sequence base = me.scoreboard.base() + static_cast<Sequence>(at);
  // A packet never sent cannot have arrived.
  if (base > next || (ack.operations_valid && me.segments.names_unsent(ack, next)) ||
      distance(ack.highest, me.scoreboard.base_psn()) >= static_cast<std::int32_t>(me.scoreboard.entries())) {
    me.env.drop(DropReason::kBadControl);
    return {};
  }
  if (ack.bit_count == 0 && ack.range_count == 0 && wire::acknowledges(ack.syndrome)) {
    const Impl::CumulativeAck all = Impl::plain(ack);
    if (me.acknowledges_all(all)) {
      me.on_cumulative_ack(all, now);
      return me.outcome(now);
    }
  }
  me.env.count(Counter::kAcksReceived);
  me.env.trace(now, me.id.qpn, trace::AckReceived{ack.base, ack.highest, ack.syndrome});
  me.timers.on_acknowledgement(now);
  const std::uint64_t bytes_before = me.scoreboard.flight().bytes;
  me.id.peer_credit = PeerCredit{ack.credit_packets, ack.credit_bytes};
  me.admission.on_credit();
  me.acknowledge_requests_before(base, now);
  if (ack.bit_count > 0 || ack.operations_valid || ack.range_count > 0)
    me.reported_arrivals().on_acknowledgement(ack, base, now);
  if (me.sender_judge) [[unlikely]] {
    const SentPackets packets = me.sent_packets();
    me.judgement().on_acknowledgement(
        ack, base, now, [&](Sequence at, Counter cause) { packets.retransmit_range(at, at + 1, cause, now); });
  }
  if (ack.echo_valid) me.take_echo(ack, bytes_before - me.scoreboard.flight().bytes, source_port, now);
  // A receiver in bitmap mode names missing packets itself: a sequence NAK says nothing.
  if (!wire::acknowledges(ack.syndrome) && ack.syndrome != wire::kSyndromeNakSequence && base < next) [[unlikely]] {
    if (kind_of(ack.syndrome) == kKindRnr) me.reported_arrivals().take_back(ack, base, now);
    if (const Outcome result = me.handle_refusal(ack.syndrome, base, now); result.to_error) return result;
  }
  me.advance(now);
  return me.outcome(now);
}

// --- losses that are named ---

Outcome Requester::handle_ffm(const wire::Ffm& ffm, Instant now) {
  impl_->reported_losses().on_feedback(ffm, now);
  return {};
}

Outcome Requester::handle_edn(const wire::Edn& edn, Instant now) {
  Impl& me = *impl_;
  if (const std::uint32_t again = me.reported_losses().on_drops(edn, now); again != 0) {
    made(me.signals).edn_applied_at = now;
    me.link_inquiries().on_timed_out(again, now);  // as they would have, had the switch not reported it sooner
  }
  return me.outcome(now);
}

// --- NAKs ---

// A reserved kind only acknowledges all before it.
Outcome Requester::Impl::handle_refusal(std::uint8_t syndrome, Sequence at, Instant now) {
  const Refusals refused = refusals();
  if (kind_of(syndrome) == kKindRnr) {
    switch (refused.on_not_ready(syndrome, at, now)) {
      case Refusals::Rnr::kRepeated:
        return {};
      case Refusals::Rnr::kWaits:
        progress().on_acknowledged(now);  // the peer is alive, but its refusals go on counting
        return {};
      case Refusals::Rnr::kTooMany:
        return completer().fail(messages.of(at).wqe, CompletionStatus::kRnrRetryExceeded, now);
    }
  }
  if (kind_of(syndrome) != kKindNak) return {};
  if (syndrome == wire::kSyndromeNakSequence) {
    refused.on_sequence_nak(at, now);
    return {};
  }
  const CompletionStatus status = refused.status(syndrome, at);
  const std::uint64_t wqe = messages.of(at).wqe;
  advance(now);  // earlier finished requests complete as done
  return completer().fail(wqe, status, now);
}

}  // namespace brdma::qp
