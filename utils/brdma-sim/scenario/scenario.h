// scenario/scenario.h - an experiment as values: network, protocols, flows, limits. scenario_file.h reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/units.h"
#include "fabric/network.h"

namespace brdma::simulator {

enum class Layout : std::uint8_t { kDumbbell, kIncast, kLeafSpine, kFatTree, kKAry, kFile };

inline constexpr std::uint32_t kHostsMax = 4000, kSwitchesMax = 1000;

// Which numbers count depends on the layout. Hosts are h1, h2, ... in the order of their switches.
struct TopologyPlan {
  Layout layout = Layout::kDumbbell;
  std::uint32_t hosts = 1;  // dumbbell: on each side; incast: senders
  std::uint32_t leaves = 4, spines = 2, hosts_per_leaf = 4;
  std::uint32_t pods = 5, tors = 4, aggs = 4, cores = 16, hosts_per_tor = 16;  // fat-tree: tors and aggs in each pod
  std::uint32_t k = 4, oversubscription = 1;  // k-ary: k/2 times so many hosts at each top-of-rack switch
  std::string file;                           // of utils/topology
};

// What the hosts of a group run.
struct ProtocolPlan {
  std::string name = "bitmap";
  bool is_model = false;  // of models/; what follows is of engines
  RecoveryConfig recovery{};
  std::uint8_t timeout = 12;                      // local ACK timeout: 4.096 us * 2^timeout
  std::uint8_t retry_count = 7;                   // then the connection breaks, and the flow begins again on another
  std::uint32_t batch = 1;                        // packets of one queue pair before the next one's turn
  std::optional<Duration> irn_low{}, irn_high{};  // of selective: IRN's rules with these timeouts
  [[nodiscard]] bool notified() const { return recovery.edn; }
};

struct GroupPlan {
  std::vector<std::uint32_t> hosts;  // from 0
  ProtocolPlan protocol;
};

enum class Arrivals : std::uint8_t { kPoisson, kIncast };

// Load is the part of a capacity that the flows' bytes take: of the senders' links (poisson), of the receivers' links
// (incast), of the link in the middle (poisson in a dumbbell).
struct WorkloadPlan {
  std::string label = "flows";
  Arrivals arrivals = Arrivals::kPoisson;
  std::string sizes;        // a file, or a name of flow-sizes
  std::uint64_t bytes = 0;  // instead: every flow has so many
  double load = 0.5;
  bool counts_headers = false;  // load on the wire, else of payload
  std::uint32_t flows = 1000;
  std::uint32_t fan_in = 0;                       // incast: senders of one event; 0: all
  std::vector<std::uint32_t> senders, receivers;  // from 0; empty: the layout's
  Duration start{};
};

struct RunPlan {
  std::uint64_t seed = 1;
  Duration time_limit = Duration::from_ns(100'000'000'000);  // virtual, from the first flow's start
  std::uint32_t warmup = 0;                                  // flows, by start, that do not count
  std::uint32_t connections = 64;  // between two hosts, in one direction; further flows wait for one
};

struct Scenario {
  std::string file;  // its name, for messages and results
  std::string name;
  TopologyPlan topology;
  fabric::NetworkConfig network;  // of the whole, and of hosts' links
  fabric::LinkConfig core;        // of links between switches
  ProtocolPlan protocol;          // of hosts that are in no group
  std::vector<GroupPlan> groups;
  std::vector<WorkloadPlan> workloads;
  RunPlan run;
  std::uint64_t digest = 0;  // of the text and the changes to it
};

}  // namespace brdma::simulator
