// RecoveryMode::kSelective, the yardstick: losses judged by the sender from acknowledgements, as TCP does.
#include <algorithm>

#include "qp/requester_impl.h"

namespace brdma::qp {

using bitmap::EntryState;

// Before the entry is acknowledged: when was it sent?
void Requester::Impl::note_delivered(Sequence sequence, Instant now) {
  const Psn psn = psn_of(sequence);
  selective->judge.delivered(sequence, window.sent_at(psn, now), window.entry(psn).transmissions > 1, now);
}

void Requester::Impl::judge_sent(Instant now) {
  selective->judge_at.reset();
  for (Sequence at = std::max(cumulative, base); at < arrived_end; ++at) {
    const Psn psn = psn_of(at);
    const EntryState state = window.entry(psn).state;
    if (state == EntryState::kAcked || state == EntryState::kRetransmitPending) continue;
    const Message& message = message_of(at);
    if (message.answered() && message.request_received) continue;
    const auto verdict = selective->judge.judge(at, window.sent_at(psn, now), now);
    if (verdict.lost) {
      request_resend_range(at, at + 1, Counter::kRetransmittedAck, now);
    } else if (verdict.retry_at && (!selective->judge_at || *verdict.retry_at < *selective->judge_at)) {
      selective->judge_at = verdict.retry_at;
    }
  }
}

}  // namespace brdma::qp
