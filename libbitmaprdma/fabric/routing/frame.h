// fabric/routing/frame.h - a switch's view of an Ethernet frame, and the splitting and joining of a batch of UDP
// datagrams in one frame (generic segmentation offload). Bytes only, no I/O.
//
// Frame: 6 destination | 6 source | 2 EtherType | IPv4 (20 without options) or IPv6 (40, no extension headers followed)
//        | 8 UDP or another protocol's header.  VLAN tags are not parsed: such frames count as "not IP".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/ip_address.h"

namespace brdma::fabric {

using MacAddress = std::uint64_t;  // the 48 bits, first byte highest
[[nodiscard]] constexpr bool is_group(MacAddress mac) { return ((mac >> 40) & 1) != 0; }

inline constexpr std::size_t kEthernetHeaderSize = 14;
inline constexpr std::size_t kUdpHeaderSize = 8;
inline constexpr std::size_t kUdpChecksumOffset = 6;  // in the UDP header
inline constexpr std::uint16_t kRocePort = 4791;

enum class FrameKind : std::uint8_t {
  kControl,  // not IP (ARP), or ICMPv6 neighbour discovery: never impaired
  kIp,
  kRoce,  // UDP to port 4791
};

struct FrameInfo {
  MacAddress destination = 0, source = 0;
  FrameKind kind = FrameKind::kControl;
  bool is_ipv6 = false;
  bool is_udp = false;  // an unfragmented datagram; the offsets below are then set
  std::uint16_t source_port = 0;
  std::uint16_t udp_offset = 0;      // of the UDP header
  std::uint16_t payload_offset = 0;  // after it
};

// Nothing: shorter than an Ethernet header. Anything malformed inside is kControl or kIp, never an error: a switch
// forwards frames that it cannot parse.
[[nodiscard]] std::optional<FrameInfo> inspect_frame(ConstBytes frame);

// Sets length and IPv4 identification of a UDP frame (a header copied from a batch, or of a batch to be made): IP
// length and header checksum, UDP length, and in the UDP checksum the sum over the pseudo-header, as a network
// interface with checksum offload expects ("partial"). `headers` holds payload_offset bytes.
void set_datagram_size(MutableBytes headers, const FrameInfo& info, std::size_t payload_size,
                       std::uint16_t identification);
[[nodiscard]] std::uint16_t identification(ConstBytes headers, const FrameInfo& info);  // 0 for IPv6

// Frames of the switch's own: MAC addresses, and IP and UDP headers to RoCE's port with sizes for that payload;
// checksums are left 0 (set_datagram_size). Returns the size of both headers.
[[nodiscard]] MacAddress load_mac(const std::byte* p);
void store_mac(std::byte* p, MacAddress mac);
std::size_t write_roce_headers(const IpAddress& source, const IpAddress& destination, std::uint16_t source_port,
                               std::size_t payload_size, std::byte* out);

// An IPv4 header for an ICMP message of that size, complete. Returns its own size.
std::size_t write_icmp_header(const IpAddress& source, const IpAddress& destination, std::size_t message_size,
                              std::byte* out);

// True if two UDP frames of the same layout differ only in lengths, identification and checksums.
[[nodiscard]] bool same_flow(ConstBytes headers_a, ConstBytes headers_b, const FrameInfo& info);

// Flips one bit that the ICRC covers, chosen by `random`: after the UDP header, or after the Ethernet header of other
// frames. With `checksum_complete` the UDP checksum is updated as well, so that the packet reaches the RDMA stack,
// whose check is to be tested; a partial checksum does not depend on the payload.
void corrupt_frame(MutableBytes frame, const FrameInfo& info, bool checksum_complete, std::uint64_t random);

}  // namespace brdma::fabric
