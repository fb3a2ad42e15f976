// fabric/topology.h - several switches, the links between them, hosts in subnets of their own, as values, with derived
// values: names of ports and links, addresses, shortest routes. The lab, its switch and the controller read the same
// one (utils/topology has its text form); no text, no I/O here.
//
// Switch k (from 0, in the order of their making) has subnet k + 1: 10.77.(k+1).0/24 and fd77:0:0:(k+1)::/64. Host n
// (from 1, h1 h2 ..., over all switches) has the address ending in n there; its gateway ends in 254.
// Links are numbered: each host's own, then those between switches, in their order. A switch's ports are numbered: its
// hosts' by the hosts' numbers, then its links by theirs. A port has the name of its other end: "h1", "s2"; a second
// link between the same two "s2.2".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "fabric/network.h"
#include "fabric/routing/forwarding_table.h"
#include "fabric/routing/frame.h"

namespace brdma::fabric {

inline constexpr std::size_t kTopologySwitchesMax = 32, kTopologyHostsMax = 64, kTopologyLinksMax = 128;
inline constexpr std::uint32_t kLinkCostMax = 1'000'000;

// An option of fabric/network.h and its value, checked.
struct OptionValue {
  std::string name, value;
  friend bool operator==(const OptionValue&, const OptionValue&) = default;
};

struct Topology {
  struct Host {
    std::uint32_t at = 0;  // its switch
    std::vector<OptionValue> options{};
  };
  struct Link {
    std::uint32_t a = 0, b = 0;  // switches
    std::uint32_t cost = 1;      // routes minimise the sum of these
    std::vector<OptionValue> options{};
  };
  struct Route {
    std::uint32_t at = 0;  // switch
    Prefix prefix;
    std::vector<std::uint32_t> ports{};
  };
  std::vector<std::string> switches;
  std::vector<Host> hosts;
  std::vector<Link> links;
  std::vector<Route> routes;         // beside, or in place of, the shortest ones
  bool shortest_routes = true;       // from the beginning, to every subnet
  std::vector<OptionValue> network;  // NETWORK of the whole

  [[nodiscard]] std::uint32_t link_count() const { return static_cast<std::uint32_t>(hosts.size() + links.size()); }
  [[nodiscard]] bool is_host_link(std::uint32_t link) const { return link < hosts.size(); }
  [[nodiscard]] const std::vector<OptionValue>& link_options(std::uint32_t link) const {
    return is_host_link(link) ? hosts[link].options : links[link - hosts.size()].options;
  }
};

// True for NETWORK's options of a single link.
[[nodiscard]] bool is_link_option(std::string_view name);
// True for those of a host's link: these, and the rate from the host to its switch.
[[nodiscard]] bool is_host_link_option(std::string_view name);

struct TopologyPort {
  std::string name;
  std::uint32_t link = 0;
  std::optional<std::uint32_t> host{};  // from 0
  std::uint32_t neighbour = 0;          // else: the switch at the other end
  std::uint32_t cost = 1;
};
[[nodiscard]] std::vector<TopologyPort> ports_of(const Topology& topology, std::uint32_t at);
[[nodiscard]] std::optional<std::uint32_t> find_port(const Topology& topology, std::uint32_t at, std::string_view name);
[[nodiscard]] std::optional<std::uint32_t> find_switch(const Topology& topology, std::string_view name);

// "s1-s2", "s1-s2.2", "h1-s1"; found by either end first.
[[nodiscard]] std::string link_name(const Topology& topology, std::uint32_t link);
[[nodiscard]] std::optional<std::uint32_t> find_link(const Topology& topology, std::string_view name);

// Hosts from 0 here.
[[nodiscard]] IpAddress topology_ipv4(std::uint32_t at, std::uint8_t last);
[[nodiscard]] IpAddress topology_ipv6(std::uint32_t at, std::uint8_t last);  // written in decimal digits, like a lab's
inline constexpr std::uint8_t kGatewayNumber = 254;
[[nodiscard]] Prefix subnet_ipv4(std::uint32_t at);
[[nodiscard]] Prefix subnet_ipv6(std::uint32_t at);
[[nodiscard]] constexpr MacAddress topology_host_mac(std::uint32_t host) { return 0x0200'0A4D'0001u + host; }
[[nodiscard]] constexpr MacAddress topology_port_mac(std::uint32_t host) { return 0x0200'0A4D'0101u + host; }

// Every switch's routes: to its own hosts (whole addresses), to the other subnets by all paths of the smallest cost (if
// shortest_routes; an unreachable subnet has none), then `routes` of the file.
[[nodiscard]] std::vector<Topology::Route> initial_routes(const Topology& topology);

}  // namespace brdma::fabric
