#include "run/network_of.h"

#include <algorithm>
#include <memory>
#include <string>

#include "scenario/table_reader.h"

namespace brdma::simulator {
namespace {

constexpr std::uint64_t kRoomyQueue = 1u << 30;

// While connections are made.
fabric::LinkConfig quiet(const fabric::LinkConfig& config) {
  fabric::LinkConfig quiet = config;
  quiet.impairments = {};
  quiet.marking.reset();
  quiet.random_drop.reset();
  quiet.queue_bytes = kRoomyQueue;
  return quiet;
}

// In the order in which make_network() joins, which is the order of the network's links.
std::vector<fabric::LinkConfig> all_links(const Shape& shape) {
  std::vector<fabric::LinkConfig> all;
  for (const Shape::Link& link : shape.links) all.insert(all.end(), 2, link.config);
  for (const Shape::Host& host : shape.hosts) {
    all.push_back(host.up);
    all.push_back(host.down);
  }
  return all;
}

void add_routes(sim::RoutedNetwork& network, const Shape& shape, const std::vector<sim::RouterNode*>& routers,
                std::uint32_t to) {
  const auto next = next_switches(shape, to);
  for (std::uint32_t at = 0; at < routers.size(); ++at) {
    if (next[at].empty()) continue;
    if (next[at].size() > fabric::ForwardingTable::kPortsMax) {
      throw ScenarioError("switch " + shape.switches[at] + " has " + std::to_string(next[at].size()) +
                          " equal-cost paths; at most " + std::to_string(fabric::ForwardingTable::kPortsMax) +
                          " are possible");
    }
    std::vector<sim::RouterNode*> neighbours;
    for (const std::uint32_t each : next[at]) neighbours.push_back(routers[each]);
    network.add_route(*routers[at], subnet(to), neighbours);
  }
}

bool is_notified(const Scenario& scenario) {
  return scenario.protocol.notified() || std::any_of(scenario.groups.begin(), scenario.groups.end(),
                                                     [](const GroupPlan& group) { return group.protocol.notified(); });
}

void translate(const Scenario& scenario, sim::RouterNode& router) {
  const auto ports = static_cast<std::uint32_t>(router.ports.size());
  const auto increment = fabric::increment_of(scenario.network, ports, scenario.network.link.rate);
  if (!increment) return;
  fabric::RttTranslator::Config config;
  config.increment = *increment;
  config.rewrite = scenario.network.ecn_to_rtt->rewrite;
  router.translator = std::make_unique<fabric::RttTranslator>(config);
}

}  // namespace

std::vector<sim::RouterNode*> make_network(sim::RoutedNetwork& network, const Scenario& scenario, const Shape& shape,
                                           const std::vector<sim::Station*>& hosts) {
  std::vector<sim::RouterNode*> routers;
  for (std::size_t i = 0; i < shape.switches.size(); ++i)
    routers.push_back(&network.add_router(scenario.network.buffer));
  for (const Shape::Link& link : shape.links) {
    network.join(*routers[link.a], *routers[link.b], quiet(link.config), quiet(link.config));
  }
  std::vector<bool> has_hosts(shape.switches.size());
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const Shape::Host& host = shape.hosts[i];
    network.join(*hosts[i], *routers[host.at], quiet(host.up), quiet(host.down));
    has_hosts[host.at] = true;
  }
  for (std::uint32_t to = 0; to < routers.size(); ++to) {
    if (has_hosts[to]) add_routes(network, shape, routers, to);
  }
  return routers;
}

void apply_faults(sim::RoutedNetwork& network, const Scenario& scenario, const Shape& shape,
                  const std::vector<sim::RouterNode*>& routers) {
  const std::vector<fabric::LinkConfig> all = all_links(shape);
  std::size_t next = 0;
  network.configure_all([&](fabric::LinkConfig& config) { config = all[next++]; });
  const fabric::EdnForm form = scenario.network.edn != fabric::EdnForm::kOff || !is_notified(scenario)
                                   ? scenario.network.edn
                                   : fabric::EdnForm::kRoce;
  if (form != fabric::EdnForm::kOff) network.notify_drops({.form = form});
  for (sim::RouterNode* const router : routers) {
    translate(scenario, *router);
    router->processor.configure(scenario.network.switch_rate);
  }
}

}  // namespace brdma::simulator
