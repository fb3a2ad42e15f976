#include "requests/routed_control.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "requests/control.h"
#include "requests/control_show.h"
#include "topology/prefix_text.h"

namespace brdma::lab {
namespace {

using Json = nlohmann::ordered_json;
using fabric::Prefix;
using Ports = std::vector<std::uint32_t>;

std::string text_of(const nlohmann::json& request, const char* key) {
  const auto found = request.find(key);
  return found != request.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

// Sets the network's options; those of links also apply to every link between switches.
Json set(const nlohmann::json& request, RoutedCore& core) {
  fabric::NetworkConfig config = core.config();
  if (const auto error = take_options(request, config)) return failure(*error);
  std::vector<fabric::NetworkConfig> links;
  for (std::uint32_t link = 0; link < core.topology().link_count(); ++link) {
    links.push_back(core.link_config(link));
    for (const auto& [name, value] : request.at("options").items()) {
      if (fabric::is_link_option(name) && core.topology().is_host_link(link)) continue;
      (void)fabric::set_option(links.back(), name, value.get<std::string>());
    }
    if (const auto error = fabric::check_network(links.back())) {
      return failure(fabric::link_name(core.topology(), link) + ": " + *error);
    }
  }
  core.configure(config, std::move(links));
  return {{"ok", true}, {"network", describe_network(config)}};
}

// The first option that a link of its kind does not have, as an error.
std::optional<std::string> option_of_other_links(const nlohmann::json& options, bool of_host) {
  for (const auto& [option, value] : options.items()) {
    if (of_host ? fabric::is_host_link_option(option) : fabric::is_link_option(option)) continue;
    return "'" + option + "' is no option of " + (of_host ? "a host's link" : "a link between switches");
  }
  return std::nullopt;
}

Json link(const nlohmann::json& request, RoutedCore& core) {
  const std::string name = text_of(request, "link"), state = text_of(request, "state");
  const auto number = fabric::find_link(core.topology(), name);
  if (!number) return failure("no link '" + name + "'");
  if (request.contains("state") && state != "up" && state != "down") return failure("state: expected up or down");
  fabric::NetworkConfig config = core.link_config(*number);
  if (request.contains("options")) {
    const bool of_host = core.topology().is_host_link(*number);
    if (const auto error = option_of_other_links(request.at("options"), of_host)) return failure(*error);
    if (const auto error = take_options(request, config)) return failure(*error);
    core.configure_link(*number, config);
  }
  if (!state.empty()) core.set_link_up(*number, state == "up");
  return {{"ok", true}, {"link", fabric::link_name(core.topology(), *number)}, {"up", core.fabric().is_up(*number)}};
}

// "via" of a route: numbers of ports, or the error.
std::variant<Ports, std::string> ports_of_via(const nlohmann::json& route, const RoutedCore& core, std::uint32_t at) {
  const auto via = route.find("via");
  if (via == route.end() || !via->is_array() || via->empty() || via->size() > fabric::ForwardingTable::kPortsMax) {
    return "via: expected 1 to 16 ports";
  }
  Ports ports;
  for (const auto& name : *via) {
    const std::string text = name.is_string() ? name.get<std::string>() : std::string{};
    const auto port = fabric::find_port(core.topology(), at, text);
    if (!port) return core.topology().switches[at] + " has no port '" + text + "'";
    ports.push_back(*port);
  }
  return ports;
}

struct Change {
  Prefix prefix;
  Ports ports;  // none: the route is deleted
  bool added = false;
};

// One entry of the list of this action, checked against the table; or the error.
std::variant<Change, std::string> change_of(const nlohmann::json& each, std::string_view action, RoutedCore& core,
                                            std::uint32_t at) {
  const std::string text = each.is_object() ? text_of(each, "prefix") : std::string{};
  const auto prefix = topology::parse_prefix(text);
  if (!prefix) return "prefix '" + text + "': expected one such as 10.77.2.0/24 or fd77:0:0:2::/64";
  const bool known = core.fabric().router(at).table().find(*prefix) != nullptr;
  if (action == "add" && known) return "there is a route to " + text + " already: replace it";
  if (action == "del") {
    if (!known) return "there is no route to " + text;
    return Change{*prefix, {}};
  }
  auto ports = ports_of_via(each, core, at);
  if (auto* error = std::get_if<std::string>(&ports)) return std::move(*error);
  return Change{*prefix, std::get<Ports>(std::move(ports)), !known};
}

// All entries of the request's lists, or the first error.
std::variant<std::vector<Change>, std::string> changes_of(const nlohmann::json& request, RoutedCore& core,
                                                          std::uint32_t at) {
  std::vector<Change> changes;
  for (const char* const action : {"add", "replace", "del"}) {
    const auto list = request.find(action);
    if (list == request.end()) continue;
    if (!list->is_array()) return std::string{action} + ": expected an array";
    for (const auto& each : *list) {
      auto change = change_of(each, action, core, at);
      if (auto* error = std::get_if<std::string>(&change)) return std::move(*error);
      changes.push_back(std::get<Change>(std::move(change)));
    }
  }
  return changes;
}

void apply_changes(fabric::ForwardingTable& table, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    if (change.ports.empty()) {
      (void)table.remove(change.prefix);
    } else {
      (void)table.set(change.prefix, change.ports);
    }
  }
}

// One switch's routes, all of the changes or none. Packets in flight stay where they are: new routes apply to packets
// that reach the switch from now on.
Json routes(const nlohmann::json& request, RoutedCore& core) {
  const auto at = fabric::find_switch(core.topology(), text_of(request, "switch"));
  if (!at) return failure("no switch '" + text_of(request, "switch") + "'");
  auto& table = core.fabric().router(*at).table();
  const auto found = changes_of(request, core, *at);
  if (const auto* error = std::get_if<std::string>(&found)) return failure(*error);
  const auto& changes = std::get<std::vector<Change>>(found);
  const auto added = static_cast<std::size_t>(std::ranges::count_if(changes, &Change::added));
  if (changes.empty()) return failure("expected add, replace or del");
  if (table.size() + added > fabric::ForwardingTable::kRoutesMax) return failure("the table is full");
  apply_changes(table, changes);
  return {{"ok", true}, {"switch", core.topology().switches[*at]}, {"changed", changes.size()}};
}

}  // namespace

Json answer_routed(const nlohmann::json& request, RoutedCore& core, DataLoop& loop) {
  const std::string command = request.at("command");
  if (command == "show") return show_routed(core, loop);
  if (command == "set") return set(request, core);
  if (command == "link") return link(request, core);
  if (command == "routes") return routes(request, core);
  return failure("unknown command '" + command + "'");
}

}  // namespace brdma::lab
