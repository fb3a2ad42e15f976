#include "report.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "control/address_text.h"
#include "io/shard/clock.h"

namespace brdma::controller_program {
namespace {

using Json = nlohmann::ordered_json;
using session::prefix_text;

// Sorted by the named members. The map's own order is that of the switches' hellos, which differs from run to run.
Json sorted(Json list, std::initializer_list<const char*> by) {
  std::sort(list.begin(), list.end(), [&](const Json& a, const Json& b) {
    for (const char* each : by)
      if (a.at(each) != b.at(each)) return a.at(each) < b.at(each);
    return false;
  });
  return list;
}

Json switches_json(const ctl::Controller& controller) {
  const ctl::NetworkMap& map = controller.map();
  Json switches = Json::array();
  for (ctl::SwitchIndex i = 0; i < map.switches().size(); ++i) {
    Json routes = Json::array();
    for (const auto& [prefix, links] : controller.state(i).installed) {
      Json via = Json::array();
      for (const ctl::LinkIndex link : links) via.push_back(map.links()[link].port);
      routes.push_back({{"prefix", prefix_text(map.prefixes()[prefix])}, {"via", std::move(via)}});
    }
    switches.push_back({{"switch", map.switches()[i]},
                        {"connected", controller.state(i).connected},
                        {"routes", sorted(std::move(routes), {"prefix"})}});
  }
  return sorted(std::move(switches), {"switch"});
}

Json links_json(const ctl::Controller& controller) {
  const ctl::NetworkMap& map = controller.map();
  const Instant now = io::monotonic_now();
  Json links = Json::array();
  for (ctl::LinkIndex i = 0; i < map.links().size(); ++i) {
    const ctl::Link& link = map.links()[i];
    const ctl::LinkHealth& health = controller.health(i);
    const ctl::LinkReport& last = health.last();
    Json age;  // null: nothing was received recently
    if (health.last_report()) age = (now - *health.last_report()).ns() / 1'000'000;
    links.push_back({{"from", map.switches()[link.from]},
                     {"port", link.port},
                     {"to", map.switches()[link.to]},
                     {"delay_ns", link.delay.ns()},
                     {"usable", controller.usable(i)},
                     {"congested", health.congested()},
                     {"rate", last.rate},
                     {"speed", last.speed},
                     {"load", last.load},
                     {"queue", last.queue},
                     {"queue_limit", last.queue_limit},
                     {"drops", last.drops},
                     {"age_ms", std::move(age)}});
  }
  return sorted(std::move(links), {"from", "port"});
}

Json prefixes_json(const ctl::Controller& controller) {
  const ctl::NetworkMap& map = controller.map();
  Json prefixes = Json::array();
  for (ctl::PrefixIndex i = 0; i < map.prefixes().size(); ++i) {
    Json behind = Json::array();
    for (const ctl::SwitchIndex each : map.attachments(i)) behind.push_back(map.switches()[each]);
    prefixes.push_back({{"prefix", prefix_text(map.prefixes()[i])},
                        {"behind", std::move(behind)},
                        {"changing", controller.changing(i)}});
  }
  return sorted(std::move(prefixes), {"prefix"});
}

Json hosts_json(const ctl::Controller& controller) {
  Json hosts = Json::array();
  for (const auto& [id, host] : controller.hosts()) {
    Json addresses = Json::array();
    for (const IpAddress& each : host.addresses) addresses.push_back(print_address(each));
    hosts.push_back({{"host", id}, {"addresses", std::move(addresses)}});
  }
  return hosts;
}

Json counters_json(const Server& server) {
  Json counters = Json::object();
#define BRDMA_X(member) counters[#member] = server.controller().counters().member;
  BRDMA_CONTROLLER_COUNTERS(BRDMA_X)
#undef BRDMA_X
#define BRDMA_X(member) counters[#member] = server.counters().member;
  BRDMA_SESSION_COUNTERS(BRDMA_X)
#undef BRDMA_X
  return counters;
}

// Names have no character that Prometheus requires to be escaped (session::good_name).
std::string label(const char* name, const std::string& value) { return std::string(name) + "=\"" + value + "\""; }

const char* flag_text(bool flag) { return flag ? "1" : "0"; }

// Prometheus has numbers only.
std::string value_text(const Json& value) { return value.is_boolean() ? flag_text(value.get<bool>()) : value.dump(); }

}  // namespace

Json state_json(const Server& server) {
  const ctl::Controller& controller = server.controller();
  return {{"ok", true},
          {"epoch", controller.epoch()},
          {"recovering", controller.recovering()},
          {"congested_links", controller.congested_links()},
          {"congested_links_max", controller.settings().congested_links_max},
          {"switches", switches_json(controller)},
          {"links", links_json(controller)},
          {"prefixes", prefixes_json(controller)},
          {"hosts", hosts_json(controller)},
          {"counters", counters_json(server)}};
}

std::string metrics_text(const Server& server) {
  std::string text;
  const auto head = [&text](const std::string& name, const char* type) {
    text += "# TYPE brdma_controller_" + name + " " + type + "\n";
  };
  const auto line = [&text](const std::string& name, const std::string& labels, const std::string& value) {
    text += "brdma_controller_" + name + (labels.empty() ? "" : "{" + labels + "}") + " " + value + "\n";
  };
  const Json counters = counters_json(server);
  for (const auto& [name, value] : counters.items()) {
    head(name + "_total", "counter");
    line(name + "_total", "", value.dump());
  }
  const ctl::Controller& controller = server.controller();
  head("congested_links", "gauge");
  line("congested_links", "", std::to_string(controller.congested_links()));
  head("recovering", "gauge");
  line("recovering", "", flag_text(controller.recovering()));
  head("switch_connected", "gauge");
  for (ctl::SwitchIndex i = 0; i < controller.map().switches().size(); ++i) {
    line("switch_connected", label("switch", controller.map().switches()[i]), flag_text(controller.state(i).connected));
  }
  const Json links = links_json(controller);
  for (const char* gauge : {"usable", "congested", "rate", "speed", "load", "queue", "queue_limit", "drops"}) {
    head(std::string("link_") + gauge, "gauge");
    for (const Json& link : links) {
      line(std::string("link_") + gauge,
           label("switch", link["from"].get<std::string>()) + "," + label("port", link["port"].get<std::string>()),
           value_text(link[gauge]));
    }
  }
  return text;
}

}  // namespace brdma::controller_program
