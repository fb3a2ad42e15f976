// fabric/routing/forwarding_table.h - a router's choice of port: the longest prefix that covers the destination, IPv4
// and IPv6; of several ports of equal cost the flow's hash chooses one.
//
// Routes are sorted by length, longest first, then by address. A look-up is a binary search in each present length:
// some dozens of steps in a table of thousands. A change shifts the table; only the control plane makes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ip_address.h"
#include "fabric/routing/five_tuple.h"

namespace brdma::fabric {

// IPv4 is in ::ffff/96: 10.77.0.0/16 has length 112. Bits after the prefix are 0.
struct Prefix {
  IpAddress address;
  std::uint8_t length = 0;                                                        // 0..128
  [[nodiscard]] static Prefix of(const IpAddress& address, std::uint8_t length);  // clears the bits after it
  [[nodiscard]] static Prefix v4(const IpAddress& address, std::uint8_t length);  // 0..32
  [[nodiscard]] bool covers(const IpAddress& other) const;
  friend bool operator==(const Prefix&, const Prefix&) = default;
};

class ForwardingTable {
 public:
  static constexpr std::size_t kPortsMax = 16;  // of equal cost
  static constexpr std::size_t kRoutesMax = 4096;

  explicit ForwardingTable(std::uint64_t seed = 0) : seed_(seed) {}

  // Replaces the present route. False: the table is full, or `ports` are none or too many; nothing changed.
  [[nodiscard]] bool set(const Prefix& prefix, std::span<const std::uint32_t> ports);
  bool remove(const Prefix& prefix);  // false: there was none
  [[nodiscard]] std::size_t size() const { return routes_.size(); }

  [[nodiscard]] std::optional<std::uint32_t> port_for(const FiveTuple& flow) const;

  struct Route {
    Prefix prefix;
    std::uint8_t port_count = 0;
    std::array<std::uint32_t, kPortsMax> ports{};
    [[nodiscard]] std::span<const std::uint32_t> used() const { return std::span{ports}.first(port_count); }
  };
  [[nodiscard]] std::span<const Route> routes() const { return routes_; }  // longest prefixes first
  [[nodiscard]] const Route* find(const Prefix& prefix) const;             // that very prefix; null: none

 private:
  [[nodiscard]] std::size_t place_of(const Prefix& prefix) const;  // its index, or its insertion point
  void index_lengths();

  struct Length {
    std::uint8_t length = 0;
    std::size_t first = 0, end = 0;  // of its routes
  };
  std::uint64_t seed_;
  std::vector<Route> routes_;
  std::vector<Length> lengths_;
};

}  // namespace brdma::fabric
