#include "topology/topology_file.h"

#define TOML_EXCEPTIONS 0  // as everywhere here: programs link both
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "base/toml_text.h"
#include "topology/prefix_text.h"

namespace brdma::topology {
namespace {

using fabric::Topology;

class Parser {
 public:
  explicit Parser(std::string name) : name_(std::move(name)) {}

  Topology parse(const std::string& text) {
    if (const auto stray = stray_character(text))
      fail(static_cast<toml::source_index>(stray->line), std::string{stray->what});
    const toml::parse_result result = toml::parse(text, name_);
    if (!result) fail(result.error().source().begin.line, std::string{result.error().description()});
    const toml::table& root = result.table();
    for (const auto& [key, node] : root) {
      require_one_of(key, {"network", "switch", "host", "link", "route", "routing"});
    }
    if (const toml::table* table = root["network"].as_table()) {
      for (const auto& [key, node] : *table) topology_.network.push_back(option(key, node));
      check(*table, {});
    }
    each(root, "switch", [this](const toml::table& table) { take_switch(table); });
    each(root, "host", [this](const toml::table& table) { take_host(table); });
    each(root, "link", [this](const toml::table& table) { take_link(table); });
    each(root, "route", [this](const toml::table& table) { take_route(table); });
    if (const toml::table* table = root["routing"].as_table()) {
      for (const auto& [key, node] : *table) {
        require_one_of(key, {"shortest"});
        const auto value = node.value_exact<bool>();
        if (!value) fail(node.source().begin.line, "shortest: expected true or false");
        topology_.shortest_routes = *value;
      }
    }
    if (topology_.switches.empty()) fail(0, "no [[switch]]");
    if (topology_.hosts.empty()) fail(0, "no [[host]]");
    return std::move(topology_);
  }

 private:
  [[noreturn]] void fail(toml::source_index line, const std::string& what) const {
    throw TopologyError(name_ + (line == 0 ? "" : ":" + std::to_string(line)) + ": " + what);
  }
  static toml::source_index line_of(const toml::node& node) { return node.source().begin.line; }

  void require_one_of(const toml::key& key, std::initializer_list<std::string_view> allowed) const {
    if (std::find(allowed.begin(), allowed.end(), key.str()) != allowed.end()) return;
    std::string list;
    for (const std::string_view each : allowed) list.append(list.empty() ? "" : ", ").append(each);
    fail(key.source().begin.line, "unknown '" + std::string{key.str()} + "'; there is: " + list);
  }

  template <class Take>
  void each(const toml::table& root, std::string_view kind, Take take) {
    const toml::node* node = root.get(kind);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) fail(line_of(*node), "expected [[" + std::string{kind} + "]], with two brackets");
    for (const toml::node& element : *array) {
      const toml::table* table = element.as_table();
      if (table == nullptr) fail(line_of(element), "expected a table [[" + std::string{kind} + "]]");
      take(*table);
    }
  }

  std::string text_of(const toml::key& key, const toml::node& node) const {
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
    fail(line_of(node), std::string{key.str()} + ": expected a text");
  }

  // An option of NETWORK; checked alone.
  fabric::OptionValue option(const toml::key& key, const toml::node& node) const {
    fabric::OptionValue option{std::string{key.str()}, text_of(key, node)};
    fabric::NetworkConfig scratch;
    if (const auto error = fabric::set_option(scratch, option.name, option.value)) fail(line_of(node), *error);
    return option;
  }
  // Checked together: a link's options over the network's.
  void check(const toml::table& table, const std::vector<fabric::OptionValue>& options) const {
    fabric::NetworkConfig config;
    for (const auto& each : topology_.network) (void)fabric::set_option(config, each.name, each.value);
    for (const auto& each : options) (void)fabric::set_option(config, each.name, each.value);
    if (const auto error = fabric::check_network(config)) fail(line_of(table), *error);
  }
  void take_link_option(std::vector<fabric::OptionValue>& options, const toml::key& key, const toml::node& node) const {
    if (!fabric::is_link_option(key.str())) {
      fail(line_of(node), "'" + std::string{key.str()} + "' is no option of a link");
    }
    options.push_back(option(key, node));
  }
  void take_host_option(std::vector<fabric::OptionValue>& options, const toml::key& key, const toml::node& node) const {
    if (!fabric::is_host_link_option(key.str())) {
      fail(line_of(node), "'" + std::string{key.str()} + "' is no option of a host's link");
    }
    options.push_back(option(key, node));
  }

  void take_switch(const toml::table& table) {
    for (const auto& [key, node] : table) require_one_of(key, {"name"});
    const auto name = table["name"].value_exact<std::string>();
    if (!name || !is_switch_name(*name)) {
      fail(line_of(table), "[[switch]] needs a name: a letter, then letters, digits or '_', 15 at most, not like h1");
    }
    if (fabric::find_switch(topology_, *name)) fail(line_of(table), "two switches '" + *name + "'");
    if (topology_.switches.size() == fabric::kTopologySwitchesMax) fail(line_of(table), "too many switches");
    topology_.switches.push_back(*name);
  }
  static bool is_switch_name(std::string_view name) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    if (name.empty() || name.size() > 15 || !letter(name[0])) return false;
    if (!std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c) || c == '_'; })) return false;
    return name[0] != 'h' || name.size() == 1 || !std::all_of(name.begin() + 1, name.end(), digit);
  }
  std::uint32_t switch_of(const toml::node& where, const std::optional<std::string>& name) const {
    const auto found = name ? fabric::find_switch(topology_, *name) : std::nullopt;
    if (!found) fail(line_of(where), name ? "no switch '" + *name + "'" : "needs the name of a switch");
    return *found;
  }

  void take_host(const toml::table& table) {
    Topology::Host host;
    host.at = switch_of(table, table["switch"].value_exact<std::string>());
    for (const auto& [key, node] : table) {
      if (key != "switch") take_host_option(host.options, key, node);
    }
    check(table, host.options);
    if (topology_.hosts.size() == fabric::kTopologyHostsMax) fail(line_of(table), "too many hosts");
    topology_.hosts.push_back(std::move(host));
  }

  void take_link(const toml::table& table) {
    Topology::Link link;
    const toml::array* ends = table["between"].as_array();
    if (ends == nullptr || ends->size() != 2) fail(line_of(table), "[[link]] needs between = [\"s1\", \"s2\"]");
    link.a = switch_of(table, (*ends)[0].value_exact<std::string>());
    link.b = switch_of(table, (*ends)[1].value_exact<std::string>());
    if (link.a == link.b) fail(line_of(table), "a link from a switch to itself");
    for (const auto& [key, node] : table) {
      if (key == "between") continue;
      if (key == "cost") {
        const auto cost = node.value_exact<std::int64_t>();
        if (!cost || *cost < 1 || *cost > fabric::kLinkCostMax) fail(line_of(node), "cost: 1 to 1000000");
        link.cost = static_cast<std::uint32_t>(*cost);
      } else {
        take_link_option(link.options, key, node);
      }
    }
    check(table, link.options);
    if (topology_.links.size() == fabric::kTopologyLinksMax) fail(line_of(table), "too many links");
    topology_.links.push_back(std::move(link));
  }

  void take_route(const toml::table& table) {
    for (const auto& [key, node] : table) require_one_of(key, {"switch", "prefix", "via"});
    Topology::Route route;
    route.at = switch_of(table, table["switch"].value_exact<std::string>());
    const auto prefix = parse_prefix(table["prefix"].value_or(std::string{}));
    if (!prefix) fail(line_of(table), "[[route]] needs a prefix such as 10.77.2.0/24");
    route.prefix = *prefix;
    const toml::array* via = table["via"].as_array();
    if (via == nullptr || via->empty() || via->size() > fabric::ForwardingTable::kPortsMax) {
      fail(line_of(table), "[[route]] needs via, a list of 1 to 16 ports");
    }
    for (const toml::node& node : *via) {
      const auto port = fabric::find_port(topology_, route.at, node.value_or(std::string{}));
      if (!port) fail(line_of(node), "via: " + topology_.switches[route.at] + " has no such port");
      route.ports.push_back(*port);
    }
    topology_.routes.push_back(std::move(route));
  }

  std::string name_;
  Topology topology_;
};

}  // namespace

Topology parse_topology(const std::string& text, const std::string& name) {
  if (text.size() > kTextMax) throw TopologyError(name + ": longer than 64 KiB");
  return Parser{name}.parse(text);
}

}  // namespace brdma::topology
