#include "fabric/routing/ip_header.h"

namespace brdma::fabric {
namespace {

constexpr std::size_t kTtl = 8, kChecksum = 10, kHopLimit = 7;

bool is_v6(ConstBytes ip) { return (load_u8(ip.data()) >> 4) == 6; }

// Changes a 16-bit word of an IPv4 header, and the checksum (RFC 1624, equation 3).
void change_word(MutableBytes ip, std::size_t at, std::uint16_t after) {
  const std::uint16_t before = load_be16(&ip[at]);
  std::uint32_t sum = static_cast<std::uint16_t>(~load_be16(&ip[kChecksum]));
  sum += static_cast<std::uint16_t>(~before);
  sum += after;
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum += sum >> 16;
  store_be16(&ip[at], after);
  store_be16(&ip[kChecksum], static_cast<std::uint16_t>(~sum));
}

}  // namespace

std::uint8_t traffic_class(ConstBytes ip) {
  return is_v6(ip) ? static_cast<std::uint8_t>(load_be16(ip.data()) >> 4) : load_u8(&ip[1]);
}

void set_ecn(MutableBytes ip, std::uint8_t ecn) {
  const std::uint16_t word = load_be16(ip.data());
  if (is_v6(ip)) {  // 4 bits version, 8 of traffic class, then the flow label
    store_be16(ip.data(), static_cast<std::uint16_t>((word & ~(kEcnMask << 4)) | (ecn << 4)));
  } else {
    change_word(ip, 0, static_cast<std::uint16_t>((word & ~kEcnMask) | ecn));
  }
}

bool spend_hop(MutableBytes ip) {
  std::byte* const hops = &ip[is_v6(ip) ? kHopLimit : kTtl];
  if (load_u8(hops) <= 1) return false;
  if (is_v6(ip)) {
    store_u8(hops, static_cast<std::uint8_t>(load_u8(hops) - 1));
  } else {
    change_word(ip, kTtl, static_cast<std::uint16_t>(load_be16(hops) - 0x100));
  }
  return true;
}

}  // namespace brdma::fabric
