// Losses judged by the sender. RecoveryMode::kSelective, the baseline: from acknowledgements, as TCP does. By delays:
// judge_delays.cc.
#include <algorithm>

#include "qp/send/requester_impl.h"

namespace brdma::qp {

using bitmap::EntryState;

// Records the send time before the entry is acknowledged.
void Requester::Impl::note_delivered(Sequence sequence, Instant now) {
  const Psn psn = psn_of(sequence);
  const Instant sent = window.sent_at(psn, now);
  const bool sent_again = window.entry(psn).transmissions > 1;
  if (recovery::DelayJudge* const delays = sender_judge->delays()) {
    delays->delivered(sent, sent_again, now);
  } else {
    sender_judge->selective()->judge.delivered(sequence, sent, sent_again, now);
  }
}

// Its bits have been applied already.
void Requester::Impl::judge_by_acknowledgement(const wire::BitmapAck& ack, Sequence from, Instant now) {
  if (recovery::DelayJudge* const delays = sender_judge->delays()) return on_delay_samples(*delays, ack, from, now);
  judge_sent(now);
}

std::optional<Instant> Requester::Impl::own_judgement_at() const {
  if (const recovery::DelayJudge* const delays = sender_judge->delays()) return delays->walk_at(delay_limits());
  return sender_judge->selective()->judge_at;
}

void Requester::Impl::judge_by_time(Instant now) {
  const auto due = own_judgement_at();
  if (!due || now < *due) return;
  if (recovery::DelayJudge* const delays = sender_judge->delays()) return walk_window(*delays, now);
  judge_sent(now);
}

void Requester::Impl::judge_sent(Instant now) {
  Selective& selective = *sender_judge->selective();
  selective.judge_at.reset();
  for (Sequence at = first_unreported(cumulative, arrived_end); at < arrived_end;
       at = first_unreported(at + 1, arrived_end)) {
    const Psn psn = psn_of(at);
    const EntryState state = window.entry(psn).state;
    if (state == EntryState::kAcked || state == EntryState::kRetransmitPending) continue;
    const Message& message = message_of(at);
    if (message.answered() && message.request_received) continue;
    const auto verdict = selective.judge.judge(at, window.sent_at(psn, now), now, window.entry(psn).transmissions > 1);
    if (verdict.lost) {
      request_resend_range(at, at + 1, Counter::kRetransmittedAck, now);
    } else if (verdict.retry_at && (!selective.judge_at || *verdict.retry_at < *selective.judge_at)) {
      selective.judge_at = verdict.retry_at;
    }
  }
}

}  // namespace brdma::qp
