// qp/transmit/runs.h - private: new packets in runs. In steady state, with nothing missing and no recovery in progress,
// several may leave before the limits are compared again, and all of them are counted at once.
#pragma once

#include <cstdint>
#include <memory>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/loss/scoreboard.h"
#include "qp/loss/sender_judge.h"
#include "qp/paths/paths_send.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/transmit_batch.h"
#include "qp/queues/work_completer.h"
#include "qp/send/admission.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/timers/receiver_not_ready.h"
#include "qp/timers/retransmission_timers.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed. Inlined there, like the views that are made of it: one of
// them is asked for most packets.
class Runs {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const SendFault& fault;
    Scoreboard& scoreboard;
    const congestion::DelayWindow& congestion;  // of requests
    Admission& admission;
    RetransmissionTimers& timers;
    const ReceiverNotReady& rnr;
    const std::unique_ptr<SendPaths>& paths;    // null: there is one
    const std::unique_ptr<SenderJudge>& judge;  // null: the sender does not judge losses
  };
  [[gnu::always_inline]] explicit Runs(const Parts& parts) : parts_(parts) {}

  [[nodiscard, gnu::always_inline]] Environment& env() const { return parts_.env; }
  [[nodiscard, gnu::always_inline]] const Identity& id() const { return parts_.id; }
  [[nodiscard, gnu::always_inline]] Scoreboard& scoreboard() const { return parts_.scoreboard; }
  [[nodiscard, gnu::always_inline]] Admission& admission() const { return parts_.admission; }
  [[nodiscard, gnu::always_inline]] RetransmissionTimers& timers() const { return parts_.timers; }
  [[nodiscard, gnu::always_inline]] const ReceiverNotReady& rnr() const { return parts_.rnr; }
  [[nodiscard, gnu::always_inline]] SendLimits limits() const {
    return {parts_.env, parts_.id, parts_.scoreboard, parts_.congestion, parts_.admission};
  }

  // Packets may leave in runs.
  [[nodiscard, gnu::always_inline]] bool in_steady_state() const {
    return parts_.id.bitmap_agreed && !parts_.paths && !parts_.rnr.is_recovering() && !parts_.fault.is_set() &&
           parts_.judge == nullptr && !parts_.scoreboard.has_holes();
  }
  // A WRITE or SEND of one packet whose data is copied into the batch.
  [[nodiscard, gnu::always_inline]] bool is_small(const SendWqe& wqe) const {
    return (wqe.opcode == WorkOpcode::kRdmaWrite || wqe.opcode == WorkOpcode::kSend) && wqe.length <= kCopiedBytesMax &&
           wqe.length <= parts_.id.mtu() && (wqe.flags & kSendFence) == 0;
  }
  // No small one is a large command.
  [[nodiscard, gnu::always_inline]] bool small_is_not_large() const {
    const std::uint32_t threshold = parts_.env.config.transfer.threshold_bytes;
    return threshold == 0 || threshold > kCopiedBytesMax;
  }
  // They have left, for the first time.
  [[gnu::always_inline]] void count(const RunSize& used, std::uint8_t path, Instant now) const {
    const auto packets = static_cast<std::uint32_t>(used.packets);
    if (parts_.scoreboard.empty()) parts_.timers.on_flight_begun(now);
    parts_.scoreboard.sent_run(packets, used.bytes, path, now);
    parts_.admission.on_sent();
    parts_.timers.on_new_data();
    parts_.env.count(Counter::kSentDataPackets, packets);
  }

 private:
  Parts parts_;
};

}  // namespace brdma::qp
