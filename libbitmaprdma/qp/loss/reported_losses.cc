#include "qp/loss/reported_losses.h"

#include <algorithm>

#include "recovery/drop_notice.h"

namespace brdma::qp {

using recovery::FeedbackOrder;
using recovery::RequestVerdict;

Duration ReportedLosses::quiet() const {
  const Duration round_trip = parts_.rtt.smoothed() + (parts_.paths != nullptr ? parts_.paths->skew() : Duration{});
  return std::max(parts_.id.recovery->resend_interval_min, round_trip);
}

// --- fast feedback ---

void ReportedLosses::on_feedback(const wire::Ffm& ffm, Instant now) const {
  Environment& env = parts_.env;
  env.count(Counter::kFfmReceived);
  if (ffm.gap_count > 0) {
    const wire::FfmGap first = ffm.gap(0);
    env.note(now, parts_.id.qpn, trace::EventType::kFfmReceived, first.start.value(), ffm.gap_count);
    env.trace(now, parts_.id.qpn, trace::FfmReceived{first.start, first.length, ffm.gap_count});
  }
  parts_.timers.on_activity(now);
  const FeedbackOrder::Kind kind = parts_.order.take(ffm.serial);
  if (kind == FeedbackOrder::Kind::kDuplicate || kind == FeedbackOrder::Kind::kStale) {
    env.count(kind == FeedbackOrder::Kind::kDuplicate ? Counter::kFfmDuplicates : Counter::kFfmStale);
    env.count(Counter::kFfmSuppressed, ffm.gap_count);
    return;
  }
  const Scoreboard& board = parts_.scoreboard;
  // The receiver has taken the refused packet; its acknowledgement was lost.
  if (parts_.rnr.is_recovering() && distance(ffm.base, board.psn_of(parts_.rnr.end())) >= 0) parts_.rnr.on_taken();
  const Feedback feedback{kind == FeedbackOrder::Kind::kOvertaken, newest_known(ffm.highest, now)};
  const bool nothing_pending = board.pending() == 0;
  for (std::size_t i = 0; i < ffm.gap_count; ++i) {
    if (!repair(ffm.gap(i), feedback, now)) env.count(Counter::kFfmSuppressed);
  }
  const Duration delay = parts_.id.recovery->aggregate_delay;
  if (nothing_pending && board.pending() > 0 && delay > Duration{}) {
    env.count(Counter::kRetransmitHeld);
    parts_.packets.repairing().held_until = now + delay;
  }
}

// True: part of the gap is to be retransmitted.
bool ReportedLosses::repair(const wire::FfmGap& gap, const Feedback& feedback, Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  const std::int64_t start = distance(gap.start, board.base_psn());
  const std::int64_t last = start + gap.length, end = std::min<std::int64_t>(last, board.entries());
  if (start < 0)
    parts_.env.count(Counter::kFfmPacketsAcked, static_cast<std::uint64_t>(std::min<std::int64_t>(-start, gap.length)));
  if (last > end) parts_.env.count(Counter::kFfmPacketsUnsent, static_cast<std::uint64_t>(last - std::max(end, start)));
  bool any = false;
  for (std::int64_t offset = std::max<std::int64_t>(start, 0); offset < end; ++offset) {
    const Sequence sequence = board.base() + static_cast<Sequence>(offset);
    if (!accepts_feedback(sequence, feedback, now)) continue;
    const Message& message = parts_.packets.message_of(sequence);
    if (!message.answered()) {
      any = parts_.packets.retransmit(sequence, message, Counter::kRetransmittedFfm, now) || any;
    } else if (!message.request_received) {
      any = parts_.packets.retransmit_range(sequence, sequence + 1, Counter::kRetransmittedFfm, now) > 0 || any;
    }
  }
  return any;
}

// Feedback does not cover retransmissions that left after its receiver's newest packet. Times alone do not decide: in a
// growing queue the RTT exceeds the recent one, and a switch that reports drops causes retransmissions long before the
// receiver misses the packets. `highest`: that newest packet. If it was sent more than once, the received transmission
// is unknown; with several paths the newest may have taken a shorter one.
std::optional<Instant> ReportedLosses::newest_known(Psn highest, Instant now) const {
  const auto sequence = parts_.scoreboard.sequence_of(highest);
  if (!sequence) return std::nullopt;
  if (parts_.paths != nullptr && !recent_drops_reported(now)) return std::nullopt;
  if (parts_.scoreboard.entry(*sequence).transmissions > 1) return std::nullopt;
  return parts_.scoreboard.sent_at(*sequence, now);
}

bool ReportedLosses::recent_drops_reported(Instant now) const {
  constexpr std::int64_t kAliveRtts = 16;
  const Duration alive = std::max(parts_.id.recovery->resend_interval_min, parts_.rtt.smoothed()) * kAliveRtts;
  return parts_.signals != nullptr && parts_.signals->edn_applied_at && now - *parts_.signals->edn_applied_at <= alive;
}

bool ReportedLosses::accepts_feedback(Sequence sequence, const Feedback& feedback, Instant now) const {
  constexpr std::int64_t kQuietTimes = 4;
  Environment& env = parts_.env;
  const bitmap::SendEntry& entry = parts_.scoreboard.entry(sequence);
  const bool again = entry.transmissions > 1;
  const Instant sent = parts_.scoreboard.sent_at(sequence, now);
  switch (recovery::judge_request({entry.state, again, now - sent}, quiet(), feedback.overtaken)) {
    case RequestVerdict::kResend:
      // Bounded in time: without new data the highest PSN does not change.
      if (feedback.highest && again && *feedback.highest < sent && now - sent < quiet() * kQuietTimes) {
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

// --- explicit drop notification ---

std::uint32_t ReportedLosses::on_drops(const wire::Edn& edn, Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  Environment& env = parts_.env;
  const std::int64_t start = distance(edn.first, board.base_psn());
  const std::int64_t last = start + distance(edn.last, edn.first);
  const std::int64_t end = std::min<std::int64_t>(last + 1, board.entries());
  if (last < 0 || end <= start) {  // all of it is done, or was never sent: old, or a forgery
    env.count(Counter::kEdnStale);
    return 0;
  }
  if (last >= end) env.count(Counter::kEdnPacketsUnsent, static_cast<std::uint64_t>(last + 1 - end));
  if (start < 0) env.count(Counter::kEdnPacketsAcked, static_cast<std::uint64_t>(-start));
  parts_.timers.on_activity(now);
  std::uint32_t again = 0;
  std::uint64_t dropped = 0;
  for (std::int64_t offset = std::max<std::int64_t>(start, 0); offset < end; ++offset) {
    const Sequence sequence = board.base() + static_cast<Sequence>(offset);
    if (!retransmit_dropped(sequence, edn, now)) continue;
    ++again;
    dropped += parts_.packets.message_of(sequence).payload_at(sequence, parts_.id.mtu());
  }
  if (edn.drain > Duration{}) slow_down(dropped, edn.drain, now);  // else it was no queue
  if (again != 0) pause_for(edn, now);
  return again;
}

// True: it is to be retransmitted.
bool ReportedLosses::retransmit_dropped(Sequence sequence, const wire::Edn& edn, Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  const bitmap::SendEntry& entry = board.entry(sequence);
  const recovery::DroppedEntry dropped{entry.state, entry.transmissions > 1, board.sent_at(sequence, now),
                                       board.psn_of(sequence) == edn.first};
  std::optional<Instant> transmitted;
  if (edn.timestamp) transmitted = wire::instant_of(*edn.timestamp, now);
  switch (recovery::judge_drop(dropped, transmitted, quiet(), now)) {
    case RequestVerdict::kResend: {
      Message& message = parts_.packets.message_of(sequence);
      if (!message.answered()) return parts_.packets.retransmit(sequence, message, Counter::kRetransmittedEdn, now);
      if (message.request_received) break;
      message.reported_dropped = true;
      return parts_.packets.retransmit_range(sequence, sequence + 1, Counter::kRetransmittedEdn, now) > 0;
    }
    case RequestVerdict::kAcknowledged:
      break;
    case RequestVerdict::kPending:
      parts_.env.count(Counter::kEdnPacketsPending);
      return false;
    case RequestVerdict::kRecent:
    case RequestVerdict::kOutdated:
      parts_.env.count(Counter::kEdnPacketsRecent);
      return false;
  }
  parts_.env.count(Counter::kEdnPacketsAcked);
  return false;
}

// The dropped bytes were the excess, and are not to be sent into the same queue at once.
void ReportedLosses::slow_down(std::uint64_t dropped, Duration drain, Instant now) const {
  if (dropped == 0 || !parts_.id.recovery->congestion.edn) return;
  parts_.env.count(Counter::kEdnReductions);
  parts_.congestion.on_drops({.bytes = dropped, .drain = drain, .packet_bytes = parts_.id.mtu()}, now);
  if (parts_.signals != nullptr && parts_.signals->rate)
    parts_.signals->rate->on_drops(dropped, parts_.rtt.smoothed(), now);
}

// The full queue gets time to drain: an immediate retransmission would be dropped again. All senders that filled it get
// the notification at the same time, and returning together they would fill it again. Each waits one to kPauseLongest
// times as long, derived from its numbers.
void ReportedLosses::pause_for(const wire::Edn& edn, Instant now) const {
  constexpr std::int64_t kPauseLongest = 5, kParts = 256;
  constexpr std::uint32_t kOdd = 0x9E37'79B1u;
  const Identity& id = parts_.id;
  const std::uint32_t draw = (id.qpn ^ id.attributes.destination_qpn << 8 ^ edn.first.value()) * kOdd >> 24;
  const Duration wanted = edn.drain + edn.drain * ((kPauseLongest - 1) * std::int64_t{draw}) / kParts;
  const Duration pause = std::min(wanted, id.recovery->edn_pause_max);
  if (pause <= Duration{}) return;
  LossRecovery& mine = parts_.packets.repairing();
  if (!mine.paused_until) parts_.env.count(Counter::kEdnPauses);
  mine.paused_until = std::max(mine.paused_until.value_or(now), now + pause);
}

}  // namespace brdma::qp
