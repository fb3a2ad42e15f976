// Fast feedback (spec 1: sender's reaction): the gaps that the receiver judged lost become pending, unless one of the
// suppression rules applies. What was left undone is counted by gap.
#include <algorithm>

#include "qp/requester_impl.h"

namespace brdma::qp {

using bitmap::EntryState;

namespace {

// Serial numbers wrap; a newer one lies in the half before the other.
bool newer(std::uint32_t serial, std::uint32_t than) { return static_cast<std::int32_t>(serial - than) > 0; }

}  // namespace

Outcome Requester::handle_ffm(const wire::Ffm& ffm, Instant now) {
  Impl& me = *impl_;
  me.env.count(Counter::kFfmReceived);
  if (ffm.gap_count > 0) {
    const wire::FfmGap first = ffm.gap(0);
    me.env.trace(now, me.id.qpn, trace::FfmReceived{first.start, first.length, ffm.gap_count});
  }
  me.patience.activity = now;
  // A duplicate, or one that a newer one has overtaken: what it names is answered or will be named again.
  if (me.ffm_serial && !newer(ffm.serial, *me.ffm_serial)) {
    me.env.count(Counter::kFfmSuppressed, ffm.gap_count);
    return {};
  }
  me.ffm_serial = ffm.serial;
  // It has taken what it was not ready for; its acknowledgement was lost.
  if (me.trial && distance(ffm.base, me.psn_of(me.trial->end)) >= 0) me.trial.reset();
  for (std::size_t i = 0; i < ffm.gap_count; ++i) {
    if (!me.repair(ffm.gap(i), now)) me.env.count(Counter::kFfmSuppressed);
  }
  return {};
}

// True: something of the gap is to be sent again.
bool Requester::Impl::repair(const wire::FfmGap& gap, Instant now) {
  const std::int32_t start = distance(gap.start, window.base());
  const std::int64_t end = std::min<std::int64_t>(std::int64_t{start} + gap.length, window.in_window());
  const Duration quiet = std::max(id.recovery->resend_interval_min, rtt.smoothed());
  bool any = false;
  for (std::int64_t offset = std::max(start, 0); offset < end; ++offset) {
    const Sequence sequence = base + static_cast<Sequence>(offset);
    const Psn psn = psn_of(sequence);
    const bitmap::SendEntry& entry = window.entry(psn);
    if (entry.state == EntryState::kAcked || entry.state == EntryState::kRetransmitPending) continue;
    // One effective retransmission a time window: this one is on its way.
    if (entry.transmissions > 1 && now - window.sent_at(psn, now) < quiet) continue;
    const Message& message = message_of(sequence);
    if (!message.answered()) {
      any = request_resend(sequence, message, Counter::kRetransmittedFfm, now) || any;
    } else if (!message.request_received) {
      any = request_resend_range(sequence, sequence + 1, Counter::kRetransmittedFfm, now) > 0 || any;
    }
  }
  return any;
}

}  // namespace brdma::qp
