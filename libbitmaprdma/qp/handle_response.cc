// Answers with data: READ responses and atomic acknowledgements. They may come in any order: each is placed where its
// PSN says. What is missing between them is judged by the receiver's rules (spec 1: tolerance) and only that is asked
// for again. In go-back-N an answer out of order is dropped and the rest asked for anew, as plain RoCE does.
#include <algorithm>

#include "qp/requester_impl.h"
#include "recovery/gap_judge.h"

namespace brdma::qp {
namespace {

using bitmap::EntryState;
using bitmap::GapRecord;
using bitmap::GapState;

// Asking again for what was asked for again: doubling, so that a slow responder is not flooded.
constexpr Duration kReissueMin = 500_us, kReissueMax = 8_ms;

}  // namespace

Outcome Requester::handle_response(const wire::Packet& packet, Instant now) {
  Impl& me = *impl_;
  if (packet.op == wire::RcOp::kAcknowledge) return me.handle_aeth(packet, now);
  const auto sequence = me.sequence_of(packet.bth.psn);
  if (!sequence) {
    me.env.drop(DropReason::kStaleResponse);
    return {};
  }
  Message& message = me.message_of(*sequence);
  const bool read = wire::is_read_response(packet.op);
  if (message.kind != (read ? MessageKind::kRead : MessageKind::kAtomic)) {
    me.env.drop(DropReason::kStaleResponse);
    return {};
  }
  if (me.window.entry(packet.bth.psn).state == EntryState::kAcked) {
    me.env.drop(DropReason::kDuplicate);
    return {};
  }
  if (me.env.config.recovery.mode == RecoveryMode::kGoBackN && !me.next_answer_is(*sequence)) {
    me.env.drop(DropReason::kOutOfOrder);
    return {};
  }
  me.patience.activity = now;
  return read ? me.handle_read_response(packet, *sequence, message, now)
              : me.handle_atomic_ack(packet, *sequence, message, now);
}

Outcome Requester::Impl::handle_read_response(const wire::Packet& packet, Sequence sequence, Message& message,
                                              Instant now) {
  const std::uint32_t expected = message.payload_at(sequence, id.mtu());
  if (packet.payload.size() != expected) {
    env.drop(DropReason::kBadLength);
    return {};
  }
  const auto index = static_cast<std::uint32_t>(sequence - message.first);
  if (!scatter(env.memory, id.pd, queue, message.wqe, message.offset + index * id.mtu(), packet.payload)) {
    env.drop(DropReason::kFault);
    break_locally(message.wqe, CompletionStatus::kLocalProtectionError);
    return outcome(now);
  }
  answers.bytes -= expected;
  return take_answer(sequence, message, now);
}

Outcome Requester::Impl::handle_atomic_ack(const wire::Packet& packet, Sequence sequence, Message& message,
                                           Instant now) {
  // The result is the application's in its machine's byte order.
  const std::uint64_t original = packet.atomic_original;
  std::byte result[sizeof(original)];
  std::memcpy(result, &original, sizeof(original));
  if (!scatter(env.memory, id.pd, queue, message.wqe, 0, result)) {
    env.drop(DropReason::kFault);
    break_locally(message.wqe, CompletionStatus::kLocalProtectionError);
    return outcome(now);
  }
  answers.bytes -= message.length;
  return take_answer(sequence, message, now);
}

Outcome Requester::Impl::take_answer(Sequence sequence, Message& message, Instant now) {
  const Psn psn = psn_of(sequence);
  const Instant sent = window.sent_at(psn, now);
  if (sequence == message.first && window.entry(psn).transmissions == 1) sample_rtt(now - sent);
  acknowledge(sequence, message, now);
  --answers.packets;
  note_progress(now);
  // Who answers this request has executed all before it.
  acknowledge_requests_before(message.end(), now);
  record_answer(sequence, now);
  note_evidence(sent, now);
  advance(now);
  judge_answer_gaps(now);
  return outcome(now);
}

// Is every answer before this one here?
bool Requester::Impl::next_answer_is(Sequence sequence) {
  for (std::size_t i = 0; i < messages.size() && messages[i].first <= sequence; ++i) {
    if (!messages[i].answered()) continue;
    const Sequence end = std::min(messages[i].end(), sequence);
    for (Sequence at = std::max(base, messages[i].first); at < end; ++at) {
      if (window.entry(psn_of(at)).state != EntryState::kAcked) return false;
    }
  }
  return true;
}

// Gap records: what lies between the newest answer so far and this one opens gaps, one a message at most.
void Requester::Impl::record_answer(Sequence sequence, Instant now) {
  if (sequence < answers_seen) {
    answer_gaps.fill(psn_of(sequence));
  } else {
    const Sequence from = std::max(answers_seen, base);
    for (std::size_t i = messages.find(from); i < messages.size() && messages[i].first <= sequence; ++i) {
      if (!messages[i].answered()) continue;
      const Sequence start = std::max(from, messages[i].first);
      const Sequence end = std::min(messages[i].end(), sequence);
      if (start < end) {
        answer_gaps.open(psn_of(start) - 1, psn_of(end), 0, now, base_moved);
        env.count(Counter::kGapsSeen);
        env.trace(now, id.qpn, trace::GapSeen{psn_of(start), static_cast<std::uint32_t>(end - start)});
      }
    }
    answers_seen = sequence + 1;
  }
  for (std::size_t i = 0; i < answer_gaps.size(); ++i) {
    if (distance(psn_of(sequence), answer_gaps[i].start) > 0) ++answer_gaps[i].later_packets;
  }
}

Duration Requester::Impl::reissue_interval(std::uint16_t times) const {
  Duration interval = std::max(kReissueMin, rtt.smoothed() * 2);
  for (unsigned i = 1; i < times && interval < kReissueMax; ++i) interval = interval * 2;
  return std::min(interval, std::max(kReissueMax, rtt.smoothed() * 2));
}

void Requester::Impl::judge_answer_gaps(Instant now) {
  const RecoveryConfig& config = env.config.recovery;
  const recovery::GapLimits limits{config.depth_max, config.age_max, config.stall_max};
  for (std::size_t i = 0; i < answer_gaps.size(); ++i) {
    GapRecord& gap = answer_gaps[i];
    if (gap.state == GapState::kPromoted) {
      if (now < gap.last_feedback + reissue_interval(gap.feedbacks)) continue;
    } else {
      const recovery::GapFacts facts{gap.later_packets, false, gap.first_seen, std::max(gap.first_seen, base_moved)};
      const auto verdict = recovery::judge(facts, limits, now);
      const auto* lost = std::get_if<recovery::Lost>(&verdict);
      if (lost == nullptr) continue;
      gap.state = GapState::kPromoted;
      env.trace(now, id.qpn, trace::GapPromoted{gap.start, gap.length, static_cast<std::uint8_t>(lost->cause)});
    }
    gap.last_feedback = now;
    ++gap.feedbacks;
    const Sequence start = base + static_cast<Sequence>(std::max(distance(gap.start, window.base()), 0));
    for (Sequence at = start; at < start + gap.length && at < next_sequence(); ++at) {
      request_resend(at, message_of(at), Counter::kRetransmittedFfm, now);
    }
  }
}

std::optional<Instant> Requester::Impl::answer_gap_deadline() const {
  const RecoveryConfig& config = env.config.recovery;
  std::optional<Instant> first;
  for (std::size_t i = 0; i < answer_gaps.size(); ++i) {
    const GapRecord& gap = answer_gaps[i];
    const Instant at =
        gap.state == GapState::kPromoted
            ? gap.last_feedback + reissue_interval(gap.feedbacks)
            : std::min(gap.first_seen + config.age_max, std::max(gap.first_seen, base_moved) + config.stall_max) +
                  kTick;
    if (!first || at < *first) first = at;
  }
  return first;
}

}  // namespace brdma::qp
