#include "network/shape.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>

#include "base/check.h"
#include "scenario/table_reader.h"
#include "topology/topology_file.h"

namespace brdma::simulator {
namespace {

constexpr std::uint64_t kFar = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kHostQueueBytes = 1u << 30;  // a host's packets wait for their link; none is dropped

class Builder {
 public:
  explicit Builder(const Scenario& scenario) : scenario_(scenario) {}

  std::uint32_t add_switch(const std::string& name) {
    shape_.switches.push_back(name);
    return static_cast<std::uint32_t>(shape_.switches.size() - 1);
  }
  void add_hosts(std::uint32_t at, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) add_host(at, scenario_.network);
  }
  void add_host(std::uint32_t at, const fabric::NetworkConfig& network) {
    fabric::LinkConfig up = network.link;
    up.marking.reset();
    up.random_drop.reset();
    up.queue_bytes = kHostQueueBytes;
    if (!network.uplink.same) up.rate = network.uplink.rate;
    shape_.hosts.push_back({at, up, network.link});
  }
  void add_link(std::uint32_t a, std::uint32_t b) { add_link(a, b, 1, scenario_.core); }
  void add_link(std::uint32_t a, std::uint32_t b, std::uint32_t cost, const fabric::LinkConfig& config) {
    shape_.links.push_back({a, b, cost, config});
  }
  Shape take() { return std::move(shape_); }

 private:
  const Scenario& scenario_;
  Shape shape_;
};

std::string named(const char* kind, std::uint32_t number) { return kind + std::to_string(number + 1); }

void dumbbell(Builder& builder, const TopologyPlan& plan) {
  const std::uint32_t left = builder.add_switch("left"), right = builder.add_switch("right");
  builder.add_hosts(left, plan.hosts);
  builder.add_hosts(right, plan.hosts);
  builder.add_link(left, right);
}

void incast(Builder& builder, const TopologyPlan& plan) { builder.add_hosts(builder.add_switch("s1"), plan.hosts + 1); }

void leaf_spine(Builder& builder, const TopologyPlan& plan) {
  for (std::uint32_t leaf = 0; leaf < plan.leaves; ++leaf) {
    builder.add_hosts(builder.add_switch(named("leaf", leaf)), plan.hosts_per_leaf);
  }
  for (std::uint32_t spine = 0; spine < plan.spines; ++spine) {
    const std::uint32_t at = builder.add_switch(named("spine", spine));
    for (std::uint32_t leaf = 0; leaf < plan.leaves; ++leaf) builder.add_link(leaf, at);
  }
}

// Aggregation switch j of each pod joins an equal share of the cores: those from j * cores / aggs on.
void fat_tree(Builder& builder, const TopologyPlan& plan) {
  const std::uint32_t share = plan.cores / plan.aggs;
  std::vector<std::uint32_t> cores, tors;
  for (std::uint32_t i = 0; i < plan.pods * plan.tors; ++i) {
    tors.push_back(builder.add_switch(named("tor", i)));
    builder.add_hosts(tors.back(), plan.hosts_per_tor);
  }
  for (std::uint32_t i = 0; i < plan.cores; ++i) cores.push_back(builder.add_switch(named("core", i)));
  for (std::uint32_t pod = 0; pod < plan.pods; ++pod) {
    for (std::uint32_t j = 0; j < plan.aggs; ++j) {
      const std::uint32_t agg = builder.add_switch(named("agg", pod * plan.aggs + j));
      for (std::uint32_t tor = 0; tor < plan.tors; ++tor) builder.add_link(tors[pod * plan.tors + tor], agg);
      for (std::uint32_t core = 0; core < share; ++core) builder.add_link(agg, cores[j * share + core]);
    }
  }
}

TopologyPlan fat_tree_of(const TopologyPlan& plan) {
  TopologyPlan tree;
  const std::uint32_t half = plan.k / 2;
  tree.pods = plan.k;
  tree.tors = tree.aggs = half;
  tree.cores = half * half;
  tree.hosts_per_tor = half * plan.oversubscription;
  return tree;
}

fabric::Topology read_topology(const std::string& path) {
  std::ifstream file{path};
  if (!file) throw ScenarioError("topology " + path + ": cannot be read; 'brdma sim' looks beside the scenario");
  try {
    return topology::parse_topology({std::istreambuf_iterator<char>{file}, {}}, path);
  } catch (const topology::TopologyError& error) {
    throw ScenarioError(error.what());
  }
}

// The scenario's network, then the file's, then the link's own.
fabric::NetworkConfig overlaid(fabric::NetworkConfig config, const std::vector<fabric::OptionValue>& whole,
                               const std::vector<fabric::OptionValue>& own) {
  for (const auto& each : whole) (void)fabric::set_option(config, each.name, each.value);
  for (const auto& each : own) (void)fabric::set_option(config, each.name, each.value);
  return config;
}

void from_file(Builder& builder, const Scenario& scenario) {
  const fabric::Topology topology = read_topology(topology_path(scenario.topology.file, scenario.file));
  for (std::uint32_t at = 0; at < topology.switches.size(); ++at) {
    builder.add_switch(topology.switches[at]);
  }
  for (const auto& host : topology.hosts) {
    builder.add_host(host.at, overlaid(scenario.network, topology.network, host.options));
  }
  fabric::NetworkConfig core = scenario.network;
  core.link = scenario.core;
  for (const auto& link : topology.links) {
    builder.add_link(link.a, link.b, link.cost, overlaid(core, topology.network, link.options).link);
  }
}

void check_size(const Shape& shape) {
  if (shape.hosts.size() > kHostsMax || shape.switches.size() > kSwitchesMax) {
    throw ScenarioError("the topology has " + std::to_string(shape.hosts.size()) + " hosts and " +
                        std::to_string(shape.switches.size()) + " switches; at most " + std::to_string(kHostsMax) +
                        " and " + std::to_string(kSwitchesMax) + " are possible");
  }
}

}  // namespace

std::string topology_path(const std::string& named, const std::string& scenario_file) {
  std::error_code error;
  const std::filesystem::path beside = std::filesystem::path{scenario_file}.parent_path() / named;
  if (std::filesystem::exists(beside, error)) return beside.string();
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const std::filesystem::path ready = own / "../share/bitmaprdma/topologies" / (named + ".toml");
  return std::filesystem::exists(ready, error) ? ready.string() : beside.string();
}

Shape make_shape(const Scenario& scenario) {
  const TopologyPlan& plan = scenario.topology;
  Builder builder{scenario};
  switch (plan.layout) {
    case Layout::kDumbbell:
      dumbbell(builder, plan);
      break;
    case Layout::kIncast:
      incast(builder, plan);
      break;
    case Layout::kLeafSpine:
      leaf_spine(builder, plan);
      break;
    case Layout::kFatTree:
      fat_tree(builder, plan);
      break;
    case Layout::kKAry:
      fat_tree(builder, fat_tree_of(plan));
      break;
    case Layout::kFile:
      from_file(builder, scenario);
      break;
  }
  Shape shape = builder.take();
  check_size(shape);
  return shape;
}

IpAddress host_address(std::uint32_t at, std::uint32_t number) {
  const std::uint32_t low = at << 12 | (number + 1);
  return IpAddress::v4(10, static_cast<std::uint8_t>(low >> 16), static_cast<std::uint8_t>(low >> 8),
                       static_cast<std::uint8_t>(low));
}

fabric::Prefix subnet(std::uint32_t at) { return fabric::Prefix::v4(host_address(at, 0), 20); }

// Costs of the switches to the one at `to`; kFar: no way.
std::vector<std::uint64_t> costs_to(const Shape& shape, std::uint32_t to) {
  std::vector<std::uint64_t> far(shape.switches.size(), kFar);
  far[to] = 0;
  for (bool nearer = true; nearer;) {
    nearer = false;
    for (const Shape::Link& link : shape.links) {
      for (const auto& ends : {std::pair{link.a, link.b}, std::pair{link.b, link.a}}) {
        if (far[ends.second] == kFar || far[ends.second] + link.cost >= far[ends.first]) continue;
        far[ends.first] = far[ends.second] + link.cost;
        nearer = true;
      }
    }
  }
  return far;
}

std::vector<std::vector<std::uint32_t>> next_switches(const Shape& shape, std::uint32_t to) {
  const std::vector<std::uint64_t> far = costs_to(shape, to);
  std::vector<std::vector<std::uint32_t>> next(shape.switches.size());
  for (const Shape::Link& link : shape.links) {
    for (const auto& ends : {std::pair{link.a, link.b}, std::pair{link.b, link.a}}) {
      if (far[ends.second] == kFar || far[ends.second] + link.cost != far[ends.first]) continue;
      next[ends.first].push_back(ends.second);
    }
  }
  for (auto& each : next) {
    std::sort(each.begin(), each.end());
    each.erase(std::unique(each.begin(), each.end()), each.end());
  }
  return next;
}

std::vector<Hop> hops(const Shape& shape, std::uint32_t from, std::uint32_t to) {
  const auto hop = [](const fabric::LinkConfig& link) { return Hop{link.rate.value_or(Bandwidth{}), link.delay}; };
  std::vector<Hop> path{hop(shape.hosts[from].up)};
  const auto next = next_switches(shape, shape.hosts[to].at);
  for (std::uint32_t at = shape.hosts[from].at; at != shape.hosts[to].at;) {
    if (next[at].empty()) return {};
    const std::uint32_t there = next[at].front();
    const auto link = std::find_if(shape.links.begin(), shape.links.end(), [&](const Shape::Link& each) {
      return (each.a == at && each.b == there) || (each.a == there && each.b == at);
    });
    path.push_back(hop(link->config));
    at = there;
  }
  path.push_back(hop(shape.hosts[to].down));
  return path;
}

}  // namespace brdma::simulator
