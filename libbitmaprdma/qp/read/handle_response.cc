// READ responses, which confirm ATOMIC WRITEs and FLUSHes too, and atomic acknowledgements. They may come in any order:
// each is placed by its PSN. Missing ones in between are judged by the receiver's rules (spec 1: tolerance), and only
// those are re-requested. In go-back-N a response out of order is dropped and the rest is requested again, as plain
// RoCE does.
#include <algorithm>

#include "qp/send/requester_impl.h"
#include "recovery/gap_judge.h"

namespace brdma::qp {
namespace {

using bitmap::EntryState;
using bitmap::GapRecord;
using bitmap::GapState;

// Repeated READ re-requests: doubling after the third, so that a slow responder is not flooded. Until then losses in a
// row are the likely cause: with 5 % each way one in a thousand is lost three times.
constexpr Duration kRerequestFirst = 500_us, kRerequestMax = 8_ms;
constexpr unsigned kRerequestsBeforeDoubling = 3;

}  // namespace

Outcome Requester::handle_response(const wire::Packet& packet, std::uint16_t source_port, Instant now) {
  Impl& me = *impl_;
  me.answered_from = source_port;
  if (packet.op == wire::RcOp::kAcknowledge) return me.handle_aeth(packet, now);
  if (me.take_middle_response(packet, now)) return me.outcome(now);
  const auto sequence = me.scoreboard.sequence_of(packet.bth.psn);
  const auto record_duplicate = [&](bool before_base) {
    me.env.duplicates.record({now, me.id.qpn, packet.bth.psn, packet.bxth.path, before_base, /*response=*/true});
  };
  if (!sequence) {
    if (distance(packet.bth.psn, me.scoreboard.base_psn()) < 0) record_duplicate(true);
    me.env.drop(DropReason::kStaleResponse);
    return {};
  }
  Message& message = me.message_of(*sequence);
  const bool read = wire::is_read_response(packet.op);
  const bool confirmation = read && message.kind == MessageKind::kConfirmed;
  if (message.kind != (read ? MessageKind::kRead : MessageKind::kAtomic) && !confirmation) {
    me.env.drop(DropReason::kStaleResponse);
    return {};
  }
  if (me.scoreboard.is_acked(*sequence)) {
    record_duplicate(false);
    me.env.drop(DropReason::kDuplicate);
    return {};
  }
  if (me.goes_back() && me.first_missing_response() != *sequence) {
    me.env.drop(DropReason::kOutOfOrder);
    me.go_back_to_missing_response(now);
    return {};
  }
  me.timers.on_activity(now);
  if (confirmation) [[unlikely]]
    return me.handle_confirmation(packet, *sequence, message, now);
  return read ? me.handle_read_response(packet, *sequence, message, now)
              : me.handle_atomic_ack(packet, *sequence, message, now);
}

Outcome Requester::Impl::handle_read_response(const wire::Packet& packet, Sequence sequence, Message& message,
                                              Instant now) {
  const std::uint32_t expected = message.payload_at(sequence, id.mtu());
  if (packet.payload.size() != expected || packet.bxth.by_reference() != (message.by_reference != 0)) {
    env.drop(DropReason::kBadLength);
    return {};
  }
  if (message.by_reference != 0) [[unlikely]] {
    if (!fetch_response(packet, message)) return outcome(now);
    return take_response(packet, sequence, message, now);
  }
  const auto index = static_cast<std::uint32_t>(sequence - message.first);
  if (!scatter(env.memory, id.pd, queue, message.wqe, message.offset + index * id.mtu(), packet.payload)) {
    env.drop(DropReason::kFault);
    fault.set(message.wqe, CompletionStatus::kLocalProtectionError);
    return outcome(now);
  }
  return take_response(packet, sequence, message, now);
}

// An ATOMIC WRITE or FLUSH is done: a READ response without data confirms it (IBTA 1.5, annex A19).
Outcome Requester::Impl::handle_confirmation(const wire::Packet& packet, Sequence sequence, Message& message,
                                             Instant now) {
  if (packet.op != wire::RcOp::kReadResponseOnly || !packet.payload.empty()) {
    env.drop(DropReason::kBadLength);
    return {};
  }
  return take_response(packet, sequence, message, now);
}

Outcome Requester::Impl::handle_atomic_ack(const wire::Packet& packet, Sequence sequence, Message& message,
                                           Instant now) {
  // The application gets the result in its machine's byte order.
  const std::uint64_t original = packet.atomic_original;
  std::byte result[sizeof(original)];
  std::memcpy(result, &original, sizeof(original));
  if (!scatter(env.memory, id.pd, queue, message.wqe, 0, result)) {
    env.drop(DropReason::kFault);
    fault.set(message.wqe, CompletionStatus::kLocalProtectionError);
    return outcome(now);
  }
  return take_response(packet, sequence, message, now);
}

Outcome Requester::Impl::take_response(const wire::Packet& packet, Sequence sequence, Message& message, Instant now) {
  if (packet.bitmap && id.receiving_paths > 1) [[unlikely]]
    note_response_path(packet, arrived_at(now));
  if (paths) [[unlikely]]
    note_repetition_answered(sequence, message, now);
  const Instant sent = scoreboard.sent_at(sequence, now);
  responses.on_response(message.payload_at(sequence, id.mtu()), message.kind == MessageKind::kRead);
  measure_response(sequence, message, sent, now);
  acknowledge(sequence, message, now);
  note_progress(now);
  // A response to this request shows that all before it are executed.
  acknowledge_requests_before(message.end(), now);
  record_response(packet, sequence, sent, now);
  note_evidence(sent, now);
  advance(now);
  judge_response_gaps(now, arrived_at(now));
  return outcome(now);
}

// An RTT sample, if the response is the first to a request that was sent once.
void Requester::Impl::measure_response(Sequence sequence, const Message& message, Instant sent, Instant now) {
  if (sequence != message.first || scoreboard.entry(sequence).transmissions != 1) return;
  sample_rtt(now - sent, now);
  Duration sample = now - sent;
  if (paths) [[unlikely]]
    sample = note_response(scoreboard.entry(sequence).path, sent, now);
  const congestion::RoundTrip trip{sample, env.waited};
  const std::uint64_t arrived = responses.on_round_trip(trip, now);
  if (response_pace() != nullptr) [[unlikely]]
    on_response_rtt_sample(trip.on_the_way(), arrived, now);
}

// The oldest missing response; next_sequence() if none is missing.
Sequence Requester::Impl::first_missing_response() const {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].answered()) continue;
    const Sequence end = std::min(messages[i].end(), scoreboard.next());
    for (Sequence at = std::max(scoreboard.base(), messages[i].first); at < end; ++at) {
      if (!scoreboard.is_acked(at)) return at;
    }
  }
  return scoreboard.next();
}

// Plain RoCE: a response out of order means that one was lost. It and all behind it are re-requested, once a round
// trip.
void Requester::Impl::go_back_to_missing_response(Instant now) {
  const Sequence missing = first_missing_response();
  const Duration quiet = std::max(id.recovery->resend_interval_min, rtt.smoothed());
  const bitmap::SendEntry& entry = scoreboard.entry(missing);
  if (entry.state == EntryState::kRetransmitPending) return;
  if (entry.transmissions > 1 && now - scoreboard.sent_at(missing, now) < quiet) return;
  for (std::size_t i = messages.find(missing); i < messages.size(); ++i) {
    if (!messages[i].answered()) continue;
    const Sequence end = std::min(messages[i].end(), scoreboard.next());
    for (Sequence at = std::max(missing, messages[i].first); at < end; ++at) {
      request_resend(at, messages[i], Counter::kRetransmittedNak, now);
    }
  }
}

// Gap records: the PSNs between the newest response so far and this one open gaps, one a message at most. `sent`: when
// this one was requested.
void Requester::Impl::record_response(const wire::Packet& packet, Sequence sequence, Instant sent, Instant now) {
  const Instant seen = arrived_at(now);
  if (sequence < responses_seen) {
    if (loss_recovery != nullptr) note_late_response(packet, sequence, now);
  } else {
    const Sequence from = std::max(responses_seen, scoreboard.base());
    for (std::size_t i = messages.find(from); i < messages.size() && messages[i].first <= sequence; ++i) {
      if (!messages[i].answered()) continue;
      const Sequence start = std::max(from, messages[i].first);
      const Sequence end = std::min(messages[i].end(), sequence);
      if (start < end) {
        // Within a message that has begun to come, the next response was due since the one before it.
        const bool expected = start > messages[i].first && !response_receive_paths;
        const Instant moved = expected ? std::min(scoreboard.base_moved(), seen) : seen;
        response_gap_rules().open(scoreboard.psn_of(start) - 1, scoreboard.psn_of(end), 0, seen, moved, now);
      }
    }
    responses_seen = sequence + 1;
  }
  if (loss_recovery == nullptr) return;
  if (response_receive_paths && packet.bitmap) return look_for_response_evidence(packet, sent, seen);
  const recovery::GapLimits limits = rerequest_limits();
  for (std::size_t i = 0; i < loss_recovery->response_gaps.size(); ++i) {
    GapRecord& gap = loss_recovery->response_gaps[i];
    // Responses come in the order of their requests. If a response requested after a gap's re-request comes first, it
    // is evidence against that repetition, as a later packet is against the original.
    const bool later = gap.state == GapState::kPromoted ? sent > gap.last_feedback
                                                        : distance(scoreboard.psn_of(sequence), gap.start) > 0;
    if (!later) continue;
    ++gap.later_packets;
    const bool much_later = gap.state == GapState::kPromoted && sent > gap.last_feedback + limits.age_max;
    if (much_later) gap.later_packets += limits.depth_max + 1;
  }
}

// A response overtaken by others. Late, not lost, unless it was re-requested. A standard response does not name its
// request: it counts as the second's where there was a second.
void Requester::Impl::note_late_response(const wire::Packet& packet, Sequence sequence, Instant now) {
  const Instant seen = arrived_at(now);
  const Psn psn = packet.bth.psn;
  using Copy = LateArrival::Copy;
  const bool again = packet.bitmap ? packet.bxth.retransmitted : scoreboard.entry(sequence).transmissions > 1;
  const Copy original = packet.bitmap ? Copy::kOriginal : Copy::kUnknown;
  response_gap_rules().fill({.psn = psn,
                             .copy = again ? Copy::kRetransmitted : original,
                             .learns = true,
                             .path = packet.bxth.path,
                             .depth = static_cast<std::uint32_t>(distance(scoreboard.psn_of(responses_seen - 1), psn)),
                             .recovery_time = rtt.smoothed(),
                             .seen = seen},
                            now);
}

Duration Requester::Impl::rerequest_interval(std::uint16_t times) const {
  const Duration shortest = id.recovery->resend_interval_min;
  Duration interval = rtt.has_sample() ? rtt.probe_timeout(shortest * 2) : kRerequestFirst;
  // The awaited response is all that is in flight: no queue is before it, and no later packet will give evidence.
  if (rtt.has_sample() && times <= kRerequestsBeforeDoubling &&
      loss_recovery->response_gaps.missing() >= responses.packets())
    interval = std::max({rtt.minimum() * 2, rtt.smoothed(), shortest});
  for (unsigned i = kRerequestsBeforeDoubling; i < times && interval < kRerequestMax; ++i) interval = interval * 2;
  return std::min(interval, std::max(kRerequestMax, rtt.smoothed() * 2));
}

// The base has moved, perhaps up to a gap, which stops it from now on.
void Requester::Impl::note_base_at_gap(Instant now) {
  bitmap::GapTable& gaps = loss_recovery->response_gaps;
  if (gaps.empty() || distance(gaps[0].start, scoreboard.base_psn()) > 0) return;
  gaps[0].base_stuck_since = loss_recovery->response_judge_at.emplace(now);
}

void Requester::Impl::judge_response_gaps(Instant now, Instant seen) {
  if (loss_recovery == nullptr) return;
  const GapReceiver rules = response_gap_rules();
  const recovery::GapLimits limits = rules.limits();
  std::optional<Instant>& next = loss_recovery->response_judge_at;
  next.reset();
  for (std::size_t i = 0; i < loss_recovery->response_gaps.size(); ++i) {
    GapRecord& gap = loss_recovery->response_gaps[i];
    Instant again = gap.last_feedback + rerequest_interval(gap.feedbacks);
    if (gap.state == GapState::kWaiting) {
      const auto verdict = rules.judge(gap, gap.later_packets, limits, seen);
      if (const auto* wait = std::get_if<recovery::WaitUntil>(&verdict)) {
        again = wait->retry_at;
      } else {
        rules.promote(gap, std::get<recovery::Lost>(verdict).cause, now);
        again = request_again(gap, now);
      }
    } else if (seen >= again || rerequest_lost(gap, seen)) {
      again = request_again(gap, now);
    }
    if (!next || again < *next) next = again;
  }
}

// Re-requests the missing responses of a gap, unless all were requested again recently. Returns when to look again.
Instant Requester::Impl::request_again(GapRecord& gap, Instant now) {
  const Duration quiet = std::max(id.recovery->resend_interval_min, rtt.smoothed());
  std::optional<Instant> quiet_until;
  bool any = false;
  for_each_missing(gap, [&](Sequence at) {
    const bitmap::SendEntry& entry = scoreboard.entry(at);
    const Instant sent = scoreboard.sent_at(at, now);
    const auto verdict = recovery::judge_request({entry.state, entry.transmissions > 1, now - sent}, quiet, false);
    if (verdict == recovery::RequestVerdict::kRecent) quiet_until = sent + quiet;
    if (verdict == recovery::RequestVerdict::kResend)
      any = request_resend(at, message_of(at), Counter::kRetransmittedFfm, now) || any;
  });
  return any || !quiet_until ? note_requested_again(gap, now) : *quiet_until;
}

Instant Requester::Impl::note_requested_again(GapRecord& gap, Instant now) {
  gap.state = GapState::kPromoted;
  gap.last_feedback = now;
  gap.later_packets = gap.later_paths = 0;
  if (gap.feedbacks != 0xFFFF) ++gap.feedbacks;
  return now + rerequest_interval(gap.feedbacks);
}

}  // namespace brdma::qp
