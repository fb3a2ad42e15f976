// qp/unreliable/unreliable.h - a UC or UD queue pair's replacement for Requester and Responder: two halves that share
// nothing. Standard packets only: without acknowledgements bitmap mode has nothing to recover.
#pragma once

#include "qp/state/memory_use.h"
#include "qp/unreliable/unreliable_receive.h"
#include "qp/unreliable/unreliable_send.h"

namespace brdma::qp {

struct Unreliable {
  Unreliable(Environment& environment, const Identity& identity)
      : sender(environment, identity), receiver(environment, identity) {}

  void reset() {
    sender.reset();
    receiver.reset();
  }
  void flush(Instant now) {
    sender.flush(now);
    receiver.flush(now);
  }
  [[nodiscard]] MemoryUse memory() const {
    const std::size_t queues = sender.allocated_bytes() + receiver.allocated_bytes();
    return {.transport = sizeof *this, .queues = queues};
  }

  UnreliableSender sender;
  UnreliableReceiver receiver;
};

// Does a queue pair of this type take packets of this opcode?
[[nodiscard]] constexpr bool speaks(QpType type, std::uint8_t opcode) {
  const unsigned transport = opcode & wire::kTransportMask;
  if (type == QpType::kUc) return transport == wire::kTransportUc;
  if (type == QpType::kUd) return transport == wire::kTransportUd;
  return transport != wire::kTransportUc && transport != wire::kTransportUd && transport != wire::kTransportXrc;
}
[[nodiscard]] inline bool speaks(const Identity& identity, std::uint8_t opcode) {
  if (identity.xrc == XrcRole::kNone) [[likely]]
    return speaks(identity.type, opcode);
  const unsigned transport = opcode & wire::kTransportMask;
  return transport == wire::kTransportXrc || transport == wire::kTransportControl || opcode == wire::kCnpOpcode;
}

}  // namespace brdma::qp
