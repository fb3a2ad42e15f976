// qp/send/local_operation.h - private: local work requests. A memory window is bound or invalidated, in order. All
// earlier posts have begun by then (and with a fence, our READs and atomics are answered); no later one begins earlier.
// So a SEND that passes a window to the peer finds it bound. It completes after all earlier posts.
#pragma once

#include "base/units.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/work_completer.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class LocalOperations {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    SendQueue& queue;
    SendFault& fault;
  };
  explicit LocalOperations(const Parts& parts) : parts_(parts) {}

  // Precondition: the one at queue.next() is local, and may begin. False: it failed, nothing continues behind it.
  bool execute(Instant now) const;

 private:
  Parts parts_;
};

}  // namespace brdma::qp
