// fabric/routing/ip_header.h - what a switch reads and changes in an IP header: DSCP and ECN (RFC 2474, RFC 3168), and
// TTL or hop limit. IPv4's header checksum is mended by what the change does to it (RFC 1624), not computed anew. `ip`
// begins with an IPv4 header without options or an IPv6 header, whole; version by its first four bits.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace brdma::fabric {

// The two low bits of the traffic class.
inline constexpr std::uint8_t kEcnMask = 3;
inline constexpr std::uint8_t kNotEct = 0;  // its sender knows nothing of ECN: must not be marked
inline constexpr std::uint8_t kCongested = 3;

[[nodiscard]] std::uint8_t traffic_class(ConstBytes ip);
[[nodiscard]] constexpr std::uint8_t dscp_of(std::uint8_t traffic_class) { return traffic_class >> 2; }
[[nodiscard]] constexpr std::uint8_t ecn_of(std::uint8_t traffic_class) { return traffic_class & kEcnMask; }
void set_ecn(MutableBytes ip, std::uint8_t ecn);

// One hop less. False: there was none left, and nothing has changed; such a packet ends here.
[[nodiscard]] bool spend_hop(MutableBytes ip);

}  // namespace brdma::fabric
