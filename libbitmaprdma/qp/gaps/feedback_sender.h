// qp/gaps/feedback_sender.h - private: the message that names lost gaps among requests to a peer in bitmap mode (spec
// 1: FFM).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/units.h"
#include "bitmap/receive_window.h"
#include "qp/acknowledge/acknowledgement_schedule.h"
#include "qp/gaps/gap_feedback.h"
#include "qp/gaps/out_of_order.h"
#include "qp/queues/transmit_batch.h"
#include "qp/receive/base_packet.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"

namespace brdma::qp {

// A view of the responder's parts, made where it is needed.
class FeedbackSender {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    const bitmap::ReceiveWindow& window;
    OutOfOrderState& out_of_order;
    GapFeedback& feedback;
    const BasePacket& base_packet;
    AcknowledgementLoss& ack_loss;
    std::uint32_t mtu;
  };
  explicit FeedbackSender(const Parts& parts) : parts_(parts) {}

  enum class Sent : std::uint8_t {
    kNothing,  // there is nothing to name, the base was refused, or it does not fit into this batch
    kPart,     // a full message; another one follows
    kAll,      // then all gaps are to be judged again
  };
  // Precondition: it is due.
  Sent poll(TransmitBatch& batch, Instant now) const;

 private:
  // As many as fit into a message, by PSN.
  struct Chosen {
    std::span<bitmap::GapRecord*> gaps;
    std::optional<Psn> rest{};  // another is due: the next message begins there
  };
  [[nodiscard]] Chosen choose(std::span<bitmap::GapRecord*> room, Instant now) const;
  [[nodiscard]] bool is_due(const bitmap::GapRecord& gap, Instant now) const;
  void add(std::span<bitmap::GapRecord* const> gaps, TransmitBatch& batch, Instant now) const;
  bool note_named(std::span<bitmap::GapRecord* const> gaps, Instant now) const;

  Parts parts_;
};

}  // namespace brdma::qp
