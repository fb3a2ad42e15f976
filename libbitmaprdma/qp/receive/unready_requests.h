// qp/receive/unready_requests.h - private: a request at the base that finds no receive, or no room for its response
// (IBTA 9.7.5.2.8: receiver not ready). One that takes a receive is held for a while: a program may be about to post
// one. Then an RNR NAK leaves, and again for each packet that is sent again behind it. base_packet.h has the state.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "bitmap/receive_window.h"
#include "qp/gaps/out_of_order.h"
#include "qp/receive/base_packet.h"
#include "qp/receive/early_room.h"
#include "qp/respond/responder_resources.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the responder's parts, made where it is needed.
class UnreadyRequests {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    bitmap::ReceiveWindow& window;
    PooledOutOfOrder& out_of_order;
    BasePacket& base_packet;
    ResponderResources& resources;
    std::uint32_t mtu;
    std::uint32_t msn;  // messages completed
    bool bitmap;        // the peer reads bitmap-mode packets
  };
  explicit UnreadyRequests(const Parts& parts) : parts_(parts) {}

  // It has just come. True: it is held until there is a receive, or the RNR NAK is due. Else it is dropped, and the RNR
  // NAK is due now (refuse()).
  [[nodiscard]] bool keep(const wire::Packet& packet, Instant now) const;
  // It is held already.
  void wait(const wire::Packet& packet, Instant now) const;
  void refuse(const wire::Packet& packet) const;
  // `behind` came after the RNR NAK. The one that waits was acknowledged as received: it will not come again. If the
  // NAK was lost, the sender only sees silence about later packets, and would reach its retry limit.
  void repeat(const wire::Packet& behind) const;
  // It may have waited long enough. Precondition: out_of_order.
  void on_time(Instant now) const;

 private:
  [[nodiscard]] Duration hold() const;  // how long one waits
  void refuse_held() const;

  Parts parts_;
};

}  // namespace brdma::qp
