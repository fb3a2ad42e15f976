// qp/receive/promote_gaps.cc - gaps: recorded, judged, reported to the sender, closed (spec 1: gaps, tolerance, FFM).
// FFMs report the missing packets to a peer in bitmap mode. A standard peer can only get a sequence NAK to go back to
// the base, so only the gap at the base is judged, and only once a round of go-back-N.
#include <algorithm>

#include "qp/receive/responder_impl.h"

namespace brdma::qp {
namespace {

using bitmap::GapRecord;
using bitmap::GapState;
using recovery::LossCause;
using recovery::Lost;
using recovery::WaitUntil;

// Bound of the doubling; a measured recovery time is waited for, however long it is.
constexpr Duration kRepeatMax = 8_ms, kRecoveryMax = 2_s;

void bring_forward(std::optional<Instant>& deadline, Instant candidate) {
  if (!deadline || candidate < *deadline) deadline = candidate;
}

}  // namespace

// `packet` has been marked as received, and lies beyond the base. `newest_before`: arrival of the one before it.
void Responder::Impl::note_early(Psn previous_highest, const wire::Packet& packet, Instant newest_before, Instant now) {
  env.note_length(now, identity.qpn, trace::WindowSide::kReceive, window);
  const Psn psn = packet.bth.psn;
  const Instant seen = env.arrived_at(now);
  const std::int32_t beyond = distance(psn, previous_highest);
  if (beyond > 1) {
    const Psn start = previous_highest + 1;
    const Instant moved = base_moved(start, newest_before, seen);
    gap_rules().open(previous_highest, psn, packet.bxth.path, seen, moved, now);
    const recovery::GapLimits limits = gap_limits();
    const Instant too_stuck = recovery::stall_begin(moved, seen, recovery().age_max) + limits.stall_max;
    bring_forward(out_of_order->watch.judge_at, std::min(seen + limits.age_max, too_stuck) + kTick);
    if (!out_of_order->watch.depth_armed) out_of_order->watch.depth_psn = start + limits.depth_max + 1;
    out_of_order->watch.depth_armed = true;
  } else if (beyond <= 0 && note_filled(packet, now)) {
    env.trace(now, identity.qpn, trace::GapClosed{psn, base()});
    if (out_of_order->gaps.incomplete()) out_of_order->gaps.refill(window, seen, seen);
  }
  if (!speaks_bitmap()) return judge_base_gap(now, seen);
  // A sender that judges by itself needs an acknowledgement of each, or of each while packets are missing.
  if (recovery().mode == RecoveryMode::kSelective || (waits_for_delays(recovery().mode) && beyond > 1)) [[unlikely]]
    ack.force(now);
  if (paths) [[unlikely]]
    look_for_path_evidence(packet, now);
  const bool too_deep =
      out_of_order->watch.depth_armed && distance(window.highest(), out_of_order->watch.depth_psn) >= 0;
  const bool too_many = recovery().stall_packets != 0 && note_later_packet();
  if (too_deep || too_many || (out_of_order->watch.judge_at && seen >= *out_of_order->watch.judge_at))
    scan_gaps(now, seen);
}

// Earliest begin of the stall caused by `gap`. Within a message the packet at the base was due since the one before it;
// between messages there may have been nothing to send. With several paths one may be behind the others.
Instant Responder::Impl::base_moved(Psn gap, Instant newest_before, Instant seen) const {
  const bool expected = gap == base() && message.kind != Message::Kind::kNone && echo.valid() && !paths;
  return expected ? std::min(newest_before, seen) : seen;
}

// One more came while the base stands. True: above the limit.
bool Responder::Impl::note_later_packet() {
  if (out_of_order->gaps.empty() || out_of_order->gaps[0].start != base()) return false;
  return ++out_of_order->gaps[0].later_packets > gap_limits().stall_packets;
}

// `packet` arrived inside a gap. True: that gap is closed.
bool Responder::Impl::note_filled(const wire::Packet& packet, Instant now) {
  const std::uint32_t count = psns_of(packet, mtu);
  bool closed = false;
  for (std::uint32_t i = 0; i < count && !out_of_order->gaps.empty(); ++i) {
    const Psn psn = packet.bth.psn + i;
    const GapRecord* const gap = packet.bxth.retransmitted ? out_of_order->gaps.covering(psn) : nullptr;
    if (gap != nullptr) note_response(*gap, env.arrived_at(now));
    const auto filled = gap_rules().fill(late_arrival(packet, psn, env.arrived_at(now)), now);
    if (!filled) continue;
    closed = closed || filled->closed;
    // It was promoted, and here is the original: the retransmission will come as well.
    if (filled->misjudged && paths && filled->before.feedbacks == 1)
      paths->expect_repetition(psn, filled->before.last_feedback);
  }
  return closed;
}

LateArrival Responder::Impl::late_arrival(const wire::Packet& packet, Psn psn, Instant seen) const {
  using Copy = LateArrival::Copy;
  Copy copy = packet.bitmap ? Copy::kOriginal : Copy::kUnknown;
  if (is_sent_again(packet, psn)) copy = Copy::kRetransmitted;
  return {.psn = psn,
          .copy = copy,
          .learns = psn == packet.bth.psn,
          .path = packet.bxth.path,
          .depth = static_cast<std::uint32_t>(distance(window.highest(), psn)),
          .recovery_time = feedback_rtt.smoothed(),
          .seen = seen};
}

// Has `psn` of this packet been sent before? A standard packet does not show it. After a sequence NAK all packets that
// the peer had sent by then come again.
bool Responder::Impl::is_sent_again(const wire::Packet& packet, Psn psn) const {
  if (packet.bitmap) return packet.bxth.retransmitted;
  const GoBack& go_back = out_of_order->go_back;
  return go_back.active && distance(psn, go_back.end) <= 0 && !resources.has_nak(go_back.base);
}

// A packet that an FFM requested has come. After one FFM: a round trip. After several the answered one is unknown, but
// the recovery took no longer than since the gap was seen. On a path longer than the first interval no gap would ever
// have one FFM only: nothing would be measured, and each FFM would be repeated.
void Responder::Impl::note_response(const GapRecord& gap, Instant now) {
  if (gap.feedbacks == 1) {
    feedback_rtt.sample(now - gap.last_feedback, now);
  } else if (gap.feedbacks > 1 && !feedback_rtt.has_sample()) {
    repeat_first = std::clamp(now - gap.first_seen, repeat_first, kRecoveryMax);
  }
}

// The base has moved, and early packets are still waiting, or the last of them was just executed.
void Responder::Impl::gaps_after_advance(Instant now, Instant seen) {
  env.note_length(now, identity.qpn, trace::WindowSide::kReceive, window);
  out_of_order->gaps.drop_before(base());
  if (out_of_order->gaps.incomplete()) out_of_order->gaps.refill(window, seen, seen);
  out_of_order->go_back.repeats = 0;
  if (out_of_order->go_back.active && distance(base(), out_of_order->go_back.end) > 0)
    out_of_order->go_back.active = false;
  if (out_of_order->gaps.empty()) {
    out_of_order->watch = GapWatch{};
    out_of_order->feedback = FeedbackWatch{};
    feedback_due = false;
    return;
  }
  if (out_of_order->gaps[0].start == base()) {
    out_of_order->gaps[0].base_stuck_since = seen;
    out_of_order->gaps[0].later_packets = 0;
  }
  if (speaks_bitmap()) {
    scan_gaps(now, seen);
  } else {
    judge_base_gap(now, seen);
  }
}

recovery::GapVerdict Responder::Impl::judge_gap(const GapRecord& gap, Instant seen) {
  return gap_rules().judge(gap, static_cast<std::uint32_t>(distance(window.highest(), gap.start)), gap_limits(), seen);
}

// Judges every waiting gap and finds the next event: a deadline, a depth, an FFM to repeat. Few gaps wait: at most as
// many as can open within the tolerance.
void Responder::Impl::scan_gaps(Instant now, Instant seen) {
  out_of_order->watch = GapWatch{};
  // The sender waits for the RNR timer: no request until the base has come again. Or it judges by itself.
  if (base_packet.is_refused() || !gives_feedback(recovery().mode)) {
    out_of_order->feedback.look = true;
    return;
  }
  for (std::size_t i = out_of_order->gaps.first_waiting(); i < out_of_order->gaps.size(); ++i) {
    GapRecord& gap = out_of_order->gaps[i];
    ++out_of_order->gaps_looked_at;
    if (gap.state != GapState::kWaiting) continue;
    const auto verdict = judge_gap(gap, seen);
    if (const auto* wait = std::get_if<WaitUntil>(&verdict)) {
      bring_forward(out_of_order->watch.judge_at, wait->retry_at);
      if (!out_of_order->watch.depth_armed) out_of_order->watch.depth_psn = gap.start + gap_limits().depth_max + 1;
      out_of_order->watch.depth_armed = true;
    } else {
      promote_request_gap(gap, std::get<Lost>(verdict).cause, now);
    }
  }
  find_feedback(seen);
}

// Finds the promoted gaps to report, and when. The oldest named one gives the earliest time; only then all are scanned,
// which is once a round trip, as most have closed by then.
void Responder::Impl::find_feedback(Instant seen) {
  FeedbackWatch& watch = out_of_order->feedback;
  if (watch.unnamed) {
    if (!watch.unnamed_until) watch.unnamed_until = seen + recovery().age_max;
    if (watch.unnamed_count >= recovery().ffm_threshold || seen >= *watch.unnamed_until) feedback_due = true;
  }
  std::optional<Instant> first;
  const auto due_first = [&] {
    first.reset();
    for (std::size_t i = 0; i < FeedbackWatch::kClasses; ++i) {
      if (watch.oldest[i]) bring_forward(first, *watch.oldest[i] + repeat_interval(static_cast<std::uint16_t>(i + 1)));
    }
  };
  due_first();
  if (watch.look || (first && seen >= *first)) {
    look_at_named(seen);
    due_first();
  }
  if (watch.unnamed && !feedback_due) bring_forward(first, *watch.unnamed_until);
  out_of_order->watch.repeat_at = first;
}

// The oldest of those that are not due. Due ones stay in `look` until they have been named.
void Responder::Impl::look_at_named(Instant seen) {
  FeedbackWatch& watch = out_of_order->feedback;
  watch.oldest = {};
  watch.look = false;
  for (std::size_t i = 0; i < out_of_order->gaps.size(); ++i) {
    const GapRecord& gap = out_of_order->gaps[i];
    ++out_of_order->gaps_looked_at;
    if (gap.state != GapState::kPromoted || gap.feedbacks == 0) continue;
    if (seen >= gap.last_feedback + repeat_interval(gap.feedbacks)) {
      feedback_due = watch.look = true;
    } else {
      bring_forward(watch.oldest[FeedbackWatch::class_of(gap.feedbacks)], gap.last_feedback);
    }
  }
}

void Responder::Impl::promote_request_gap(GapRecord& gap, LossCause cause, Instant now) {
  out_of_order->feedback.promoted(gap.start);
  ++gaps_promoted;
  gap_rules().promote(gap, cause, now);
}

// Time from an FFM until the requested packet should be here, doubling: two round trips at least, and no less than
// their recent variation requires. On a path longer than the longest interval it is a quarter more than a round trip:
// the window there waits for a packet lost again, and a sender ignores feedback that cannot cover its retransmission.
Duration Responder::Impl::repeat_interval(std::uint16_t feedbacks) const {
  const auto doublings = static_cast<int>(FeedbackWatch::class_of(feedbacks));
  const Duration trip = feedback_rtt.smoothed();
  if (trip > kRepeatMax) return trip + trip / 4;
  const Duration once =
      feedback_rtt.has_sample() ? feedback_rtt.probe_timeout(recovery().resend_interval_min * 2) : repeat_first;
  return std::max({trip * 2, once, std::min(once * (std::int64_t{1} << doublings), kRepeatMax)});
}

// For a standard peer.
void Responder::Impl::judge_base_gap(Instant now, Instant seen) {
  out_of_order->watch = GapWatch{};
  if (base_packet.is_refused() || out_of_order->gaps.empty() || out_of_order->gaps[0].start != base()) return;
  GapRecord& gap = out_of_order->gaps[0];
  recovery::GapVerdict verdict = WaitUntil{seen};
  if (!out_of_order->go_back.active) {
    verdict = judge_gap(gap, seen);
  } else {
    // It is being retransmitted already. Only packets beyond it that come a second time show that it was lost again.
    if (out_of_order->go_back.repeats == 0) return;
    verdict = recovery::judge(
        {out_of_order->go_back.repeats, false, out_of_order->go_back.first_repeat, out_of_order->go_back.first_repeat},
        qp::gap_limits(nullptr, tolerance, recovery()), seen);
  }
  if (const auto* wait = std::get_if<WaitUntil>(&verdict)) {
    out_of_order->watch.judge_at = wait->retry_at;
    return;
  }
  promote_request_gap(gap, std::get<Lost>(verdict).cause, now);
  go_back_to_base();
}

// Requests a standard peer to go back to the base.
void Responder::Impl::go_back_to_base() {
  out_of_order->go_back = GoBack{true, base(), window.highest(), 0, {}};
  base_packet.name_again();
  request_sequence_nak();
}

// IBTA 9.7.5.1.3: once, until the right PSN comes.
void Responder::Impl::request_sequence_nak() {
  if (!base_packet.name()) return;
  Response nak;
  nak.bitmap = speaks_bitmap();
  nak.syndrome = wire::kSyndromeNakSequence;
  nak.psn = base();
  nak.msn = msn;
  if (!resources.has_nak(nak.psn)) resources.push(nak);
}

bool Responder::Impl::poll_feedback(TransmitBatch& batch, Instant now) {
  if (!feedback_due) [[likely]]
    return false;
  std::byte listed[wire::kFfmGapsMax * wire::kFfmGapSize];
  GapRecord* named[wire::kFfmGapsMax];
  const std::size_t named_max = std::min<std::size_t>(wire::kFfmGapsMax, mtu / wire::kFfmGapSize);
  std::size_t count = 0;
  bool more = false;
  FeedbackWatch& watch = out_of_order->feedback;
  const auto unless_continued = watch.look ? std::optional<Psn>{base()} : watch.unnamed;
  const auto from = watch.continued_at ? watch.continued_at : unless_continued;
  for (std::size_t i = from ? out_of_order->gaps.find(*from) : out_of_order->gaps.size(); i < out_of_order->gaps.size();
       ++i) {
    GapRecord& gap = out_of_order->gaps[i];
    ++out_of_order->gaps_looked_at;
    if (gap.state != GapState::kPromoted) continue;
    if (gap.feedbacks != 0 && now < gap.last_feedback + repeat_interval(gap.feedbacks)) continue;
    if (count == named_max) {  // the next message begins there
      watch.continued_at = gap.start;
      more = true;
      break;
    }
    const auto repeat = static_cast<std::uint8_t>(std::min<unsigned>(gap.feedbacks, wire::kFfmGapRepeatMax));
    wire::emit_ffm_gap({gap.start, gap.length, gap.cause, repeat}, listed + count * wire::kFfmGapSize);
    named[count++] = &gap;
  }
  if (count == 0 || base_packet.is_refused()) {
    feedback_due = false;
    if (base_packet.is_refused()) watch.look = true;
    if (count == 0) watch.all_named();
    return false;
  }
  const std::size_t body_size = wire::kFfmSize + count * wire::kFfmGapSize;
  if (!batch.fits(wire::kBthSize + body_size + wire::kIcrcSize, 0, true)) return false;

  const GapRecord& first = *named[0];
  wire::Ffm ffm;
  ffm.source_qpn = identity.qpn;
  ffm.token = identity.peer_token;
  ffm.path = first.path;
  ffm.highest = window.highest();
  ffm.cause = first.cause;
  ffm.base = base();
  ffm.depth = static_cast<std::uint16_t>(std::min(distance(window.highest(), first.start), 0xFFFF));
  ffm.repeat = first.feedbacks;
  ffm.timestamp = static_cast<std::uint64_t>(now.ns());
  ffm.serial = ffm_serial++;
  ffm.promoted = gaps_promoted;
  ffm.gap_count = static_cast<std::uint16_t>(count);
  ffm.gaps = ConstBytes{listed, count * wire::kFfmGapSize};
  std::byte body[wire::kFfmSize + sizeof listed];
  const std::size_t emitted = wire::emit_ffm(ffm, body);
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kFfm);
  bth.dest_qpn = identity.attributes.destination_qpn;
  bth.psn = first.start;
  batch.add_control(bth, ConstBytes{body, emitted});
  env.count(Counter::kFfmSent);
  env.note(now, identity.qpn, trace::EventType::kFfmSent, first.start.value(), count, ffm.repeat);
  env.trace(now, identity.qpn,
            trace::FfmSent{first.start, first.length, ffm.highest, static_cast<std::uint16_t>(count)});
  bool repeated = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (named[i]->feedbacks != 0xFFFF) ++named[i]->feedbacks;
    repeated = repeated || named[i]->feedbacks > 1;
    named[i]->last_feedback = now;
    bring_forward(watch.oldest[FeedbackWatch::class_of(named[i]->feedbacks)], now);
  }
  if (!more) watch.all_named();
  if (repeated) ack_loss.on_sign(window.highest());
  feedback_due = more;
  if (!more) scan_gaps(now, now);
  return true;
}

}  // namespace brdma::qp
