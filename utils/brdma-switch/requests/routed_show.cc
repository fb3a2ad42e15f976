#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "io/shard/clock.h"
#include "requests/control_show.h"
#include "requests/routed_control.h"
#include "topology/prefix_text.h"

namespace brdma::lab {
namespace {

using Json = nlohmann::ordered_json;

// Adds the numbers of `more` to those of `sum`, recursively.
void add_numbers(Json& sum, const Json& more) {
  for (const auto& [name, value] : more.items()) {
    if (value.is_object()) {
      if (!sum.contains(name)) sum[name] = Json::object();
      add_numbers(sum[name], value);
    } else if (value.is_number_unsigned()) {
      sum[name] = sum.value(name, std::uint64_t{0}) + value.get<std::uint64_t>();
    }
  }
}

Json direction_json(const RoutedCore::Fabric::Way& way, const std::string& from, const std::string& to,
                    std::uint32_t classes) {
  Json json{{"from", from}, {"to", to}};
  json.update(link_json(way.link.counters()));
  json["refused_down"] = way.cut.refused;
  json["lost_in_flight"] = way.cut.lost_in_flight;
  json["pending"] = way.link.pending();
  json["queue"] = queue_json(way.link.queue(), classes);
  return json;
}

std::string end_name(const RoutedCore& core, const RoutedCore::Fabric::End& end) {
  return end.is_host ? "h" + std::to_string(end.number + 1) : core.topology().switches[end.number];
}

Json links_json(RoutedCore& core) {
  Json links = Json::array();
  const std::uint32_t classes = core.config().link.classes.count;
  for (std::uint32_t link = 0; link < core.topology().link_count(); ++link) {
    Json options = Json::object();
    for (const auto& option : fabric::network_options()) {
      const std::string name{option.name};
      const bool known =
          core.topology().is_host_link(link) ? fabric::is_host_link_option(name) : fabric::is_link_option(name);
      if (known) options[name] = fabric::get_option(core.link_config(link), name);
    }
    Json directions = Json::array();
    for (const bool back : {false, true}) {
      const auto& way = core.fabric().direction(link, back);
      directions.push_back(direction_json(way, end_name(core, way.from), end_name(core, way.to), classes));
    }
    const std::uint32_t hosts = static_cast<std::uint32_t>(core.topology().hosts.size());
    links.push_back({{"link", fabric::link_name(core.topology(), link)},
                     {"up", core.fabric().is_up(link)},
                     {"cost", link < hosts ? 1 : core.topology().links[link - hosts].cost},
                     {"options", std::move(options)},
                     {"directions", std::move(directions)}});
  }
  return links;
}

Json link_state_json(const RoutedCore& core, std::uint32_t at, const std::vector<fabric::TopologyPort>& ports) {
  const auto& agent = core.node(at).agent;
  if (!agent) return nullptr;
  Json json = Json::object(), states = Json::array();
#define BRDMA_X(member) json[#member] = agent->counters().member;
  BRDMA_LINK_STATE_COUNTERS(BRDMA_X)
#undef BRDMA_X
  for (std::uint32_t port = 0; port < ports.size(); ++port) {
    const fabric::PortState& state = agent->state(port);
    states.push_back({{"port", ports[port].name},
                      {"up", state.up},
                      {"over_limits", state.over_limits},
                      {"rate", state.rate},
                      {"speed", state.speed},
                      {"load", state.load},
                      {"queue", state.queue},
                      {"queue_limit", state.queue_limit},
                      {"drops", state.drops},
                      {"switch_speed", state.switch_speed}});
  }
  json["ports"] = std::move(states);
  return json;
}

Json switches_json(RoutedCore& core) {
  Json switches = Json::array();
  for (std::uint32_t at = 0; at < core.topology().switches.size(); ++at) {
    fabric::Router& router = core.fabric().router(at);
    const auto ports = fabric::ports_of(core.topology(), at);
    Json names = Json::array(), routes = Json::array();
    for (const auto& port : ports) names.push_back(port.name);
    for (const auto& route : router.table().routes()) {
      Json via = Json::array();
      for (const std::uint32_t port : route.used()) via.push_back(ports[port].name);
      routes.push_back({{"prefix", topology::print_prefix(route.prefix)}, {"via", std::move(via)}});
    }
    const auto& counters = router.counters();
    const auto& node = core.node(at);
    switches.push_back(
        {{"switch", core.topology().switches[at]},
         {"id", at + 1},
         {"subnets",
          {topology::print_prefix(fabric::subnet_ipv4(at)), topology::print_prefix(fabric::subnet_ipv6(at))}},
         {"ports", std::move(names)},
         {"received", counters.received},
         {"forwarded", counters.forwarded},
         {"no_route", counters.no_route},
         {"hops_spent", counters.hops_spent},
         {"not_ip", counters.not_ip},
         {"routes", std::move(routes)},
         {"buffer", {{"used", core.fabric().buffer(at).used()}, {"most", core.fabric().buffer(at).most()}}},
         {"processing", processing_json(core.fabric().processing(at))},
         {"ecn", ecn_json(node.actions)},
         {"edn", edn_json(node.notices.notifier())},
         {"flows", flows_json(node.actions.flows())},
         {"link_state", link_state_json(core, at, ports)}});
  }
  return switches;
}

}  // namespace

// Keys that a lab with one switch has too mean the same here: "hosts" is each host's own link, sums go over all
// switches.
Json show_routed(RoutedCore& core, DataLoop& loop) {
  core.fabric().advance(io::monotonic_now());
  const std::uint32_t classes = core.config().link.classes.count;
  Json hosts = Json::array(), total_trouble = Json::object();
  fabric::LinkCounters total;
  for (std::uint32_t host = 0; host < core.topology().hosts.size(); ++host) {
    const auto& up = core.fabric().direction(host, false).link;
    const auto& down = core.fabric().direction(host, true).link;
    const Json trouble = trouble_json(loop.trouble(host));
    add_numbers(total_trouble, trouble);
    hosts.push_back({{"host", loop.specs()[host].host},
                     {"from_host", link_json(up.counters())},
                     {"to_host", link_json(down.counters())},
                     {"paths", {link_json(down.counters())}},
                     {"queue", queue_json(down.queue(), classes)},
                     {"switch_trouble", trouble}});
  }
  for (std::uint32_t link = 0; link < core.topology().link_count(); ++link) {
    for (const bool back : {false, true}) total += core.fabric().direction(link, back).link.counters();
  }
  Json switches = switches_json(core), ecn = Json::object(), edn = Json::object(), buffer = Json::object(),
       processing = Json::object();
  for (const Json& each : switches) {
    add_numbers(ecn, each.at("ecn"));
    add_numbers(edn, each.at("edn"));
    add_numbers(buffer, each.at("buffer"));
    add_numbers(processing, each.at("processing"));
  }
  return {{"ok", true},
          {"network", describe_network(core.config())},
          {"hosts", std::move(hosts)},
          {"switches", std::move(switches)},
          {"links", links_json(core)},
          {"total", link_json(total)},
          {"buffer", std::move(buffer)},
          {"processing", std::move(processing)},
          {"ecn", std::move(ecn)},
          {"flows", nullptr},
          {"edn", std::move(edn)},
          {"switch_trouble", std::move(total_trouble)}};
}

}  // namespace brdma::lab
