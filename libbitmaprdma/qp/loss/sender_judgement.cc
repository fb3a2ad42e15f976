#include "qp/loss/sender_judgement.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace brdma::qp {

using bitmap::EntryState;

// Records the send time before the entry is acknowledged.
void SenderJudgement::on_delivered(Sequence sequence, Instant now) const {
  const Instant sent = parts_.scoreboard.sent_at(sequence, now);
  const bool sent_again = parts_.scoreboard.entry(sequence).transmissions > 1;
  if (recovery::DelayJudge* const delays = parts_.judge.delays()) {
    delays->delivered(sent, sent_again, now);
  } else if (!message_of(sequence).answered()) {
    parts_.judge.selective()->judge.delivered(sequence, sent, sent_again, now);
  }
}

// Of packets sent, the request is one; its responses take the return path, and their order shows nothing of this one.
void SenderJudgement::on_request_arrived(Sequence sequence, Instant now) const {
  if (parts_.judge.selective() == nullptr) return;
  const Scoreboard& board = parts_.scoreboard;
  parts_.judge.selective()->judge.delivered(sequence, board.sent_at(sequence, now),
                                            board.entry(sequence).transmissions > 1, now);
}

void SenderJudgement::on_acknowledgement(const wire::BitmapAck& ack, Sequence from, Instant now, Resend resend) const {
  if (recovery::DelayJudge* const delays = parts_.judge.delays()) {
    judge_base(*delays, ack, from, now, resend);
    return judge_started_late(*delays, now, resend);
  }
  judge_reported(*parts_.judge.selective(), now, resend);
}

std::uint32_t SenderJudgement::by_time(Duration silent_wait, Instant now, Resend resend) const {
  const auto due = parts_.judge.judged_at(parts_.id.recovery->wan.walk_interval, silent_wait);
  if (!due || now < *due) return 0;
  if (recovery::DelayJudge* const delays = parts_.judge.delays()) return walk(*delays, silent_wait, now, resend);
  judge_reported(*parts_.judge.selective(), now, resend);
  return 0;
}

void SenderJudgement::judge_reported(Selective& selective, Instant now, Resend resend) const {
  const Scoreboard& board = parts_.scoreboard;
  selective.judge_at.reset();
  for (Sequence at = board.first_unreported(board.cumulative(), board.arrived_end()); at < board.arrived_end();
       at = board.first_unreported(at + 1, board.arrived_end())) {
    const EntryState state = board.state(at);
    if (state == EntryState::kAcked || state == EntryState::kRetransmitPending) continue;
    const Message& message = message_of(at);
    if (message.answered() && message.request_received) continue;
    if (waits_for_start(at)) continue;
    const auto verdict = selective.judge.judge(at, board.sent_at(at, now), now, board.entry(at).transmissions > 1);
    if (verdict.lost) {
      resend(at, Counter::kRetransmittedAck);
    } else if (verdict.retry_at && (!selective.judge_at || *verdict.retry_at < *selective.judge_at)) {
      selective.judge_at = verdict.retry_at;
    }
  }
}

// Does that transmission of the packet still wait for its acknowledgement? A READ request does until its first response
// or an acknowledgement; missing responses are judged elsewhere.
bool SenderJudgement::waits_since(Sequence sequence, Instant sent, Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  board.look_at(1);
  if (sequence < board.base() || sequence >= board.next()) return false;
  const EntryState state = board.state(sequence);
  if (state == EntryState::kAcked || state == EntryState::kRetransmitPending) return false;
  if (board.sent_at(sequence, now).ns() >> 6 != sent.ns() >> 6) return false;  // entries have a resolution of 64 ns
  const Message& message = message_of(sequence);
  return !message.answered() || !message.request_received;
}

// The start of its segment is missing as well.
bool SenderJudgement::waits_for_start(Sequence sequence) const {
  const Message& message = message_of(sequence);
  if (message.segment_packets == 0) return false;
  const Sequence start = Segments::start_of(message, sequence);
  return start != sequence && start >= parts_.scoreboard.base() && !parts_.scoreboard.is_acked(start);
}

// Design WT-3. A receiver that judges too distinguishes reordering from loss: its feedback requests the packet then.
void SenderJudgement::judge_base(recovery::DelayJudge& judge, const wire::BitmapAck& ack, Sequence from, Instant now,
                                 Resend resend) const {
  judge.on_echo(ack.echo_valid ? std::optional{std::min(wire::instant_of(ack.ts_echo, now), now)} : std::nullopt);
  judge.trim([&](Sequence sequence, Instant sent) { return waits_since(sequence, sent, now); });
  if (parts_.id.recovery->mode != RecoveryMode::kWan || distance(ack.highest, ack.base) <= 0) return;
  const auto wait = judge.wait();
  const Instant sent = parts_.scoreboard.sent_at(from, now);
  if (!waits_since(from, sent, now)) return;
  // Once in T + delta: until then the retransmission may be in flight.
  if (parts_.scoreboard.entry(from).transmissions > 1 && (!wait || now - sent < *wait)) return;
  resend(from, Counter::kRetransmittedExpected);
}

// Steps 4 and 5. Nothing looks at the window as a whole.
std::uint32_t SenderJudgement::walk(recovery::DelayJudge& judge, Duration silent_wait, Instant now,
                                    Resend resend) const {
  const auto waits = [&](Sequence sequence, Instant sent) { return waits_since(sequence, sent, now); };
  judge.trim(waits);
  std::uint32_t timed_out = 0;
  judge.walk(limits(silent_wait), now, waits, [&](Sequence sequence) {
    if (waits_for_start(sequence)) return;  // judge_started_late()
    resend(sequence, Counter::kRetransmittedWait);
    ++timed_out;
  });
  return timed_out;
}

// With the start the receiver has reported all that waited for it: what has waited for T + delta, and is still missing,
// is lost.
void SenderJudgement::judge_started_late(recovery::DelayJudge& judge, Instant now, Resend resend) const {
  const Scoreboard& board = parts_.scoreboard;
  const auto wait = judge.wait();
  if (!wait) return;
  parts_.segments.take_started_late([&](const registry::SentOperation& segment) {
    const Sequence end = std::min(segment.end(), board.next());
    for (Sequence at = std::max(segment.first, board.base()); at < end; ++at) {
      const Instant sent = board.sent_at(at, now);
      if (waits_since(at, sent, now) && now - sent >= *wait) resend(at, Counter::kRetransmittedWait);
    }
  });
}

// Packets that left before wait for their acknowledgement as well, and were not logged: a standard peer has timeouts.
void SenderJudgement::on_bitmap_agreed(Instant now) const {
  recovery::DelayJudge* const judge = parts_.judge.delays();
  if (judge == nullptr) return;
  std::vector<std::pair<Instant, Sequence>> under_way;
  for (Sequence at = parts_.scoreboard.base(); at < parts_.scoreboard.next(); ++at) {
    const Instant sent = parts_.scoreboard.sent_at(at, now);
    if (message_of(at).answered() && at != message_of(at).first) continue;  // its request
    if (waits_since(at, sent, now)) under_way.emplace_back(sent, at);
  }
  std::sort(under_way.begin(), under_way.end());
  for (const auto& [sent, sequence] : under_way) judge->sent(sequence, sent);
}

}  // namespace brdma::qp
