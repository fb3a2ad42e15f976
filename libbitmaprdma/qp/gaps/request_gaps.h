// qp/gaps/request_gaps.h - private: gaps among requests: recorded, judged, closed (design BR-9 to BR-20). The rules
// for gaps are the receiver's (gap_receiver.h). A peer in bitmap mode gets an FFM with all lost ones (gap_feedback.h).
// A standard peer can only get a sequence NAK to go back to the base, so only the gap at the base is judged, and only
// once a round of go-back-N.
#pragma once

#include <cstdint>
#include <optional>

#include "base/function_ref.h"
#include "base/units.h"
#include "bitmap/gap_table.h"
#include "bitmap/receive_window.h"
#include "qp/acknowledge/acknowledgement_schedule.h"
#include "qp/gaps/gap_feedback.h"
#include "qp/gaps/gap_receiver.h"
#include "qp/gaps/gap_tolerance.h"
#include "qp/gaps/out_of_order.h"
#include "qp/gaps/sequence_nak.h"
#include "qp/receive/base_packet.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the responder's parts, made where it is needed, while packets are missing.
class RequestGaps {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    bitmap::ReceiveWindow& window;
    OutOfOrderState& out_of_order;
    GapTolerance& tolerance;
    GapFeedback& feedback;
    const BasePacket& base_packet;
    AcknowledgementSchedule& ack;
    SequenceNak nak;
    std::uint32_t mtu;
    bool bitmap;  // the peer reads bitmap-mode packets
  };
  explicit RequestGaps(const Parts& parts) : parts_(parts) {}

  // --- packets. `seen`: all arrivals up to then are known; now, for a timer ---
  // `packet` has been marked as received, and lies beyond the base. `base_due`: when the packet at the base should have
  // come, where that is known: within a message it follows the one before it. Between messages there may have been
  // nothing to send.
  void on_early(const wire::Packet& packet, Psn previous_highest, std::optional<Instant> base_due, Instant now) const;
  // A standard peer's packet beyond the base came once more.
  void on_copy(Instant now) const;
  // The packet at the base was executed; the base has not moved yet. True: its gap is closed.
  [[nodiscard]] bool fill_base(const wire::Packet& packet, Instant now) const;
  // The packet at the base is here and waits for a receive: it is neither missing nor late.
  void on_base_held(const wire::Packet& packet, Instant now) const;
  // The base has moved, and early packets are still waiting, or the last of them was just executed.
  void on_advance(Instant now, Instant seen) const;

  // --- time ---
  void on_time(Instant now) const;
  // Judges every waiting gap and finds the next event: a deadline, a depth, an FFM to repeat. Few gaps wait: at most as
  // many as can open within the tolerance. Precondition: bitmap mode.
  void judge_all(Instant now, Instant seen) const;

  // --- management ---
  // The limits have changed.
  void judge_again(Instant now) const;
  // The gaps with `psn` missing in them (nothing: all) count as lost, and are named now. `named`: each of them. A
  // standard peer can only be sent back to the base.
  void request_by_hand(std::optional<Psn> psn, Instant now, FunctionRef<void(const bitmap::GapRecord&)> named) const;
  // Since when the base stands because of `gap`, an open one.
  [[nodiscard]] std::optional<Instant> stalls_since(const bitmap::GapRecord& gap) const {
    return rules().stalls_since(gap);
  }

 private:
  [[nodiscard]] Psn base() const { return parts_.window.base(); }
  [[nodiscard]] const RecoveryConfig& recovery() const { return *parts_.identity.recovery; }
  [[nodiscard]] recovery::GapLimits limits() const { return parts_.tolerance.limits(recovery()); }
  [[nodiscard]] GapReceiver rules() const;
  void open(const wire::Packet& packet, Psn before, std::optional<Instant> base_due, Instant seen, Instant now) const;
  bool fill(const wire::Packet& packet, Instant now) const;
  void refill(Instant seen) const;
  [[nodiscard]] LateArrival late_arrival(const wire::Packet& packet, Psn psn, Instant seen) const;
  [[nodiscard]] bool is_sent_again(const wire::Packet& packet, Psn psn) const;
  [[nodiscard]] bool count_later_packet() const;
  void look_for_path_evidence(const wire::Packet& packet, Instant now) const;
  bool note_arrival(Instant seen) const;
  [[nodiscard]] bool is_first_at_base() const;
  void judge_base(Instant now, Instant seen) const;
  [[nodiscard]] recovery::GapVerdict judge(const bitmap::GapRecord& gap, Instant seen) const;
  void promote(bitmap::GapRecord& gap, recovery::LossCause cause, Instant now) const;
  void go_back() const;

  Parts parts_;
};

}  // namespace brdma::qp
