// run/standalone.h - the time that a flow takes alone: from its first byte to the acknowledgement of its last, over
// links that carry nothing else, without loss and without any limit of its sender. Links store and forward whole
// packets. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/config.h"
#include "base/units.h"
#include "network/shape.h"

namespace brdma::simulator {

// Of a protocol's packets: bytes on the wire beside the payload, Ethernet and IP headers and all.
struct PacketSizes {
  std::uint32_t first = 0;  // of a message's first packet
  std::uint32_t other = 0;
  std::uint32_t answer = 0;  // an acknowledgement, whole
  std::uint32_t align = 4;   // payload is filled up to a multiple of it
};
[[nodiscard]] PacketSizes packet_sizes(RecoveryMode mode);
// Wire bytes of a flow in relation to its payload, with the headers of a RoCE packet.
[[nodiscard]] double wire_share(double bytes, std::uint32_t mtu);

// `path` and `back`: the links of packets and of acknowledgements, in order.
[[nodiscard]] Duration standalone_time(std::uint64_t bytes, std::uint32_t mtu, const PacketSizes& sizes,
                                       const std::vector<Hop>& path, const std::vector<Hop>& back);

}  // namespace brdma::simulator
