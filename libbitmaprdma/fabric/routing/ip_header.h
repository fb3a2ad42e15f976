// fabric/routing/ip_header.h - IP header fields that a switch reads and changes: DSCP and ECN (RFC 2474, RFC 3168), and
// TTL or hop limit. IPv4's header checksum is updated incrementally (RFC 1624), not recomputed. `ip` begins with a
// whole IPv4 header without options or a whole IPv6 header; version by its first four bits.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace brdma::fabric {

// The two low bits of the traffic class.
inline constexpr std::uint8_t kEcnMask = 3;
inline constexpr std::uint8_t kNotEct = 0;  // its sender does not support ECN: must not be marked
inline constexpr std::uint8_t kCongested = 3;

[[nodiscard]] std::uint8_t traffic_class(ConstBytes ip);
[[nodiscard]] constexpr std::uint8_t dscp_of(std::uint8_t traffic_class) { return traffic_class >> 2; }
[[nodiscard]] constexpr std::uint8_t ecn_of(std::uint8_t traffic_class) { return traffic_class & kEcnMask; }
void set_ecn(MutableBytes ip, std::uint8_t ecn);

// Decrements TTL or hop limit. False: it was used up, and nothing has changed; such a packet is dropped.
[[nodiscard]] bool spend_hop(MutableBytes ip);

}  // namespace brdma::fabric
