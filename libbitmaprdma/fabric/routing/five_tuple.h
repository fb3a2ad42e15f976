// fabric/routing/five_tuple.h - a router's flow: addresses, ports, protocol; and its hash, which chooses among
// equal-cost paths. All packets of a flow take one path, flows spread; each switch's seed makes its choices
// independent.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/ip_address.h"

namespace brdma::fabric {

struct FiveTuple {
  IpAddress source, destination;
  std::uint16_t source_port = 0, destination_port = 0;  // 0: the protocol has none, or a fragment
  std::uint8_t protocol = 17;
  friend bool operator==(const FiveTuple&, const FiveTuple&) = default;

  [[nodiscard]] constexpr std::uint64_t hash(std::uint64_t seed) const {
    const auto from = source.words(), to = destination.words();
    std::uint64_t h = mix(seed ^ from[0]);
    h = mix(h ^ from[1]);
    h = mix(h ^ to[0]);
    h = mix(h ^ to[1]);
    return mix(h ^ (std::uint64_t{source_port} << 32 | std::uint64_t{destination_port} << 16 | protocol));
  }

 private:
  static constexpr std::uint64_t mix(std::uint64_t h) {
    h = (h ^ (h >> 32)) * 0x9E37'79B9'7F4A'7C15u;
    return h ^ (h >> 29);
  }
};

// Of a packet from its IP header on (IPv6: extension headers are not followed). Nothing: not whole.
[[nodiscard]] std::optional<FiveTuple> five_tuple(ConstBytes ip);

}  // namespace brdma::fabric
