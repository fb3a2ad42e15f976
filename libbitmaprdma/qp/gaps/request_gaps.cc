#include "qp/gaps/request_gaps.h"

#include <algorithm>
#include <utility>

#include "qp/execute/request_checks.h"

namespace brdma::qp {
namespace {

using bitmap::GapRecord;
using bitmap::GapState;
using recovery::LossCause;
using recovery::Lost;
using recovery::WaitUntil;

}  // namespace

GapReceiver RequestGaps::rules() const {
  return GapReceiver{{parts_.env, parts_.identity, parts_.out_of_order.gaps, parts_.tolerance.single(),
                      parts_.tolerance.paths(), base()}};
}

void RequestGaps::on_early(const wire::Packet& packet, Psn previous_highest, std::optional<Instant> base_due,
                           Instant now) const {
  Environment& env = parts_.env;
  env.note_length(now, parts_.identity.qpn, trace::WindowSide::kReceive, parts_.window);
  const Psn psn = packet.bth.psn;
  const Instant seen = env.arrived_at(now);
  const bool was_silent = note_arrival(seen);
  const std::int32_t beyond = distance(psn, previous_highest);
  if (beyond > 1) {
    open(packet, previous_highest, base_due, seen, now);
  } else if (beyond <= 0 && fill(packet, now)) {
    env.trace(now, parts_.identity.qpn, trace::GapClosed{psn, base()});
    refill(seen);
  }
  if (!parts_.bitmap) return judge_base(now, seen);
  // A sender that judges by itself needs an acknowledgement of each, or of each while packets are missing.
  if (recovery().mode == RecoveryMode::kSelective || (waits_for_delays(recovery().mode) && beyond > 1)) [[unlikely]]
    parts_.ack.force(now);
  if (parts_.tolerance.paths() != nullptr) [[unlikely]]
    look_for_path_evidence(packet, now);
  const GapWatch& watch = parts_.out_of_order.watch;
  const bool too_deep = watch.is_too_deep(parts_.window.highest());
  const bool too_many = recovery().stall_packets != 0 && count_later_packet();
  if (too_deep || too_many || was_silent || watch.is_judgement_due(seen)) judge_all(now, seen);
}

// The peer sends. True: after a silence, for which a repetition may have been put off.
bool RequestGaps::note_arrival(Instant seen) const {
  constexpr Duration kSilence = 8_ms;
  OutOfOrderState& state = parts_.out_of_order;
  return seen - std::exchange(state.last_arrival, seen) > kSilence && state.watch.repeat_at;
}

void RequestGaps::open(const wire::Packet& packet, Psn before, std::optional<Instant> base_due, Instant seen,
                       Instant now) const {
  const Psn start = before + 1;
  // Earliest begin of the stall caused by this gap. With several paths one may be behind the others.
  const bool expected = start == base() && base_due && parts_.tolerance.paths() == nullptr;
  const Instant moved = expected ? std::min(*base_due, seen) : seen;
  rules().open(before, packet.bth.psn, packet.bxth.path, seen, moved, now);
  const recovery::GapLimits most = limits();
  const Instant too_stuck = recovery::stall_begin(moved, seen, recovery().age_max) + most.stall_max;
  GapWatch& watch = parts_.out_of_order.watch;
  bring_forward(watch.judge_at, std::min(seen + most.age_max, too_stuck) + kTick);
  watch.arm_depth(start + most.depth_max + 1);
}

// `packet` arrived inside a gap. True: that gap is closed.
bool RequestGaps::fill(const wire::Packet& packet, Instant now) const {
  const std::uint32_t count = psns_of(packet, parts_.mtu);
  const Instant seen = parts_.env.arrived_at(now);
  const bitmap::GapTable& gaps = parts_.out_of_order.gaps;
  bool closed = false;
  for (std::uint32_t i = 0; i < count && !gaps.empty(); ++i) {
    const Psn psn = packet.bth.psn + i;
    const GapRecord* const gap = packet.bxth.retransmitted ? gaps.covering(psn) : nullptr;
    if (gap != nullptr) parts_.feedback.on_response(*gap, seen);
    const auto filled = rules().fill(late_arrival(packet, psn, seen), now);
    if (!filled) continue;
    closed = closed || filled->closed;
    // It was promoted, and here is the original: the retransmission will come as well.
    if (filled->misjudged && parts_.tolerance.paths() != nullptr && filled->before.feedbacks == 1)
      parts_.tolerance.paths()->expect_repetition(psn, filled->before.last_feedback);
  }
  return closed;
}

void RequestGaps::refill(Instant seen) const {
  bitmap::GapTable& gaps = parts_.out_of_order.gaps;
  if (gaps.incomplete()) gaps.refill(parts_.window, seen, seen);
}

LateArrival RequestGaps::late_arrival(const wire::Packet& packet, Psn psn, Instant seen) const {
  using Copy = LateArrival::Copy;
  Copy copy = packet.bitmap ? Copy::kOriginal : Copy::kUnknown;
  if (is_sent_again(packet, psn)) copy = Copy::kRetransmitted;
  return {.psn = psn,
          .copy = copy,
          .learns = psn == packet.bth.psn,
          .path = packet.bxth.path,
          .depth = static_cast<std::uint32_t>(distance(parts_.window.highest(), psn)),
          .recovery_time = parts_.feedback.round_trip(),
          .seen = seen};
}

// Has `psn` of this packet been sent before? A standard packet does not show it. After a sequence NAK all packets that
// the peer had sent by then come again.
bool RequestGaps::is_sent_again(const wire::Packet& packet, Psn psn) const {
  if (packet.bitmap) return packet.bxth.retransmitted;
  const GoBack& go_back = parts_.out_of_order.go_back;
  return go_back.active && distance(psn, go_back.end) <= 0 && !parts_.nak.is_waiting(go_back.base);
}

bool RequestGaps::is_first_at_base() const {
  const bitmap::GapTable& gaps = parts_.out_of_order.gaps;
  return !gaps.empty() && gaps[0].start == base();
}

// One more came while the base stands. True: above the limit.
bool RequestGaps::count_later_packet() const {
  return is_first_at_base() && ++parts_.out_of_order.gaps[0].later_packets > limits().stall_packets;
}

// `packet` came early and is in the gap records.
void RequestGaps::look_for_path_evidence(const wire::Packet& packet, Instant now) const {
  if (!packet.bitmap || parts_.out_of_order.gaps.empty()) return;
  const Instant seen = parts_.env.arrived_at(now);
  const bool look = rules().note_path_evidence(packet.bxth, packet.bth.psn, seen);
  refill(seen);
  if (look) judge_all(now, seen);
}

void RequestGaps::on_copy(Instant now) const {
  parts_.out_of_order.last_arrival = parts_.env.arrived_at(now);
  GoBack& go_back = parts_.out_of_order.go_back;
  if (!go_back.active) return;
  const Instant seen = parts_.env.arrived_at(now);
  if (go_back.repeats++ == 0) go_back.first_repeat = seen;
  judge_base(now, seen);
}

bool RequestGaps::fill_base(const wire::Packet& packet, Instant now) const {
  const bool closed = fill(packet, now);
  GoBack& go_back = parts_.out_of_order.go_back;
  if (go_back.active && packet.bth.psn == go_back.base) go_back.end = parts_.window.highest();
  return closed;
}

void RequestGaps::on_base_held(const wire::Packet& packet, Instant now) const {
  const Instant seen = parts_.env.arrived_at(now);
  parts_.out_of_order.last_arrival = seen;
  if (!fill_base(packet, now)) return;
  parts_.env.trace(now, parts_.identity.qpn, trace::GapClosed{packet.bth.psn, base()});
  refill(seen);
}

void RequestGaps::on_advance(Instant now, Instant seen) const {
  parts_.env.note_length(now, parts_.identity.qpn, trace::WindowSide::kReceive, parts_.window);
  OutOfOrderState& state = parts_.out_of_order;
  state.last_arrival = seen;
  state.gaps.drop_before(base());
  refill(seen);
  state.go_back.repeats = 0;
  if (state.go_back.active && distance(base(), state.go_back.end) > 0) state.go_back.active = false;
  if (state.gaps.empty()) {
    state.watch = GapWatch{};
    state.feedback = FeedbackWatch{};
    parts_.feedback.cancel();
    return;
  }
  if (is_first_at_base()) {
    state.gaps[0].base_stuck_since = seen;
    state.gaps[0].later_packets = 0;
  }
  if (parts_.bitmap) {
    judge_all(now, seen);
  } else {
    judge_base(now, seen);
  }
}

void RequestGaps::on_time(Instant now) const {
  const GapWatch& watch = parts_.out_of_order.watch;
  const bool judge = watch.is_judgement_due(now);
  if (parts_.bitmap) {
    if (judge || watch.is_repetition_due(now)) judge_all(now, now);
  } else if (judge) {
    judge_base(now, now);
  }
}

recovery::GapVerdict RequestGaps::judge(const GapRecord& gap, Instant seen) const {
  return rules().judge(gap, static_cast<std::uint32_t>(distance(parts_.window.highest(), gap.start)), limits(), seen);
}

void RequestGaps::judge_all(Instant now, Instant seen) const {
  OutOfOrderState& state = parts_.out_of_order;
  state.watch = GapWatch{};
  // The sender waits for the RNR timer: no request until the base has come again. Or it judges by itself.
  if (parts_.base_packet.is_refused() || !gives_feedback(recovery().mode)) {
    state.feedback.look = true;
    return;
  }
  for (std::size_t i = state.gaps.first_waiting(); i < state.gaps.size(); ++i) {
    GapRecord& gap = state.gaps[i];
    ++state.gaps_looked_at;
    if (gap.state != GapState::kWaiting) continue;
    const auto verdict = judge(gap, seen);
    if (const auto* wait = std::get_if<WaitUntil>(&verdict)) {
      bring_forward(state.watch.judge_at, wait->retry_at);
      state.watch.arm_depth(gap.start + limits().depth_max + 1);
    } else {
      promote(gap, std::get<Lost>(verdict).cause, now);
    }
  }
  parts_.feedback.plan(state, recovery(), seen);
}

// For a standard peer.
void RequestGaps::judge_base(Instant now, Instant seen) const {
  OutOfOrderState& state = parts_.out_of_order;
  state.watch = GapWatch{};
  if (parts_.base_packet.is_refused() || !is_first_at_base()) return;
  GapRecord& gap = state.gaps[0];
  recovery::GapVerdict verdict = WaitUntil{seen};
  if (!state.go_back.active) {
    verdict = judge(gap, seen);
  } else {
    // It is being retransmitted already. Only packets beyond it that come a second time show that it was lost again.
    if (state.go_back.repeats == 0) return;
    verdict = recovery::judge({state.go_back.repeats, false, state.go_back.first_repeat, state.go_back.first_repeat},
                              gap_limits(nullptr, parts_.tolerance.single(), recovery()), seen);
  }
  if (const auto* wait = std::get_if<WaitUntil>(&verdict)) {
    state.watch.judge_at = wait->retry_at;
    return;
  }
  promote(gap, std::get<Lost>(verdict).cause, now);
  go_back();
}

void RequestGaps::promote(GapRecord& gap, LossCause cause, Instant now) const {
  parts_.feedback.on_promoted(parts_.out_of_order.feedback, gap.start);
  rules().promote(gap, cause, now);
}

// Requests a standard peer to go back to the base.
void RequestGaps::go_back() const {
  parts_.out_of_order.go_back = GoBack{true, base(), parts_.window.highest(), 0, {}};
  parts_.nak.request_again();
}

void RequestGaps::judge_again(Instant now) const {
  if (parts_.out_of_order.gaps.empty()) return;
  if (parts_.bitmap) {
    parts_.out_of_order.feedback.look = true;
    judge_all(now, now);
  } else {
    judge_base(now, now);
  }
}

void RequestGaps::request_by_hand(std::optional<Psn> psn, Instant now,
                                  FunctionRef<void(const GapRecord&)> named) const {
  bool any = false;
  bitmap::GapTable& gaps = parts_.out_of_order.gaps;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    GapRecord& gap = gaps[i];
    if ((psn && !gap.covers(*psn)) || (!parts_.bitmap && gap.start != base())) continue;
    named(gap);
    any = true;
    if (gap.state == GapState::kWaiting) promote(gap, LossCause::kRequested, now);
    if (gap.feedbacks != 0) {  // due now, however long the peer has been silent
      const Instant long_ago = now - parts_.feedback.repeat_interval(gap.feedbacks, recovery());
      gap.last_feedback = std::min(long_ago, parts_.out_of_order.last_arrival);
    }
  }
  if (!any) return;
  if (parts_.bitmap) {
    parts_.out_of_order.feedback.look = true;
    parts_.feedback.request();
  } else {
    go_back();
  }
}

}  // namespace brdma::qp
