// qp/respond/response_sender.h - private: responses in progress leave: READ responses, results of atomics, NAKs, in the
// order of their requests. A READ's data is read from the application's memory when its packet is made, and its key is
// looked up then: the region may be gone since the request came. Then a NAK replaces the rest of the responses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/function_ref.h"
#include "base/psn.h"
#include "base/units.h"
#include "qp/paths/response_paths.h"
#include "qp/queues/transmit_batch.h"
#include "qp/respond/responder_resources.h"
#include "qp/respond/response_log.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the responder's parts, made once a batch.
class ResponseSender {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    ResponderResources& resources;
    ResponsePaths* paths;  // null: there is one
    ResponseLog* log;      // null: nothing is logged yet
    std::unique_ptr<Response>& refusal;
    bool& halted;        // a fatal NAK was made
    bool& read_refused;  // for the queue pair, which asks later
    Psn base;            // of the receive window
    std::uint32_t mtu;
  };
  explicit ResponseSender(const Parts& parts) : parts_(parts) {}

  // Adds an acknowledgement with this syndrome, in bitmap mode or standard. False: it does not fit into the batch.
  using SendNak = FunctionRef<bool(const wire::Aeth& aeth, Psn psn, bool bitmap)>;
  // All that fit into the batch, or (if not `naks`) those before the first NAK. True: something was added.
  bool poll(TransmitBatch& batch, bool naks, SendNak send, Instant now) const;

 private:
  enum class Sending : std::uint8_t {
    kFull,   // does not fit into this batch
    kMore,   // something was added, or changed: check the front again
    kDone,   // the response has left
    kStale,  // the response is not needed any more
  };
  Sending send_response(Response& response, TransmitBatch& batch, SendNak send, Instant now) const;
  Sending send_by_reference(const Response& response, TransmitBatch& batch, Instant now) const;
  Sending send_read_packet(Response& response, TransmitBatch& batch, Instant now) const;
  Sending send_atomic_response(const Response& response, TransmitBatch& batch, Instant now) const;
  Sending send_nak(const Response& response, SendNak send, TransmitBatch& batch, Instant now) const;
  Sending send_nak_of_read(const Response& response, TransmitBatch& batch, Instant now) const;
  [[nodiscard]] Sending read_failed(const Response& response) const;
  void refuse_read(const Response& response) const;
  [[nodiscard]] wire::Packet packet_of(const Response& response, wire::RcOp op, Instant now) const;
  void fill_path_fields(wire::Packet& packet, const Response& response, const TransmitBatch& batch) const;
  void note_left(const wire::Packet& packet, const Response& response, std::size_t bytes, Instant now) const;
  void trace(const wire::Packet& packet, const Response& response, std::size_t bytes, Instant now) const;
  // serve_read_middle.cc
  [[nodiscard]] std::uint32_t middle_left(const Response& response) const;
  bool send_middle(Response& response, TransmitBatch& batch, Instant now) const;

  Parts parts_;
};

}  // namespace brdma::qp
