// Losses judged by the sender. RecoveryMode::kSelective, the baseline: from acknowledgements, as TCP does. By delays:
// judge_delays.cc.
#include <algorithm>

#include "qp/send/requester_impl.h"

namespace brdma::qp {

using bitmap::EntryState;

// Records the send time before the entry is acknowledged.
void Requester::Impl::note_delivered(Sequence sequence, Instant now) {
  const Instant sent = scoreboard.sent_at(sequence, now);
  const bool sent_again = scoreboard.entry(sequence).transmissions > 1;
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
  for (Sequence at = scoreboard.first_unreported(scoreboard.cumulative(), scoreboard.arrived_end());
       at < scoreboard.arrived_end(); at = scoreboard.first_unreported(at + 1, scoreboard.arrived_end())) {
    const EntryState state = scoreboard.state(at);
    if (state == EntryState::kAcked || state == EntryState::kRetransmitPending) continue;
    const Message& message = message_of(at);
    if (message.answered() && message.request_received) continue;
    const auto verdict =
        selective.judge.judge(at, scoreboard.sent_at(at, now), now, scoreboard.entry(at).transmissions > 1);
    if (verdict.lost) {
      request_resend_range(at, at + 1, Counter::kRetransmittedAck, now);
    } else if (verdict.retry_at && (!selective.judge_at || *verdict.retry_at < *selective.judge_at)) {
      selective.judge_at = verdict.retry_at;
    }
  }
}

}  // namespace brdma::qp
