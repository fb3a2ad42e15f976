// network/shape.h - a scenario's switches, hosts and links, made from its layout or from a topology file of the lab.
// Shape: switches are numbered from 0, hosts from 0 in the order of their switches (h1, h2, ...).
// Errors: ScenarioError, where a file cannot be read, or a layout has too many hosts, switches or equal-cost paths.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "fabric/link.h"
#include "fabric/routing/forwarding_table.h"
#include "scenario/scenario.h"

namespace brdma::simulator {

struct Shape {
  struct Host {
    std::uint32_t at = 0;         // its switch
    fabric::LinkConfig up, down;  // to the switch, from it. Up has the same rate, delay and faults, and no queue limit
  };
  struct Link {
    std::uint32_t a = 0, b = 0;  // switches
    std::uint32_t cost = 1;
    fabric::LinkConfig config{};  // of each direction
  };
  std::vector<std::string> switches;
  std::vector<Host> hosts;
  std::vector<Link> links;
};

[[nodiscard]] Shape make_shape(const Scenario& scenario);
// Only what the layout has, for checks of host names. Errors as make_shape().
[[nodiscard]] std::uint32_t host_count(const TopologyPlan& plan);
// The file named in a scenario: from the scenario's folder, then the ready-made ones by name.
[[nodiscard]] std::string topology_path(const std::string& named, const std::string& scenario_file);

// Host `number` among those of switch `at`, from 0. 10.0.0.0/8: 12 bits for the switch, 12 for the host.
[[nodiscard]] IpAddress host_address(std::uint32_t at, std::uint32_t number);
[[nodiscard]] fabric::Prefix subnet(std::uint32_t at);

// For each switch the neighbours on the cheapest paths to `to`, by rising number; its own entry is empty, and so is
// that of one that cannot reach it.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> next_switches(const Shape& shape, std::uint32_t to);

// The paths of one host's packets to another, if each switch takes the first of equal-cost links: links in order.
struct Hop {
  Bandwidth rate;
  Duration delay;
};
[[nodiscard]] std::vector<Hop> hops(const Shape& shape, std::uint32_t from, std::uint32_t to);

}  // namespace brdma::simulator
