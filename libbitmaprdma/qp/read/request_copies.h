// qp/read/request_copies.h - private: on a path that loses, a READ request leaves a second time with the next one.
// READs are executed in order: all requests behind a lost one wait for it, while nothing is in flight. A copy costs 78
// bytes, a wait the data of a round trip. A responder that has the request drops the copy (docs/reference/wire.md).
#pragma once

#include "base/units.h"
#include "qp/loss/scoreboard.h"
#include "qp/paths/paths_send.h"
#include "qp/queues/message_table.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/transmit_batch.h"
#include "qp/read/response_admission.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class RequestCopies {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const SendQueue& queue;
    MessageTable& messages;
    const Scoreboard& scoreboard;
    ResponseAdmission& responses;
    SendPaths* paths;  // nullptr: there is one
  };
  explicit RequestCopies(const Parts& parts) : parts_(parts) {}

  // Copies the READ before `next`, another READ request that is about to leave; each once. False: the copy does not fit
  // into the batch, or `next` no more.
  bool copy_last(const wire::Packet& next, TransmitBatch& batch, Instant now) const;

 private:
  // The READ that is to be copied; nullptr: none.
  [[nodiscard]] Message* last() const;

  Parts parts_;
};

}  // namespace brdma::qp
