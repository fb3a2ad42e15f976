#include "feedback/udp_checksum.h"

#include "fabric/routing/frame.h"

namespace brdma::lab {

void mend_udp_checksum(SwitchPacket& packet, MutableBytes frame) {
  const fabric::FrameInfo info = packet.udp_info();
  const std::size_t field = std::size_t{info.udp_offset} + fabric::kUdpChecksumOffset;
  if (packet.partial_checksum || load_be16(&frame[field]) == 0) return;
  fabric::set_datagram_size(frame, info, frame.size() - info.payload_offset, fabric::identification(frame, info));
  packet.partial_checksum = true;
  packet.checksum_start = info.udp_offset;
  packet.checksum_offset = fabric::kUdpChecksumOffset;
}

}  // namespace brdma::lab
