// qp/send/ack_requests.h - private: which packet of a WRITE or SEND asks for an acknowledgement? The last of all posted
// requests, and one periodically before: earlier packets are acknowledged with later ones. A standard peer, which may
// take long to see the later ones, is asked at each end that the application waits for.
#pragma once

#include <cstdint>

#include "qp/queues/message_table.h"
#include "qp/queues/send_queue.h"
#include "qp/send/admission.h"
#include "qp/state/identity.h"
#include "qp/timers/receiver_not_ready.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class AckRequests {
 public:
  struct Parts {
    const Identity& id;
    const SendQueue& queue;
    const ReceiverNotReady& rnr;
    SendLimits limits;
    Admission& admission;
  };
  explicit AckRequests(const Parts& parts) : parts_(parts) {}

  // A packet of `message`, the `last` of it or not, is about to be added to a batch. Does it ask? Counts it. `must`: it
  // does in any case.
  [[nodiscard]] bool next_asks(const Message& message, bool last, bool must = false) const {
    const bool waited_for = parts_.id.signal_all || (parts_.queue[message.wqe].flags & kSendSignaled) != 0;
    const bool pressing = parts_.queue.nothing_behind() || (waited_for && !parts_.id.bitmap_agreed);
    const bool asks = must || (last && pressing) || parts_.rnr.ends_with(parts_.limits.scoreboard.next()) ||
                      parts_.limits.next_asks(interval(message), 0);
    parts_.admission.on_added(1, asks);
    return asks;
  }

 private:
  [[nodiscard]] std::uint32_t interval(const Message& message) const {
    return message.by_reference != 0 ? SendLimits::request_interval_by_reference() : parts_.limits.request_interval();
  }

  Parts parts_;
};

}  // namespace brdma::qp
