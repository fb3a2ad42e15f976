// Wide-area retransmission (spec 3): a packet that an acknowledgement shows missing at its base is sent at once, all
// others after T + delta (recovery/delay_judge.h). Nothing here looks at the window as a whole.
#include <algorithm>
#include <utility>
#include <vector>

#include "qp/send/requester_impl.h"

namespace brdma::qp {

using bitmap::EntryState;

// Does that transmission of the packet still wait for its acknowledgement? A READ request does until its first response
// or an acknowledgement; missing responses are judged elsewhere.
bool Requester::Impl::waits_since(Sequence sequence, Instant sent, Instant now) {
  scoreboard.look_at(1);
  if (sequence < scoreboard.base() || sequence >= scoreboard.next()) return false;
  const EntryState state = scoreboard.state(sequence);
  if (state == EntryState::kAcked || state == EntryState::kRetransmitPending) return false;
  if (scoreboard.sent_at(sequence, now).ns() >> 6 != sent.ns() >> 6)
    return false;  // entries have a resolution of 64 ns
  const Message& message = message_of(sequence);
  return !message.answered() || !message.request_received;
}

recovery::DelayJudge::Limits Requester::Impl::delay_limits() const {
  return {.interval = id.recovery->wan.walk_interval, .silent_wait = probe_timeout()};
}

// Spec 3, step 3. A receiver that judges too distinguishes reordering from loss: its feedback requests the packet then.
void Requester::Impl::on_delay_samples(recovery::DelayJudge& judge, const wire::BitmapAck& ack, Sequence from,
                                       Instant now) {
  judge.on_echo(ack.echo_valid ? std::optional{std::min(wire::instant_of(ack.ts_echo, now), now)} : std::nullopt);
  judge.trim([&](Sequence sequence, Instant sent) { return waits_since(sequence, sent, now); });
  if (id.recovery->mode != RecoveryMode::kWan || distance(ack.highest, ack.base) <= 0) return;
  const auto wait = judge.wait();
  const Instant sent = scoreboard.sent_at(from, now);
  if (!waits_since(from, sent, now)) return;
  // Once in T + delta: until then the retransmission may be in flight.
  if (scoreboard.entry(from).transmissions > 1 && (!wait || now - sent < *wait)) return;
  request_resend_range(from, from + 1, Counter::kRetransmittedExpected, now);
}

// Packets that left before wait for their acknowledgement as well, and were not logged: a standard peer has timeouts.
void Requester::Impl::log_what_is_under_way(recovery::DelayJudge& judge, Instant now) {
  std::vector<std::pair<Instant, Sequence>> under_way;
  for (Sequence at = scoreboard.base(); at < scoreboard.next(); ++at) {
    const Instant sent = scoreboard.sent_at(at, now);
    if (message_of(at).answered() && at != message_of(at).first) continue;  // its request
    if (waits_since(at, sent, now)) under_way.emplace_back(sent, at);
  }
  std::sort(under_way.begin(), under_way.end());
  for (const auto& [sent, sequence] : under_way) judge.sent(sequence, sent);
}

// Steps 4 and 5.
void Requester::Impl::walk_window(recovery::DelayJudge& judge, Instant now) {
  const auto waits = [&](Sequence sequence, Instant sent) { return waits_since(sequence, sent, now); };
  judge.trim(waits);
  std::uint32_t timed_out = 0;
  judge.walk(delay_limits(), now, waits, [&](Sequence sequence) {
    request_resend_range(sequence, sequence + 1, Counter::kRetransmittedWait, now);
    ++timed_out;
  });
  note_timed_out(timed_out, now);
}

void Requester::bitmap_agreed(Instant now) {
  if (impl_ == nullptr) return;  // UC, UD
  if (recovery::DelayJudge* const judge = impl_->delay_judge()) impl_->log_what_is_under_way(*judge, now);
}

}  // namespace brdma::qp
