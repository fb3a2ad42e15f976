// topology/topology_file.h - a topology as a TOML text (docs/reference/lab.md#several-switches):
//   [network]                          options of NETWORK; those of links apply unless a link sets its own
//   mtu = 4096
//   [[switch]]
//   name = "s1"
//   [[host]]                           h1, then h2, ...
//   switch = "s1"
//   rate = "1gbit"                     options of its link
//   [[link]]
//   between = ["s1", "s2"]
//   delay = "10ms"
//   cost = 2                           default 1
//   [[route]]                          replaces the routes by cost
//   switch = "s1"
//   prefix = "10.77.2.0/24"
//   via = ["s2", "s2.2"]
//   [routing]
//   shortest = false                   default true: routes by least cost from the start
#pragma once

#include <stdexcept>
#include <string>

#include "fabric/topology.h"

namespace brdma::topology {

inline constexpr std::size_t kTextMax = 64 * 1024;

// A sentence that names the place and the error.
struct TopologyError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `name`: of the file, for messages. Throws TopologyError.
[[nodiscard]] fabric::Topology parse_topology(const std::string& text, const std::string& name);

}  // namespace brdma::topology
