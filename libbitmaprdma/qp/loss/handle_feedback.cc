// Fast feedback (spec 1: sender's reaction): the gaps that the receiver judged lost become pending, unless one of the
// suppression rules applies (recovery/retransmit_request.h). Suppressed packets are counted, by gap and by rule.
#include <algorithm>

#include "qp/send/requester_impl.h"

namespace brdma::qp {

namespace {

constexpr std::int64_t kQuietTimes = 4;

}  // namespace

using recovery::FeedbackOrder;
using recovery::RequestVerdict;

Outcome Requester::handle_ffm(const wire::Ffm& ffm, Instant now) {
  Impl& me = *impl_;
  me.env.count(Counter::kFfmReceived);
  if (ffm.gap_count > 0) {
    const wire::FfmGap first = ffm.gap(0);
    me.env.note(now, me.id.qpn, trace::EventType::kFfmReceived, first.start.value(), ffm.gap_count);
    me.env.trace(now, me.id.qpn, trace::FfmReceived{first.start, first.length, ffm.gap_count});
  }
  me.timers.on_activity(now);
  const FeedbackOrder::Kind kind = me.feedback_order.take(ffm.serial);
  if (kind == FeedbackOrder::Kind::kDuplicate || kind == FeedbackOrder::Kind::kStale) {
    me.env.count(kind == FeedbackOrder::Kind::kDuplicate ? Counter::kFfmDuplicates : Counter::kFfmStale);
    me.env.count(Counter::kFfmSuppressed, ffm.gap_count);
    return {};
  }
  // The receiver has taken the refused packet; its acknowledgement was lost.
  if (me.rnr.is_recovering() && distance(ffm.base, me.scoreboard.psn_of(me.rnr.end())) >= 0) me.rnr.on_taken();
  const Impl::Feedback feedback{kind == FeedbackOrder::Kind::kOvertaken, me.newest_known(ffm.highest, now)};
  const bool nothing_pending = me.scoreboard.pending() == 0;
  for (std::size_t i = 0; i < ffm.gap_count; ++i) {
    if (!me.repair(ffm.gap(i), feedback, now)) me.env.count(Counter::kFfmSuppressed);
  }
  const Duration delay = me.id.recovery->aggregate_delay;
  if (nothing_pending && me.scoreboard.pending() > 0 && delay > Duration{}) {
    me.env.count(Counter::kRetransmitHeld);
    me.repairing().held_until = now + delay;
  }
  return {};
}

// True: part of the gap is to be retransmitted.
bool Requester::Impl::repair(const wire::FfmGap& gap, const Feedback& feedback, Instant now) {
  const std::int64_t start = distance(gap.start, scoreboard.base_psn());
  const std::int64_t last = start + gap.length, end = std::min<std::int64_t>(last, scoreboard.entries());
  if (start < 0)
    env.count(Counter::kFfmPacketsAcked, static_cast<std::uint64_t>(std::min<std::int64_t>(-start, gap.length)));
  if (last > end) env.count(Counter::kFfmPacketsUnsent, static_cast<std::uint64_t>(last - std::max(end, start)));
  bool any = false;
  for (std::int64_t offset = std::max<std::int64_t>(start, 0); offset < end; ++offset) {
    const Sequence sequence = scoreboard.base() + static_cast<Sequence>(offset);
    if (!accepts_feedback(sequence, feedback, now)) continue;
    const Message& message = message_of(sequence);
    if (!message.answered()) {
      any = request_resend(sequence, message, Counter::kRetransmittedFfm, now) || any;
    } else if (!message.request_received) {
      any = request_resend_range(sequence, sequence + 1, Counter::kRetransmittedFfm, now) > 0 || any;
    }
  }
  return any;
}

// Feedback does not cover retransmissions that left after its receiver's newest packet. Times alone do not decide: in a
// growing queue the RTT exceeds the recent one, and a switch that reports drops causes retransmissions long before the
// receiver misses the packets. `highest`: that newest packet. If it was sent more than once, the received transmission
// is unknown; with several paths the newest may have taken a shorter one.
std::optional<Instant> Requester::Impl::newest_known(Psn highest, Instant now) const {
  const auto sequence = scoreboard.sequence_of(highest);
  if (!sequence) return std::nullopt;
  if ((paths && !recent_drops_reported(now)) || scoreboard.entry(*sequence).transmissions > 1) return std::nullopt;
  return scoreboard.sent_at(*sequence, now);
}

bool Requester::Impl::recent_drops_reported(Instant now) const {
  constexpr std::int64_t kAliveRtts = 16;
  return signals && signals->edn_applied_at &&
         now - *signals->edn_applied_at <= std::max(id.recovery->resend_interval_min, rtt.smoothed()) * kAliveRtts;
}

bool Requester::Impl::accepts_feedback(Sequence sequence, const Feedback& feedback, Instant now) {
  const bitmap::SendEntry& entry = scoreboard.entry(sequence);
  const Duration quiet = std::max(id.recovery->resend_interval_min, round_trip_expected());
  const Instant sent = scoreboard.sent_at(sequence, now);
  switch (recovery::judge_request({entry.state, entry.transmissions > 1, now - sent}, quiet, feedback.overtaken)) {
    case RequestVerdict::kResend:
      // Bounded in time: without new data the highest PSN does not change.
      if (feedback.highest && entry.transmissions > 1 && *feedback.highest < sent && now - sent < quiet * kQuietTimes) {
        env.count(recent_drops_reported(now) ? Counter::kFfmPacketsEdn : Counter::kFfmPacketsRecent);
        return false;
      }
      return true;
    case RequestVerdict::kAcknowledged:
      env.count(Counter::kFfmPacketsAcked);
      break;
    case RequestVerdict::kPending:
      env.count(Counter::kFfmPacketsPending);
      break;
    case RequestVerdict::kRecent:
      env.count(Counter::kFfmPacketsRecent);
      break;
    case RequestVerdict::kOutdated:
      env.count(Counter::kFfmPacketsOutdated);
      break;
  }
  return false;
}

}  // namespace brdma::qp
