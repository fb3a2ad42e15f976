// wire/cm/cm_address.h - encoding of IP ports and addresses in RDMA-CM's messages (IBTA annex A11).
//   service id:    0x00000000'01 | port space (IP protocol: 6 TCP, 17 UDP; 0x3F, none: any queue pair) | port
//                  older, in the port space of IPoIB: 0x00000000'00 | 2 | port
//   private data of REQ and SIDR_REQ: 36 bytes as follows, then the program's own
//   0 version (0) | 1 IP version (4 bits), 4 reserved | 2 source port | 4 source address | 20 destination address
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/ip_address.h"

namespace brdma::wire {

inline constexpr std::size_t kCmAddressSize = 36;
inline constexpr std::uint64_t kIpServiceId = 0x0000'0000'0100'0000;

enum class PortSpace : std::uint8_t { kIpoib = 2, kTcp = 6, kUdp = 17, kIb = 0x3F };

[[nodiscard]] constexpr std::uint64_t service_id(PortSpace space, std::uint16_t port) {
  const std::uint64_t first = space == PortSpace::kIpoib ? 0 : kIpServiceId;
  return first | std::uint64_t{static_cast<std::uint8_t>(space)} << 16 | port;
}

struct CmAddress {
  std::uint16_t source_port = 0;
  IpAddress source, destination;
  friend bool operator==(const CmAddress&, const CmAddress&) = default;
};

// `p`: kCmAddressSize bytes. Empty: another version, neither IPv4 nor IPv6, or addresses of both kinds.
[[nodiscard]] std::optional<CmAddress> parse_cm_address(const std::byte* p);
void emit_cm_address(const CmAddress& address, std::byte* out);

}  // namespace brdma::wire
