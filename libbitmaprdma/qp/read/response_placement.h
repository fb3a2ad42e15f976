// qp/read/response_placement.h - private: the data of a READ response, or the result of an atomic, to the memory that
// its work request names. A response that does not fit its request is dropped; memory that is gone is a fault of the
// work request.
#pragma once

#include "qp/queues/message_table.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/work_completer.h"
#include "qp/send/local_references.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class ResponsePlacement {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const SendQueue& queue;
    SendFault& fault;
    LocalReferences references;
  };
  explicit ResponsePlacement(const Parts& parts) : parts_(parts) {}

  // Is it a response to such a message at all?
  [[nodiscard]] static bool answers(const wire::Packet& packet, const Message& message);
  // Precondition: answers(). False: it is dropped, and counted.
  bool place(const wire::Packet& packet, Sequence sequence, const Message& message) const;

 private:
  bool place_data(const wire::Packet& packet, Sequence sequence, const Message& message) const;
  bool store(const Message& message, std::uint32_t offset, ConstBytes data) const;

  Parts parts_;
};

}  // namespace brdma::qp
