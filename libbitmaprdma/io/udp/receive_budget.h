// io/udp/receive_budget.h - the amount that peers may have in flight to a socket, by the bytes of its receive buffer.
// The kernel charges a datagram by the memory that holds it, not by its length: measured on Linux 6.18
// (docs/explanation/datapath.md)
//   832 B for a small one, 8520 B for 4116 B that come singly, 4.2 KB where GRO merged them.
// Single packets are assumed here, because a switch on the path undoes GRO. A charge is at most kChargePerPacket + size
// * kChargeNumerator / kChargeDenominator. Packets and bytes are limited separately, and both limits reached at once
// must still fit. Control packets have no credit: they use the slack of the formula.
#pragma once

#include <algorithm>
#include <cstdint>

#include "io/xdp/xdp_protocol.h"

namespace brdma::io {

struct ReceiveBudget {
  std::uint32_t packets = 0;
  std::uint32_t bytes = 0;  // of payload
};

inline constexpr std::uint64_t kChargePerPacket = 832;
inline constexpr std::uint64_t kChargeNumerator = 15, kChargeDenominator = 8;  // (8520 - 832) / 4096, rounded up
inline constexpr std::uint64_t kPacketShare = 4;  // a quarter of the buffer for the packets, the rest for their bytes

[[nodiscard]] constexpr ReceiveBudget receive_budget(std::uint64_t buffer_bytes) {
  constexpr std::uint64_t kMost = 1u << 30;  // keeps both figures well inside 32 bits
  const std::uint64_t buffer = std::min(buffer_bytes, kMost);
  const std::uint64_t for_packets = buffer / kPacketShare;
  return {static_cast<std::uint32_t>(for_packets / kChargePerPacket),
          static_cast<std::uint32_t>((buffer - for_packets) * kChargeDenominator / kChargeNumerator)};
}

// For an AF_XDP socket: a packet takes as many chunks as its bytes need, so at most its bytes' share and one more.
[[nodiscard]] constexpr ReceiveBudget xdp_receive_budget(std::uint32_t chunks) {
  const std::uint32_t half = chunks / 2;
  return {half, half * (kXdpChunkBytes - kXdpHeadroom - kXdpFrameHeaders)};
}

}  // namespace brdma::io
