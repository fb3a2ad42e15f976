// io/xdp/xdp_frame.h - a RoCEv2 packet as an Ethernet frame: parses and writes the headers that the kernel's network
// stack would handle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/datagram.h"

namespace brdma::io {

// False: not a whole unfragmented UDP datagram to RoCE's port by IPv4 without options or IPv6 without extension
// headers; the steering program passes no such frame. Lengths are compared with the frame's; bytes after the datagram
// (padding of short frames) are cut off. Checksums are not checked: ICRC covers the same bytes and more.
[[nodiscard]] bool parse_roce_frame(ConstBytes frame, Datagram& out);

// Contents of a packet's headers before BTH.
struct FrameHeaders {
  IpAddress source, destination;  // both IPv4 or both IPv6
  std::uint16_t source_port = 0, destination_port = kRoceUdpPort;
  std::uint8_t traffic_class = 0, hop_limit = 64;
  std::uint16_t identification = 0;  // of IPv4, which ICRC covers in standard packets
};

inline constexpr std::size_t kEthernetHeader = 14;
inline constexpr std::size_t kFrameHeadersV4 = kEthernetHeader + 20 + 8, kFrameHeadersV6 = kEthernetHeader + 40 + 8;
[[nodiscard]] inline std::size_t frame_headers_size(const IpAddress& destination) {
  return destination.is_v4() ? kFrameHeadersV4 : kFrameHeadersV6;
}
// Writes Ethernet, IP ("don't fragment") and UDP headers for `payload` bytes to `out`; returns their size. UDP's
// checksum is left 0, which means "none" with IPv4. IPv6 does not allow it: there it is udp_checksum_v6's.
std::size_t write_frame_headers(const FrameHeaders& headers, std::span<const std::uint8_t, 6> to,
                                std::span<const std::uint8_t, 6> from, std::size_t payload, std::byte* out);

// The sum of Internet checksums (RFC 1071), not folded. Parts but the last must have an even size.
[[nodiscard]] std::uint64_t internet_sum(ConstBytes bytes);
// `frame`: an IPv6 frame or its beginning, all headers at least; `payload`: of UDP, total; `rest`: internet_sum() of
// the bytes after `frame`. Never 0. `frame.size()` is even where bytes follow.
[[nodiscard]] std::uint16_t udp_checksum_v6(ConstBytes frame, std::size_t payload, std::uint64_t rest);
inline constexpr std::size_t kUdpChecksumAtV6 = kFrameHeadersV6 - 2;

}  // namespace brdma::io
