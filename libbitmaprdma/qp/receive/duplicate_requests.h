// qp/receive/duplicate_requests.h - private: requests that have come before. None is executed again. One that was
// executed is acknowledged, or answered (respond/replayed_responses.h), unless it is a copy that the sender made on
// purpose, or the original behind its copy.
#pragma once

#include <optional>

#include "base/function_ref.h"
#include "base/psn.h"
#include "base/units.h"
#include "bitmap/receive_window.h"
#include "qp/acknowledge/acknowledgement_schedule.h"
#include "qp/acknowledge/packet_echo.h"
#include "qp/gaps/gap_feedback.h"
#include "qp/gaps/gap_tolerance.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "trace/drop_reason.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the responder's parts, made where it is needed.
class DuplicateRequests {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    const bitmap::ReceiveWindow& window;
    GapTolerance& tolerance;
    GapFeedback& feedback;
    Acknowledgements& acknowledgements;
    AcknowledgementLoss& ack_loss;
  };
  explicit DuplicateRequests(const Parts& parts) : parts_(parts) {}

  // Of a packet before the base. `answer`: a READ, an atomic or the like is answered again; nothing, or why not.
  // Nothing: it is answered; else the reason why it is dropped.
  using Answer = FunctionRef<std::optional<DropReason>(const wire::Packet&)>;
  [[nodiscard]] std::optional<DropReason> on_executed(const wire::Packet& packet, Answer answer, Instant now) const;
  // Of a packet that is kept beyond the base. `bitmap`: the peer reads bitmap-mode packets; a standard one's
  // acknowledgement could not report it.
  void on_early(const wire::Packet& packet, bool bitmap, Instant now) const;

 private:
  void note(const wire::Packet& packet, Instant now) const;
  void keep_echo(const wire::Packet& packet) const {
    PacketEcho{{parts_.env, parts_.identity, parts_.acknowledgements}}.on_copy(packet);
  }

  Parts parts_;
};

}  // namespace brdma::qp
