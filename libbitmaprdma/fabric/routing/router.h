// fabric/routing/router.h - a router's work before queueing: decrements the hop limit, and chooses the port by the
// longest prefix and the flow's hash. The caller handles the packet's bytes (fabric/routing/ip_header.h).
#pragma once

#include <cstdint>
#include <optional>

#include "fabric/routing/five_tuple.h"
#include "fabric/routing/forwarding_table.h"

namespace brdma::fabric {

class Router {
 public:
  // received = forwarded + no_route + hops_spent + not_ip
  struct Counters {
    std::uint64_t received = 0, forwarded = 0;
    std::uint64_t no_route = 0;    // dropped: no prefix covers the destination
    std::uint64_t hops_spent = 0;  // dropped: its TTL was 1 or 0 on arrival
    std::uint64_t not_ip = 0;      // dropped: ARP and the like are not for routers
  };

  explicit Router(std::uint64_t seed = 0) : table_(seed) {}

  [[nodiscard]] ForwardingTable& table() { return table_; }
  // The port; nothing: it ends here. `hops_left`: as received.
  [[nodiscard]] std::optional<std::uint32_t> route(const FiveTuple& flow, std::uint8_t hops_left) {
    ++counters_.received;
    if (hops_left <= 1) {
      ++counters_.hops_spent;
      return std::nullopt;
    }
    const auto port = table_.port_for(flow);
    ++(port ? counters_.forwarded : counters_.no_route);
    return port;
  }
  // A packet without a flow for routing ends here.
  void count_not_ip() {
    ++counters_.received;
    ++counters_.not_ip;
  }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  ForwardingTable table_;
  Counters counters_;
};

}  // namespace brdma::fabric
