#include "fabric/routing/five_tuple.h"

#include <cstring>

namespace brdma::fabric {
namespace {

constexpr std::size_t kIpv4Size = 20, kIpv6Size = 40;
constexpr std::uint8_t kTcp = 6, kUdp = 17;

IpAddress load_address(const std::byte* p, std::size_t size) {
  IpAddress address = IpAddress::v4(0, 0, 0, 0);
  std::memcpy(&address.bytes[16 - size], p, size);
  return address;
}

}  // namespace

std::optional<FiveTuple> five_tuple(ConstBytes ip) {
  if (ip.size() < kIpv4Size) return std::nullopt;
  FiveTuple flow;
  std::size_t header = kIpv6Size;
  bool fragment = false;
  const unsigned version = load_u8(ip.data()) >> 4;
  if (version == 4) {
    header = (load_u8(ip.data()) & 15u) * 4u;
    if (header < kIpv4Size || ip.size() < header) return std::nullopt;
    fragment = (load_be16(&ip[6]) & 0x3FFF) != 0;
    flow.protocol = load_u8(&ip[9]);
    flow.source = load_address(&ip[12], 4);
    flow.destination = load_address(&ip[16], 4);
  } else {
    if (version != 6 || ip.size() < kIpv6Size) return std::nullopt;
    flow.protocol = load_u8(&ip[6]);
    flow.source = load_address(&ip[8], 16);
    flow.destination = load_address(&ip[24], 16);
  }
  if (!fragment && (flow.protocol == kTcp || flow.protocol == kUdp) && ip.size() >= header + 4) {
    flow.source_port = load_be16(&ip[header]);
    flow.destination_port = load_be16(&ip[header + 2]);
  }
  return flow;
}

}  // namespace brdma::fabric
