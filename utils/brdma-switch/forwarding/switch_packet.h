// brdma-switch/forwarding/switch_packet.h - a packet in the fabric's links: a buffer of the pool and its metadata.
#pragma once

#include <cstdint>

#include "fabric/packet_pool.h"
#include "fabric/routing/frame.h"

namespace brdma::lab {

struct SwitchPacket {
  fabric::PacketPool::Index buffer = 0;
  std::uint16_t size = 0;            // of the whole frame
  std::uint16_t udp_offset = 0;      // 0: no UDP datagram
  std::uint16_t checksum_start = 0;  // with partial_checksum: start of the sum; the field's offset from there
  std::uint16_t checksum_offset = 0;
  bool partial_checksum = false;  // the receiving kernel need not verify it: the frame never left this machine
  bool is_ipv6 = false;
  bool is_ip = false;   // of either version, no neighbour discovery: a router can route it
  bool judged = false;  // links impair it

  [[nodiscard]] fabric::FrameInfo udp_info() const {
    fabric::FrameInfo info;
    info.is_udp = udp_offset != 0;
    info.is_ipv6 = is_ipv6;
    info.udp_offset = udp_offset;
    info.payload_offset = static_cast<std::uint16_t>(udp_offset + fabric::kUdpHeaderSize);
    return info;
  }
};

}  // namespace brdma::lab
