// qp/receive/early_room.h - private: room for packets that come early. The state for missing packets begins with the
// first of them, and ends when all is in order again.
#pragma once

#include <cstdint>

#include "bitmap/receive_window.h"
#include "qp/execute/request_checks.h"
#include "qp/gaps/out_of_order.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the responder's parts, made where it is needed.
class EarlyRoom {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    const bitmap::ReceiveWindow& window;
    PooledOutOfOrder& out_of_order;
    std::uint32_t mtu;
  };
  explicit EarlyRoom(const Parts& parts) : parts_(parts) {}

  void begin() const {
    if (parts_.out_of_order) return;
    const RecoveryConfig& recovery = *parts_.identity.recovery;
    parts_.out_of_order.take(parts_.env.pools.out_of_order_states)
        .begin(recovery, window_shape(recovery), parts_.mtu, parts_.env.pools.segments);
  }
  void end() const { parts_.out_of_order.end(parts_.env.pools.out_of_order_states); }
  void end_if_in_order() const {
    if (parts_.window.empty()) end();
  }
  // The receiving half has half of the allowed state; the sending half has the other.
  [[nodiscard]] bool is_full() const {
    return parts_.window.allocated_bytes() + parts_.out_of_order.records_bytes() >
           parts_.identity.recovery->state_bytes_max / 2;
  }
  // There is a record for its run of PSNs, where a bit stands for several (granularity).
  [[nodiscard]] bool has_record(const wire::Packet& packet) const {
    const bool room = parts_.window.can_receive(packet.bth.psn, psns_of(packet, parts_.mtu));
    if (!room) parts_.env.count(Counter::kRunsRefused);
    return room;
  }

 private:
  Parts parts_;
};

}  // namespace brdma::qp
