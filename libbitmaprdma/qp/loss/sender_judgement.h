// qp/loss/sender_judgement.h - private: losses that the sender judges by itself, in the modes that want it
// (sender_judge.h). RecoveryMode::kSelective, the baseline, judges from acknowledgements as TCP does; the wide-area
// modes (design WT-3 to WT-5) from delays: a packet that an acknowledgement shows missing at its base is sent at once,
// all others after T + delta (recovery/delay_judge.h). A receiver reports no packet of a segment before it has the
// segment's start: until then they do not count as lost.
#pragma once

#include <cstdint>
#include <optional>

#include "base/function_ref.h"
#include "base/units.h"
#include "qp/loss/scoreboard.h"
#include "qp/loss/sender_judge.h"
#include "qp/queues/message_table.h"
#include "qp/send/segments.h"
#include "qp/state/identity.h"
#include "trace/counters.h"
#include "wire/control.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class SenderJudgement {
 public:
  struct Parts {
    const Identity& id;
    const Scoreboard& scoreboard;
    const MessageTable& messages;
    Segments& segments;
    SenderJudge& judge;
  };
  explicit SenderJudgement(const Parts& parts) : parts_(parts) {}
  // Marks a packet for retransmission, for that reason.
  using Resend = FunctionRef<void(Sequence, Counter)>;

  // What is in flight when bitmap mode is agreed on was sent before anything could be learnt from it.
  void on_bitmap_agreed(Instant now) const;
  // Packet `sequence` is about to be acknowledged.
  void on_delivered(Sequence sequence, Instant now) const;
  // A request with responses has arrived, as an acknowledgement or a response shows. `sequence`: of its first response
  // that is missing.
  void on_request_arrived(Sequence sequence, Instant now) const;
  // An acknowledgement whose bits have been applied. `from`: its base.
  void on_acknowledgement(const wire::BitmapAck& ack, Sequence from, Instant now, Resend resend) const;

  // `silent_wait`: a probe's timeout. Returns how many waited too long. Nothing before SenderJudge::judged_at().
  std::uint32_t by_time(Duration silent_wait, Instant now, Resend resend) const;

 private:
  [[nodiscard]] const Message& message_of(Sequence sequence) const {
    return parts_.messages[parts_.messages.find(sequence)];
  }
  [[nodiscard]] recovery::DelayJudge::Limits limits(Duration silent_wait) const {
    return {.interval = parts_.id.recovery->wan.walk_interval, .silent_wait = silent_wait};
  }
  [[nodiscard]] bool waits_since(Sequence sequence, Instant sent, Instant now) const;
  [[nodiscard]] bool waits_for_start(Sequence sequence) const;
  void judge_started_late(recovery::DelayJudge& judge, Instant now, Resend resend) const;
  void judge_reported(Selective& selective, Instant now, Resend resend) const;
  void judge_base(recovery::DelayJudge& judge, const wire::BitmapAck& ack, Sequence from, Instant now,
                  Resend resend) const;
  std::uint32_t walk(recovery::DelayJudge& judge, Duration silent_wait, Instant now, Resend resend) const;

  Parts parts_;
};

// Packet `sequence` has left: for the first time, or again. `judge`: nullptr where the sender does not judge losses.
inline void judge_sent(SenderJudge* judge, const Identity& id, Sequence sequence, Instant now) {
  if (judge != nullptr && id.bitmap_agreed) [[unlikely]]
    judge->on_sent(sequence, now);
}

}  // namespace brdma::qp
