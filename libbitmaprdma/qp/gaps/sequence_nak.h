// qp/gaps/sequence_nak.h - private: the NAK that requests the packet at the base and all behind it. A standard peer
// understands nothing else.
#pragma once

#include <cstdint>

#include "base/psn.h"
#include "qp/receive/base_packet.h"
#include "qp/respond/responder_resources.h"
#include "wire/headers.h"

namespace brdma::qp {

// A view of the responder's parts, made where it is needed.
class SequenceNak {
 public:
  struct Parts {
    BasePacket& base_packet;
    ResponderResources& resources;
    Psn base;
    std::uint32_t msn;
    bool bitmap;  // the peer reads bitmap-mode packets
  };
  explicit SequenceNak(const Parts& parts) : parts_(parts) {}

  // IBTA 9.7.5.1.3: once, until the right PSN comes.
  void request() const {
    if (!parts_.base_packet.name()) return;
    Response nak;
    nak.bitmap = parts_.bitmap;
    nak.syndrome = wire::kSyndromeNakSequence;
    nak.psn = parts_.base;
    nak.msn = parts_.msn;
    if (!parts_.resources.has_nak(nak.psn)) parts_.resources.push(nak);
  }
  // What was sent again has been lost again.
  void request_again() const {
    parts_.base_packet.name_again();
    request();
  }
  // One for `psn` has not left yet.
  [[nodiscard]] bool is_waiting(Psn psn) const { return parts_.resources.has_nak(psn); }

 private:
  Parts parts_;
};

}  // namespace brdma::qp
