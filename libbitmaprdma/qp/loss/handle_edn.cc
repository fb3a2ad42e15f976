// Explicit drop notification (spec 5): a switch names requests of ours that it dropped (responses and acknowledgements:
// repeated_responses.h). Exactly those become pending, unless they need no retransmission; sending may wait for the
// full queue to drain. A later FFM for the same packets finds them pending or just resent; if it came first, the same
// holds for this notification.
#include <algorithm>

#include "qp/send/requester_impl.h"
#include "recovery/drop_notice.h"

namespace brdma::qp {

using recovery::RequestVerdict;

Outcome Requester::handle_edn(const wire::Edn& edn, Instant now) {
  Impl& me = *impl_;
  const std::int64_t start = distance(edn.first, me.scoreboard.base_psn());
  const std::int64_t last = start + distance(edn.last, edn.first);
  const std::int64_t end = std::min<std::int64_t>(last + 1, me.scoreboard.entries());
  if (last < 0 || end <= start) {  // all of it is done, or was never sent: old, or a forgery
    me.env.count(Counter::kEdnStale);
    return {};
  }
  if (last >= end) me.env.count(Counter::kEdnPacketsUnsent, static_cast<std::uint64_t>(last + 1 - end));
  if (start < 0) me.env.count(Counter::kEdnPacketsAcked, static_cast<std::uint64_t>(-start));
  me.timers.on_activity(now);
  std::uint32_t again = 0;
  std::uint64_t dropped = 0;
  for (std::int64_t offset = std::max<std::int64_t>(start, 0); offset < end; ++offset) {
    const Sequence sequence = me.scoreboard.base() + static_cast<Sequence>(offset);
    if (!me.resend_dropped(sequence, edn, now)) continue;
    ++again;
    dropped += me.message_of(sequence).payload_at(sequence, me.id.mtu());
  }
  if (edn.drain > Duration{}) me.slow_down(dropped, edn.drain, now);  // else it was no queue
  if (again == 0) return me.outcome(now);
  me.signals_made().edn_applied_at = now;
  me.note_timed_out(again, now);  // as they would have, had the switch not reported it sooner
  me.pause_for(edn, now);
  return me.outcome(now);
}

// True: retransmit it.
bool Requester::Impl::resend_dropped(Sequence sequence, const wire::Edn& edn, Instant now) {
  const bitmap::SendEntry& entry = scoreboard.entry(sequence);
  const recovery::DroppedEntry dropped{entry.state, entry.transmissions > 1, scoreboard.sent_at(sequence, now),
                                       scoreboard.psn_of(sequence) == edn.first};
  std::optional<Instant> transmitted;
  if (edn.timestamp) transmitted = wire::instant_of(*edn.timestamp, now);
  const Duration quiet = std::max(id.recovery->resend_interval_min, round_trip_expected());
  switch (recovery::judge_drop(dropped, transmitted, quiet, now)) {
    case RequestVerdict::kResend: {
      Message& message = message_of(sequence);
      if (!message.answered()) return request_resend(sequence, message, Counter::kRetransmittedEdn, now);
      if (message.request_received) break;
      message.reported_dropped = true;
      return request_resend_range(sequence, sequence + 1, Counter::kRetransmittedEdn, now) > 0;
    }
    case RequestVerdict::kAcknowledged:
      break;
    case RequestVerdict::kPending:
      env.count(Counter::kEdnPacketsPending);
      return false;
    case RequestVerdict::kRecent:
    case RequestVerdict::kOutdated:
      env.count(Counter::kEdnPacketsRecent);
      return false;
  }
  env.count(Counter::kEdnPacketsAcked);
  return false;
}

// The dropped bytes were the excess, and are not to be sent into the same queue at once.
void Requester::Impl::slow_down(std::uint64_t dropped, Duration drain, Instant now) {
  if (dropped == 0 || !id.recovery->congestion.edn) return;
  env.count(Counter::kEdnReductions);
  congestion.on_drops({.bytes = dropped, .drain = drain, .packet_bytes = id.mtu()}, now);
  if (signals && signals->rate) signals->rate->on_drops(dropped, rtt.smoothed(), now);
}

// The full queue gets time to drain: an immediate retransmission would be dropped again. All senders that filled it get
// the notification at the same time, and returning together they would fill it again. Each waits one to kPauseLongest
// times as long, derived from its numbers.
void Requester::Impl::pause_for(const wire::Edn& edn, Instant now) {
  constexpr std::int64_t kPauseLongest = 5, kParts = 256;
  constexpr std::uint32_t kOdd = 0x9E37'79B1u;
  const std::uint32_t draw = (id.qpn ^ id.attributes.destination_qpn << 8 ^ edn.first.value()) * kOdd >> 24;
  const Duration wanted = edn.drain + edn.drain * ((kPauseLongest - 1) * std::int64_t{draw}) / kParts;
  const Duration pause = std::min(wanted, id.recovery->edn_pause_max);
  if (pause <= Duration{}) return;
  LossRecovery& mine = repairing();
  if (!mine.paused_until) env.count(Counter::kEdnPauses);
  mine.paused_until = std::max(mine.paused_until.value_or(now), now + pause);
}

bool Requester::Impl::paused(Instant now) const {
  const auto until = loss_recovery.paused_until();
  return until && now < *until;
}

}  // namespace brdma::qp
