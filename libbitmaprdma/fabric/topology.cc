#include "fabric/topology.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"

namespace brdma::fabric {
namespace {

constexpr std::uint64_t kFar = std::numeric_limits<std::uint64_t>::max();

// Index of this link among those between the same two switches: 1, 2, ...
std::uint32_t place_among_parallel(const Topology& topology, std::size_t link) {
  const auto same = [&](const Topology::Link& other) {
    const Topology::Link& mine = topology.links[link];
    return (other.a == mine.a && other.b == mine.b) || (other.a == mine.b && other.b == mine.a);
  };
  const auto end = topology.links.begin() + static_cast<std::ptrdiff_t>(link);
  return static_cast<std::uint32_t>(std::count_if(topology.links.begin(), end, same)) + 1;
}

std::string parallel_suffix(const Topology& topology, std::size_t link) {
  const std::uint32_t place = place_among_parallel(topology, link);
  return place == 1 ? std::string{} : "." + std::to_string(place);
}

std::string name_of_host(std::size_t host) { return "h" + std::to_string(host + 1); }

// Each switch's cost to reach `to`: Bellman and Ford, for some dozens of switches.
std::vector<std::uint64_t> distances(const Topology& topology, std::uint32_t to) {
  std::vector<std::uint64_t> far(topology.switches.size(), kFar);
  far[to] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Topology::Link& link : topology.links) {
      for (const auto& [from, next] : {std::pair{link.a, link.b}, std::pair{link.b, link.a}}) {
        if (far[next] == kFar || far[next] + link.cost >= far[from]) continue;
        far[from] = far[next] + link.cost;
        changed = true;
      }
    }
  }
  return far;
}

// Ports of the switch `at` that lie on a shortest path; `far`: the distances of all switches.
std::vector<std::uint32_t> shortest_ports(const Topology& topology, const std::vector<std::uint64_t>& far,
                                          std::uint32_t at) {
  std::vector<std::uint32_t> best;
  const auto ports = ports_of(topology, at);
  for (std::uint32_t port = 0; port < ports.size() && best.size() < ForwardingTable::kPortsMax; ++port) {
    const TopologyPort& each = ports[port];
    if (each.host || far[each.neighbour] == kFar || far[each.neighbour] + each.cost != far[at]) continue;
    best.push_back(port);
  }
  return best;
}

}  // namespace

bool is_link_option(std::string_view name) {
  constexpr std::array<std::string_view, 11> kNames{"loss",    "burst-loss", "reorder",    "duplicate",
                                                    "corrupt", "delay",      "jitter",     "rate",
                                                    "queue",   "ecn",        "random-drop"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}
bool is_host_link_option(std::string_view name) { return name == "uplink" || is_link_option(name); }

std::vector<TopologyPort> ports_of(const Topology& topology, std::uint32_t at) {
  std::vector<TopologyPort> ports;
  for (std::uint32_t host = 0; host < topology.hosts.size(); ++host) {
    if (topology.hosts[host].at != at) continue;
    ports.push_back({.name = name_of_host(host), .link = host, .host = host});
  }
  for (std::uint32_t i = 0; i < topology.links.size(); ++i) {
    const Topology::Link& link = topology.links[i];
    if (link.a != at && link.b != at) continue;
    const std::uint32_t other = link.a == at ? link.b : link.a;
    ports.push_back({.name = topology.switches[other] + parallel_suffix(topology, i),
                     .link = static_cast<std::uint32_t>(topology.hosts.size()) + i,
                     .neighbour = other,
                     .cost = link.cost});
  }
  return ports;
}

std::optional<std::uint32_t> find_port(const Topology& topology, std::uint32_t at, std::string_view name) {
  const auto ports = ports_of(topology, at);
  const auto found = std::find_if(ports.begin(), ports.end(), [&](const TopologyPort& p) { return p.name == name; });
  if (found == ports.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - ports.begin());
}

std::optional<std::uint32_t> find_switch(const Topology& topology, std::string_view name) {
  const auto found = std::find(topology.switches.begin(), topology.switches.end(), name);
  if (found == topology.switches.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - topology.switches.begin());
}

std::string link_name(const Topology& topology, std::uint32_t link) {
  BRDMA_CHECK(link < topology.link_count());
  if (topology.is_host_link(link)) return name_of_host(link) + "-" + topology.switches[topology.hosts[link].at];
  const std::size_t number = link - topology.hosts.size();
  const Topology::Link& ends = topology.links[number];
  return topology.switches[ends.a] + "-" + topology.switches[ends.b] + parallel_suffix(topology, number);
}

std::optional<std::uint32_t> find_link(const Topology& topology, std::string_view name) {
  // The name the other way round: "s2-s1.2" is "s1-s2.2".
  std::string turned{name};
  if (const std::size_t dash = name.find('-'); dash != std::string_view::npos) {
    const std::size_t dot = std::min(name.find('.', dash), name.size());
    turned = std::string{name.substr(dash + 1, dot - dash - 1)} + "-" + std::string{name.substr(0, dash)} +
             std::string{name.substr(dot)};
  }
  for (std::uint32_t link = 0; link < topology.link_count(); ++link) {
    const std::string each = link_name(topology, link);
    if (each == name || each == turned) return link;
  }
  return std::nullopt;
}

IpAddress topology_ipv4(std::uint32_t at, std::uint8_t last) {
  return IpAddress::v4(10, 77, static_cast<std::uint8_t>(at + 1), last);
}

IpAddress topology_ipv6(std::uint32_t at, std::uint8_t last) {
  const auto digits = [](std::uint32_t n) { return n / 100 << 8 | n / 10 % 10 << 4 | n % 10; };
  IpAddress address;
  address.bytes[0] = 0xFD;
  address.bytes[1] = 0x77;
  address.bytes[7] = static_cast<std::uint8_t>(digits(at + 1));
  address.bytes[14] = static_cast<std::uint8_t>(digits(last) >> 8);
  address.bytes[15] = static_cast<std::uint8_t>(digits(last));
  return address;
}

Prefix subnet_ipv4(std::uint32_t at) { return Prefix::v4(topology_ipv4(at, 0), 24); }
Prefix subnet_ipv6(std::uint32_t at) { return Prefix::of(topology_ipv6(at, 0), 64); }

std::vector<Topology::Route> initial_routes(const Topology& topology) {
  std::vector<Topology::Route> routes;
  for (std::uint32_t host = 0; host < topology.hosts.size(); ++host) {
    const std::uint32_t at = topology.hosts[host].at;
    const auto number = static_cast<std::uint8_t>(host + 1);
    const std::uint32_t port = find_port(topology, at, name_of_host(host)).value();
    routes.push_back({at, Prefix::v4(topology_ipv4(at, number), 32), {port}});
    routes.push_back({at, Prefix::of(topology_ipv6(at, number), 128), {port}});
  }
  for (std::uint32_t to = 0; topology.shortest_routes && to < topology.switches.size(); ++to) {
    const auto far = distances(topology, to);
    for (std::uint32_t at = 0; at < topology.switches.size(); ++at) {
      if (at == to || far[at] == kFar) continue;
      std::vector<std::uint32_t> best = shortest_ports(topology, far, at);
      routes.push_back({at, subnet_ipv4(to), best});
      routes.push_back({at, subnet_ipv6(to), std::move(best)});
    }
  }
  routes.insert(routes.end(), topology.routes.begin(), topology.routes.end());
  return routes;
}

}  // namespace brdma::fabric
