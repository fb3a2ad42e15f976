// tests/xdp/frames.h - Ethernet frames of RoCE packets, byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "fabric/routing/frame.h"

namespace brdma::test {

struct FrameOptions {
  bool ipv6 = false;
  std::uint32_t qpn = 0x002002;
  std::uint16_t port = 4791;
  std::size_t payload = 64;  // of UDP
};

// Frame with Ethernet, IP and UDP headers whose lengths fit; UDP payload: BTH with that QPN, then bytes 0x5a.
inline std::vector<std::byte> make_frame(const FrameOptions& options = {}) {
  const IpAddress v4_a = IpAddress::v4(10, 9, 0, 1), v4_b = IpAddress::v4(10, 9, 0, 2);
  IpAddress v6_a{}, v6_b{};
  v6_a.bytes = {0xfd, 0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  v6_b.bytes = v6_a.bytes;
  v6_b.bytes[15] = 2;
  std::vector<std::byte> frame(fabric::kEthernetHeaderSize + 48 + options.payload, std::byte{0x5a});
  fabric::store_mac(frame.data(), 0x020000000902);
  fabric::store_mac(frame.data() + 6, 0x020000000901);
  store_be16(frame.data() + 12, options.ipv6 ? 0x86DD : 0x0800);
  std::byte* const ip = frame.data() + fabric::kEthernetHeaderSize;
  const std::size_t headers =
      fabric::write_roce_headers(options.ipv6 ? v6_a : v4_a, options.ipv6 ? v6_b : v4_b, 0xC000, options.payload, ip);
  frame.resize(fabric::kEthernetHeaderSize + headers + options.payload);
  std::byte* const udp = frame.data() + fabric::kEthernetHeaderSize + headers - fabric::kUdpHeaderSize;
  store_be16(udp + 2, options.port);
  if (options.payload >= 12) {
    std::byte* const bth = udp + fabric::kUdpHeaderSize;
    store_be32(bth, 0x0400'FFFF);  // RC SEND Only
    store_be32(bth + 4, options.qpn);
    store_be32(bth + 8, 7);
  }
  auto info = fabric::inspect_frame(frame);
  if (info && info->is_udp) fabric::set_datagram_size(frame, *info, options.payload, 0x1234);
  return frame;
}

}  // namespace brdma::test
