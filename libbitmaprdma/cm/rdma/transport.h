// cm/rdma/transport.h - an identifier's service, transport and type of queue pair.
#pragma once

#include <cstdint>

#include "cm/rdma_id.h"

namespace brdma::cm {

[[nodiscard]] inline std::uint64_t service_of(const RdmaId& id, const SocketAddress& address) {
  return wire::service_id(id.space, address.port);
}

// IBTA 12.6.5: transport service type.
[[nodiscard]] inline std::uint8_t transport_of(const RdmaId& id) {
  constexpr std::uint8_t kRc = 0, kUc = 1, kExtended = 3;
  if (id.xrc != XrcRole::kNone) return kExtended;
  return id.type == QpType::kUc ? kUc : kRc;
}

// kIb has queue pairs of the type that the program wants; the other port spaces have one type each.
[[nodiscard]] inline QpType type_in(wire::PortSpace space, QpType wanted) {
  if (space == wire::PortSpace::kIb) return wanted;
  return space == wire::PortSpace::kTcp ? QpType::kRc : QpType::kUd;
}

}  // namespace brdma::cm
