// qp/execute/used_receives.h - private: receives complete: filled by a message, at fault, or flushed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "qp/execute/received_messages.h"
#include "qp/queues/receive_queue.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the responder's parts, made where it is needed.
class UsedReceives {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    ReceiveQueue& receives;
    ReceivedMessages& messages;
  };
  explicit UsedReceives(const Parts& parts) : parts_(parts) {}

  // The oldest one. `packet`: the last of its message, or the one at fault; then the message is not in progress any
  // more. `outcome`: to error where the completion queue is overrun.
  void complete(const wire::Packet& packet, CompletionStatus status, std::uint32_t bytes, Outcome& outcome,
                Instant now) const;
  // The queue pair ends. Of a shared queue's receives, the one that a message has begun to fill is used up; the others
  // go back.
  void flush(Instant now) const;

 private:
  Parts parts_;
};

}  // namespace brdma::qp
