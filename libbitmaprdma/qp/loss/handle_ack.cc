// Acknowledgements: AETHs (standard: everything up to a PSN) and BitmapAcks (everything before the base, and a bitmap
// of the rest). Both may carry a NAK.
#include <algorithm>
#include <bit>

#include "base/bit_order.h"
#include "qp/loss/ack_fast_path.h"

namespace brdma::qp {
namespace {

using bitmap::EntryState;

std::uint8_t kind_of(std::uint8_t syndrome) { return syndrome & wire::kSyndromeKindMask; }
constexpr std::uint8_t kKindAck = 0x00, kKindRnr = 0x20, kKindNak = 0x60;

// The next 64 bits of an acknowledgement from word `at` on; bit 0 is the lowest PSN. `count`: packets that it can
// cover.
std::uint64_t bits_at(const wire::BitmapAck& ack, std::uint32_t at, std::uint32_t count) {
  const auto word = [&ack](std::uint32_t first) -> std::uint64_t {
    return first < ack.bit_count ? reverse_bits(load_be32(ack.bits.data() + std::size_t{first / 32} * 4)) : 0;
  };
  const std::uint64_t bits = word(at) | word(at + 32) << 32;
  return count - at >= 64 ? bits : bits & ((std::uint64_t{1} << (count - at)) - 1);
}

}  // namespace

void Requester::Impl::end_stall(Instant now) {
  if (!timers.is_stalled()) return;
  timers.end_stall();
  env.count(Counter::kStallsEnded);
  env.note(now, id.qpn, trace::EventType::kStallEnded, scoreboard.base_psn().value());
}

void Requester::Impl::sample_rtt(Duration measured, Instant now) {
  if (measured > Duration{} && measured < kRttMax) rtt.sample(measured, now);
}

// True: newly acknowledged.
bool Requester::Impl::acknowledge(Sequence sequence, const Message& message, Instant now) {
  const EntryState before = scoreboard.state(sequence);
  if (message.answered()) {
    if (!scoreboard.acknowledge_response(sequence)) return false;
  } else {
    if (!scoreboard.acknowledge(sequence, message.payload_at(sequence, id.mtu()))) return false;
    const bitmap::SendEntry& entry = scoreboard.entry(sequence);
    if (sequence < scoreboard.arrived_end() && entry.transmissions == 1) [[unlikely]]
      note_overtaken(sequence, now);
    segments.on_arrived(message, sequence);
    if (paths) paths->acknowledged(entry, before == EntryState::kRetransmitPending, now);
  }
  if (sender_judge) [[unlikely]]
    judgement().on_delivered(sequence, now);
  trace_entry(sequence, before, EntryState::kAcked, now);
  return true;
}

// `late` was sent once and has arrived; the newest arrived packet came before it.
void Requester::Impl::note_overtaken(Sequence late, Instant now) {
  if (paths || sender_judge) return;  // they track this themselves
  const Instant sent = scoreboard.sent_at(late, now);
  const Instant newest = scoreboard.sent_at(scoreboard.arrived_end() - 1, now);
  if (newest <= sent) return;
  recovery::Overtaking& overtaking = repairing().overtaking;
  overtaking.on_echo(newest);
  overtaking.came_late(sent, id.recovery->age_max);
}

void Requester::Impl::request_is_received(Message& message) {
  message.request_received = true;
  if (message.in_flight_counted) scoreboard.request_arrived();
  message.in_flight_counted = false;
}

std::uint64_t Requester::Impl::payload_of_run(Sequence from, Sequence boundary) const {
  std::uint64_t bytes = 0;
  std::size_t i = messages.find(from);
  for (Sequence at = from; at < boundary; ++i) {
    const Message& message = messages[i];
    const Sequence end = std::min(boundary, message.end());
    bytes += message.payload_before(end, id.mtu()) - message.payload_before(at, id.mtu());
    at = end;
  }
  return bytes;
}

// All from `from` on, none of it acknowledged yet: everything in flight, or the older part of it.
void Requester::Impl::acknowledge_run(Sequence from, Sequence boundary, Instant now) {
  const std::uint64_t bytes =
      boundary == scoreboard.next() ? scoreboard.flight().bytes : payload_of_run(from, boundary);
  if (env.sink != nullptr) [[unlikely]] {
    for (Sequence at = from; at < boundary; ++at) trace_entry(at, scoreboard.state(at), EntryState::kAcked, now);
  }
  scoreboard.acknowledge_run(from, boundary, bytes);
}

// The peer has executed all requests before `boundary`.
void Requester::Impl::acknowledge_requests_before(Sequence boundary, Instant now) {
  if (boundary <= scoreboard.cumulative()) return;
  if (acknowledges_in_bulk()) {
    acknowledge_run(scoreboard.cumulative(), boundary, now);
  } else {
    acknowledge_each_before(boundary, now);
  }
  scoreboard.set_cumulative(boundary, now);
  rnr.on_executed(scoreboard.cumulative());
  note_progress(now);
  if (rnr.waiting()) end_rnr_wait(now);  // the refused packet has been taken: a receive was posted meanwhile
}

void Requester::Impl::acknowledge_each_before(Sequence boundary, Instant now) {
  for (std::size_t i = messages.find(scoreboard.cumulative()); i < messages.size(); ++i) {
    Message& message = messages[i];
    if (message.first >= boundary) break;
    if (message.answered()) {
      request_is_received(message);
      continue;
    }
    acknowledge_unreported(message, std::max(message.first, scoreboard.cumulative()), std::min(boundary, message.end()),
                           now);
  }
}

// Acknowledges the packets that the peer has reported, 64 at a time.
void Requester::Impl::acknowledge_unreported(const Message& message, Sequence from, Sequence to, Instant now) {
  for (Sequence at = from; at < to; at += 64) {
    std::uint64_t left = ~scoreboard.reported(at);
    if (to - at < 64) left &= (std::uint64_t{1} << (to - at)) - 1;
    scoreboard.look_at(1);
    for (; left != 0; left &= left - 1) acknowledge(at + static_cast<Sequence>(std::countr_zero(left)), message, now);
  }
}

void Requester::Impl::go_back_for_nak(Sequence sequence, Instant now) {
  env.count(Counter::kPacketSeqErr);
  if (rnr.waiting()) return;
  const bool acknowledged_again = loss_recovery && loss_recovery->gone_back_to == sequence;
  const Duration since = now - scoreboard.sent_at(sequence, now);
  if (acknowledged_again && since < std::max(id.recovery->resend_interval_min, rtt.smoothed())) return;
  if (request_resend_range(sequence, scoreboard.next(), Counter::kRetransmittedNak, now) != 0)
    repairing().gone_back_to = sequence;
}

// READ responses have begun to come, so the request counts as executed; but the peer cannot continue: its memory is
// gone.
bool Requester::Impl::refuses_rest(std::uint8_t syndrome, Sequence at) const {
  return kind_of(syndrome) == kKindNak && syndrome != wire::kSyndromeNakSequence &&
         messages[messages.find(at)].answered() && !scoreboard.is_acked(at);
}

// Standard acknowledgement: psn is the newest request executed, or the one that a NAK refuses.
Outcome Requester::Impl::handle_aeth(const wire::Packet& packet, Instant now) {
  const std::uint8_t syndrome = packet.aeth.syndrome;
  const auto sequence = scoreboard.sequence_of(packet.bth.psn);
  const bool refusal = kind_of(syndrome) != kKindAck;
  if (!refusal && packet.bth.psn + 1 ==
                      scoreboard.psn_of(scoreboard.cumulative())) {  // a duplicate, or acknowledged by responses before
    env.count(Counter::kAcksReceived);
    return {};
  }
  if (!sequence || (*sequence < scoreboard.cumulative() && !refuses_rest(syndrome, *sequence))) {
    env.drop(DropReason::kStaleResponse);
    return {};
  }
  env.count(Counter::kAcksReceived);
  env.trace(now, id.qpn, trace::AckReceived{refusal ? packet.bth.psn : packet.bth.psn + 1, packet.bth.psn, syndrome});
  const bool measures = !refusal && scoreboard.entry(*sequence).transmissions == 1;
  const Duration trip = now - scoreboard.sent_at(*sequence, now);
  if (measures) sample_rtt(trip, now);
  if (measures) on_rtt_sample(std::max(trip - env.waited, rtt.minimum()), rtt.minimum(), now);
  timers.on_acknowledgement(now);
  const std::uint64_t bytes_before = scoreboard.flight().bytes;
  acknowledge_requests_before(refusal ? *sequence : *sequence + 1, now);
  if (measures && goes_back()) {
    congestion.on_acknowledgement(bytes_before - scoreboard.flight().bytes, {trip, env.waited},
                                  admission.congestion_limited(), now);
    admission.on_round_trip();
  }
  Outcome result;
  switch (kind_of(syndrome)) {
    case kKindAck:
      break;
    case kKindRnr:
      result = handle_rnr(syndrome, *sequence, now);
      break;
    case kKindNak:
      if (syndrome == wire::kSyndromeNakSequence) {
        go_back_for_nak(*sequence, now);
      } else {
        result = handle_fatal_nak(syndrome, *sequence, now);
      }
      break;
    default:
      break;  // reserved kind: only acknowledges all before it
  }
  if (result.to_error) return result;
  advance(now);
  return outcome(now);
}

// Nothing: the sample is impossible.
inline std::optional<Duration> measured_round_trip(const wire::BitmapAck& ack, Instant echo, Instant now) {
  const Duration measured = now - echo - ack.held();
  if (measured <= Duration{} || measured >= kRttMax) return std::nullopt;
  return measured;
}

// Applies the echoed timestamp: an RTT sample, with the bytes acknowledged.
inline void Requester::Impl::take_echo(const wire::BitmapAck& ack, std::uint64_t acknowledged,
                                       std::uint16_t source_port, Instant now) {
  const Instant echo = wire::instant_of(ack.ts_echo, now);
  const auto measured = measured_round_trip(ack, echo, now);
  if (!measured) return;
  rtt.sample(*measured, now);
  const Duration sample = paths ? note_echo(ack, source_port, echo, *measured, now) : *measured;
  take_round_trip({sample, ack.waited + env.waited}, acknowledged, echo, now);
}

// Overtaken by responses that acknowledged the same: only its path evidence is new.
void Requester::Impl::on_path_echo(const wire::BitmapAck& ack, std::uint16_t source_port, Instant now) {
  const Instant echo = wire::instant_of(ack.ts_echo, now);
  if (const auto measured = measured_round_trip(ack, echo, now))
    (void)note_echo(ack, source_port, echo, *measured, now);
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
  on_rtt_sample(trip.on_the_way(), congestion.base_rtt(), now);
  spread_window(now);
  admission.on_round_trip();
  note_evidence(echo, now);
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
  if (ack.bit_count == 0 && ack.range_count == 0 && kind_of(ack.syndrome) == kKindAck) {
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
  if (ack.bit_count > 0) me.acknowledge_bits(ack, base, now);
  if (ack.operations_valid && kind_of(ack.syndrome) == kKindAck) me.acknowledge_segments(ack, now);
  if (ack.range_count > 0) [[unlikely]]
    me.acknowledge_ranges(ack, base, now);
  if (me.sender_judge) [[unlikely]]
    me.judgement().on_acknowledgement(
        ack, base, now, [&](Sequence at, Counter cause) { me.request_resend_range(at, at + 1, cause, now); });

  if (ack.echo_valid) me.take_echo(ack, bytes_before - me.scoreboard.flight().bytes, source_port, now);
  Outcome result;
  if (kind_of(ack.syndrome) == kKindRnr && base < next) {
    me.take_back(ack, base, now);
    result = me.handle_rnr(ack.syndrome, base, now);
  } else if (kind_of(ack.syndrome) == kKindNak && ack.syndrome != wire::kSyndromeNakSequence && base < next) {
    result = me.handle_fatal_nak(ack.syndrome, base, now);
  }
  if (result.to_error) return result;
  me.advance(now);
  return me.outcome(now);
}

// The peer reports a packet beyond the base as received for the first time. True: newly acknowledged.
bool Requester::Impl::take_reported(Sequence sequence, Instant now) {
  scoreboard.note_reported(sequence);
  if (scoreboard.is_acked(sequence)) return false;
  Message& message = message_of(sequence);
  if (!message.answered()) return acknowledge(sequence, message, now);
  request_is_received(message);
  return false;
}

// Bits beyond the base: received, so not to be retransmitted. Completion waits for the base. Each acknowledgement
// repeats earlier bits, which are skipped 64 packets at a time.
void Requester::Impl::acknowledge_bits(const wire::BitmapAck& ack, Sequence from, Instant now) {
  bool progress = false;
  Sequence end = from;  // one past the newest received
  const auto count = static_cast<std::uint32_t>(std::min<Sequence>(ack.bit_count, scoreboard.next() - from));
  scoreboard.look_at(count / 64);
  for (std::uint32_t at = 0; at < count; at += 64) {
    const std::uint64_t bits = bits_at(ack, at, count);
    if (bits == 0) continue;
    end = from + at + static_cast<Sequence>(std::bit_width(bits));
    for (std::uint64_t news = bits & ~scoreboard.reported(from + at); news != 0; news &= news - 1)
      progress = take_reported(from + at + static_cast<Sequence>(std::countr_zero(news)), now) || progress;
  }
  if (progress) note_progress(now);
  scoreboard.note_arrived(end);
  std::optional<EchoedPacket> echo;
  if (ack.echo_valid) echo = {wire::instant_of(ack.ts_echo, now), ack.path};
  if (sender_judge) [[unlikely]] {
    if (id.recovery->mode == RecoveryMode::kWanFeedback) apply_judgement(from, std::min(from + ack.judged, end), now);
    return;
  }
  // Needed only after a retransmission or a late packet.
  if (echo && !paths && (loss_recovery || scoreboard.retransmitted() != 0)) [[unlikely]]
    repairing().overtaking.on_echo(std::min(echo->sent, now));
  apply_judgement(from, std::min(from + ack.judged, end), now);
  resend_old_holes(from, end, echo, now);
}

// The receiver has judged missing packets before `to` lost. If the FFM that reported them was lost as well, this
// repeats it. It covers no retransmission sent since.
void Requester::Impl::apply_judgement(Sequence from, Sequence to, Instant now) {
  for (Sequence at = scoreboard.first_unreported(from, to); at < to; at = scoreboard.first_unreported(at + 1, to)) {
    const bitmap::SendEntry& entry = scoreboard.entry(at);
    if (recovery::judge_request({entry.state, entry.transmissions > 1, {}}, {}, true) !=
        recovery::RequestVerdict::kResend)
      continue;
    const Message& message = message_of(at);
    if (message.answered() && message.request_received) continue;
    request_resend_range(at, at + 1, Counter::kRetransmittedAck, now);
  }
}

void Requester::Impl::acknowledge_segments(const wire::BitmapAck& ack, Instant now) {
  segments.for_each_completed(ack, [&](const registry::SentOperation& segment) {
    const Sequence first = std::max(segment.first, scoreboard.base());
    const Message& message = message_of(first);
    for (Sequence at = first; at < segment.end(); ++at) acknowledge(at, message, now);
  });
}

// Received beyond the bits (SACK ranges). Holes between ranges are left to the FFM: not all received packets are
// reported.
void Requester::Impl::acknowledge_ranges(const wire::BitmapAck& ack, Sequence from, Instant now) {
  bool progress = false;
  for (std::size_t i = 0; i < ack.range_count; ++i) {
    const wire::AckRange range = ack.range(i);
    const Sequence first = from + static_cast<Sequence>(distance(range.start, ack.base));
    const Sequence end = std::min(first + range.length, scoreboard.next());
    for (Sequence at = scoreboard.first_unreported(first, end); at < end; at = scoreboard.first_unreported(at + 1, end))
      progress = take_reported(at, now) || progress;
  }
  if (progress) note_progress(now);
}

// Is a missing retransmission lost as well, because a packet that left after it has arrived? Then the receiver's next
// request is not awaited. `echo`: of the packet that caused the acknowledgement.
bool Requester::Impl::lost_again(const bitmap::SendEntry& entry, Instant sent, const std::optional<EchoedPacket>& echo,
                                 Instant now) const {
  if (entry.transmissions < 2) return false;
  if (!paths) {
    return loss_recovery && now - sent >= id.recovery->resend_interval_min && loss_recovery->overtaking.passed(sent);
  }
  const Duration apart = echo && entry.path == echo->path ? Duration{} : apart_on_paths();
  return echo && echo->sent > sent + id.recovery->age_max + apart;
}

void Requester::Impl::resend_old_holes(Sequence from, Sequence to, std::optional<EchoedPacket> echo, Instant now) {
  std::uint32_t timed_out = 0;
  const Duration age =
      timer_lengths().stall();  // holes are the FFM's to request; only after this long without one, ours
  for (Sequence at = scoreboard.first_unreported(from, to); at < to; at = scoreboard.first_unreported(at + 1, to)) {
    const bitmap::SendEntry& entry = scoreboard.entry(at);
    if (entry.state == EntryState::kAcked || entry.state == EntryState::kRetransmitPending) continue;
    const Instant sent = scoreboard.sent_at(at, now);
    const bool old = (echo ? echo->sent : now) >= sent + age;
    if (!old && !lost_again(entry, sent, echo, now)) continue;
    const Message& message = message_of(at);
    if (message.answered() && message.request_received) continue;
    if (request_resend(at, message, Counter::kRetransmittedAck, now) && old) ++timed_out;
  }
  note_timed_out(timed_out, now);
}

// A receiver that was not ready may have dropped later arrivals: packets that its bits no longer show are
// retransmitted.
void Requester::Impl::take_back(const wire::BitmapAck& ack, Sequence from, Instant now) {
  for (Sequence at = from; at < scoreboard.next(); ++at) {
    const auto bit = static_cast<std::uint32_t>(at - from);
    const bool arrived = bit < ack.bit_count &&
                         (load_be32(ack.bits.data() + std::size_t{bit / 32} * 4) & (0x8000'0000u >> (bit % 32))) != 0;
    if (arrived) continue;
    scoreboard.forget_reported(at);
    Message& message = message_of(at);
    if (message.answered()) {
      message.request_received = false;
      continue;
    }
    if (scoreboard.is_acked(at)) reopen(at, message, now);
  }
}

// An acknowledged entry counts as in flight again.
void Requester::Impl::reopen(Sequence sequence, const Message& message, Instant now) {
  if (message.answered()) {
    scoreboard.reopen_response(sequence);
  } else {
    scoreboard.reopen(sequence, message.payload_at(sequence, id.mtu()));
    segments.on_reopened(message, sequence);
    if (paths) paths->reopened(scoreboard.entry(sequence));
  }
  trace_entry(sequence, EntryState::kAcked, EntryState::kSuspectedLost, now);
}

Outcome Requester::Impl::handle_rnr(std::uint8_t syndrome, Sequence at, Instant now) {
  if (rnr.waiting()) return {};  // the RNR NAK that we wait for, repeated
  env.count(Counter::kReceivedRnr);
  if (!rnr.on_nak(at, id.attributes.rnr_retry, id.bitmap_agreed, now + rnr_wait(syndrome))) {
    env.count(Counter::kRnrRetryExceeded);
    env.note(now, id.qpn, trace::EventType::kRnrRetryExceeded, scoreboard.psn_of(at).value());
    return completer().fail(message_of(at).wqe, CompletionStatus::kRnrRetryExceeded, now);
  }
  note_progress(now);  // the peer is alive, but its refusals go on counting
  return {};
}

Outcome Requester::Impl::handle_fatal_nak(std::uint8_t syndrome, Sequence at, Instant now) {
  CompletionStatus status = CompletionStatus::kRemoteOperationError;
  if (syndrome == wire::kSyndromeNakInvalidRequest) status = CompletionStatus::kRemoteInvalidRequest;
  if (syndrome == wire::kSyndromeNakRemoteAccess) status = CompletionStatus::kRemoteAccessError;
  if (syndrome > wire::kSyndromeNakRemoteOperation) status = CompletionStatus::kBadResponse;  // not for RC, or reserved
  const Message& message = message_of(at);
  const std::uint64_t wqe = message.wqe;
  if (status == CompletionStatus::kRemoteOperationError && message.by_reference != 0 && !message.answered() &&
      !has_references(message)) [[unlikely]] {
    status = CompletionStatus::kLocalProtectionError;
  }
  advance(now);  // earlier finished requests complete as done
  return completer().fail(wqe, status, now);
}

}  // namespace brdma::qp
