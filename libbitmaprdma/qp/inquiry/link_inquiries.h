// qp/inquiry/link_inquiries.h - private: packets that waited too long, and the inquiry about the path's links that they
// cause (design WT-6 to WT-9; recovery/link_inquiry.h).
#pragma once

#include <cstdint>
#include <memory>

#include "base/units.h"
#include "qp/queues/transmit_batch.h"
#include "qp/send/congestion_state.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/link_state.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class LinkInquiries {
 public:
  LinkInquiries(Environment& env, const Identity& id, std::unique_ptr<CongestionState>& signals)
      : env_(env), id_(id), signals_(signals) {}

  [[nodiscard]] bool is_due(Instant now) const;
  // Adds an inquiry; its replies come within `replies`. Precondition: is_due(). True: it was added.
  bool poll(TransmitBatch& batch, Duration replies, Instant now) const;
  void on_feedback(const wire::LinkStateFeedback& feedback) const;
  // So many packets have waited too long (for T + delta, for the retransmission timer, or longer than a stall), or
  // would have: a switch has reported them as dropped.
  void on_timed_out(std::uint32_t packets, Instant now) const;
  // Once the time for replies is over, with few congested links: a report to the controller, which may change routes.
  void conclude(Instant now) const;

 private:
  Environment& env_;
  const Identity& id_;
  std::unique_ptr<CongestionState>& signals_;
};

}  // namespace brdma::qp
