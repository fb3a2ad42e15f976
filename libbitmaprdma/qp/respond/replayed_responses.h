// qp/respond/replayed_responses.h - private: duplicates of READs, atomics, ATOMIC WRITEs and FLUSHes. Their responses
// may be lost, so they are answered again. Nothing is executed again: a READ's data is read again, an atomic's result
// was kept, and the other two only confirm execution.
#pragma once

#include <cstdint>
#include <optional>

#include "base/psn.h"
#include "base/units.h"
#include "qp/acknowledge/acknowledgement_schedule.h"
#include "qp/paths/spray_responses.h"
#include "qp/respond/repeated_responses.h"
#include "qp/respond/responder_resources.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "trace/drop_reason.h"
#include "wire/packet.h"

namespace brdma::qp {

// To an ATOMIC WRITE or FLUSH, as one to a READ without data. `msn`: messages completed.
[[nodiscard]] inline Response confirmation_of(const wire::Packet& request, std::uint32_t msn) {
  Response response;
  response.kind = Response::Kind::kRead;
  response.bitmap = request.bitmap;
  response.psn = request.bth.psn;
  response.msn = msn;
  response.message = request.bxth.msn;
  return response;
}
[[nodiscard]] inline Response read_response_of(const wire::Packet& request, std::uint32_t msn) {
  Response response = confirmation_of(request, msn);
  response.by_reference = request.bxth.by_reference();
  response.rkey = request.reth.rkey;
  response.address = request.reth.address;
  response.bytes_left = request.reth.length;
  response.packet_index = request.bxth.packet_index;
  return response;
}

// A view of the responder's parts, made where it is needed.
class ReplayedResponses {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    ResponderResources& resources;
    AcknowledgementSchedule& ack;
    RepeatedResponses repeated;
    SprayedResponses sprayed;
    Psn base;  // of the receive window
    std::uint32_t mtu;
    std::uint32_t msn;
    bool bitmap;  // the peer reads bitmap-mode packets
  };
  explicit ReplayedResponses(const Parts& parts) : parts_(parts) {}

  // A duplicate that is marked as a retransmission, or standard. Nothing: its response is queued; else the reason why
  // it is dropped. Precondition: wire::is_answered().
  [[nodiscard]] std::optional<DropReason> answer(const wire::Packet& packet, Instant now) const;

 private:
  [[nodiscard]] std::optional<DropReason> read(const wire::Packet& packet, Instant now) const;
  [[nodiscard]] std::optional<DropReason> atomic(const wire::Packet& packet, Instant now) const;
  [[nodiscard]] std::optional<DropReason> confirmed(const wire::Packet& packet, Instant now) const;
  [[nodiscard]] std::optional<DropReason> queue(Response response, std::uint32_t packets, Instant now) const;

  Parts parts_;
};

}  // namespace brdma::qp
