// device/icrc_check.h - does a received packet's ICRC hold? What packets of one flow have in common is computed once: a
// queue pair with one peer keeps its flow; those with many share the last one.
#pragma once

#include <cstdint>

#include "base/datagram.h"
#include "wire/crc/icrc.h"
#include "wire/packet.h"

namespace brdma::device {

class IcrcCheck {
 public:
  // `own_flow`: of a queue pair with one peer, the packet's source; else null.
  //
  // Bitmap mode and IPv6 have no unknown field. A standard packet over IPv4 has an identification that a UDP socket
  // does not show: some identification must explain its ICRC (docs/reference/wire.md#icrc).
  [[nodiscard]] bool holds(const Datagram& datagram, const wire::Packet& packet, wire::IcrcFlow* own_flow) {
    const bool covers_identification = !packet.bitmap && !packet.control && datagram.source.is_v4();
    const bool known = !covers_identification || datagram.ip_id_known;
    const std::uint16_t ip_id = covers_identification && known ? datagram.ip_id : std::uint16_t{0};
    const bool flow_holds = own_flow != nullptr && own_flow->has_ports(datagram.source_port, kRoceUdpPort);
    const wire::IcrcFlow& flow = flow_holds ? *own_flow : flow_of(datagram, own_flow);
    const std::uint32_t difference = wire::packet_icrc(flow, ip_id, datagram.bytes) ^ wire::stored_icrc(datagram.bytes);
    if (difference == 0) return true;
    if (known) return false;
    std::uint16_t identification = 0;
    return identifications_.solve(difference, datagram.bytes.size(), identification);
  }

 private:
  // The datagram's flow; it replaces an older one where the place is taken.
  const wire::IcrcFlow& flow_of(const Datagram& datagram, wire::IcrcFlow* own_flow) {
    const wire::IcrcPath path{.source = datagram.source,
                              .destination = datagram.destination,
                              .source_port = datagram.source_port,
                              .destination_port = kRoceUdpPort,
                              .ip_id = 0};
    if (own_flow != nullptr) return *own_flow = wire::IcrcFlow{path};
    if (!shared_flow_.is(path)) shared_flow_ = wire::AddressedIcrcFlow{path};
    return shared_flow_;
  }

  wire::IdentificationSolver identifications_;
  wire::AddressedIcrcFlow shared_flow_;  // of the last packet for a queue pair with many peers
};

}  // namespace brdma::device
