// qp/execute/xrc_target.h - private: an XRC target takes the receives of the shared queue that a request names (IBTA
// annex A14). Its completions go to that queue's completion queue, and keys are those of that queue's protection
// domain.
//
// A target serves shared queues of one protection domain, that of the first one named since RESET: responses that are
// still to leave, and early packets, are of that domain.
#pragma once

#include "qp/queues/receive_queue.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"

namespace brdma::qp {

class XrcTarget {
 public:
  struct Parts {
    Environment& env;
    Identity& identity;
    ReceiveQueue& receives;
  };
  explicit XrcTarget(const Parts& parts) : parts_(parts) {}

  // False: no such queue in its domain, one of another protection domain, or another one in the midst of a message.
  [[nodiscard]] bool select(const wire::Packet& packet) const;
  // RESET, or the queue is destroyed: its receives go back.
  void forget() const;

 private:
  Parts parts_;
};

}  // namespace brdma::qp
