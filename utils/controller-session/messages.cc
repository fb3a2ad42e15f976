#include "controller-session/messages.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

namespace brdma::session {
namespace {

using Json = nlohmann::json;

// Thrown by the readers below and caught in parse_message(): a peer's mistake, never a caller's.
struct Mistake : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const Json& member(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) throw Mistake(std::string("no ") + name);
  return *found;
}
const Json& object_of(const Json& json) {
  if (!json.is_object()) throw Mistake("an object was expected");
  return json;
}
std::uint64_t number(const Json& object, const char* name) {
  const Json& value = member(object, name);
  if (!value.is_number_unsigned()) throw Mistake(std::string(name) + ": a number was expected");
  return value.get<std::uint64_t>();
}
std::uint32_t small_number(const Json& object, const char* name) {
  const std::uint64_t value = number(object, name);
  if (value > 0xFFFF'FFFF) throw Mistake(std::string(name) + ": too large");
  return static_cast<std::uint32_t>(value);
}
bool truth(const Json& object, const char* name) {
  const Json& value = member(object, name);
  if (!value.is_boolean()) throw Mistake(std::string(name) + ": true or false was expected");
  return value.get<bool>();
}
const std::string& words(const Json& value, const char* what) {
  if (!value.is_string()) throw Mistake(std::string(what) + ": a string was expected");
  return value.get_ref<const std::string&>();
}
std::string name(const Json& value, const char* what) {
  const std::string& text = words(value, what);
  if (!good_name(text)) throw Mistake(std::string(what) + ": not a name");
  return text;
}
std::string name_of(const Json& object, const char* key) { return name(member(object, key), key); }
IpAddress address(const Json& value) {
  const auto parsed = parse_address(words(value, "address"));
  if (!parsed) throw Mistake("not an address");
  return *parsed;
}
fabric::Prefix prefix(const Json& value) {
  const auto parsed = parse_prefix(words(value, "prefix"));
  if (!parsed) throw Mistake("not a prefix");
  return *parsed;
}
template <class Value, class Read>
std::vector<Value> list(const Json& object, const char* key, std::size_t max, Read read) {
  const Json& array = member(object, key);
  if (!array.is_array()) throw Mistake(std::string(key) + ": a list was expected");
  if (array.size() > max) throw Mistake(std::string(key) + ": too long");
  std::vector<Value> values;
  values.reserve(array.size());
  for (const Json& each : array) values.push_back(read(each));
  return values;
}

ctl::LinkReport link_report(const Json& json) {
  return {truth(json, "up"),     number(json, "rate"),        number(json, "speed"), number(json, "load"),
          number(json, "queue"), number(json, "queue_limit"), number(json, "drops")};
}
ctl::PortReport port_report(const Json& json) { return {name_of(object_of(json), "port"), link_report(json)}; }
ctl::PortRoute port_route(const Json& json) {
  return {prefix(member(object_of(json), "prefix")),
          list<std::string>(json, "ports", fabric::ForwardingTable::kPortsMax,
                            [](const Json& port) { return name(port, "port"); })};
}
ctl::FlowEnds flow(const Json& json) {
  return {address(member(object_of(json), "source")), address(member(json, "destination"))};
}
ctl::HopReport hop(const Json& json) {
  return {small_number(object_of(json), "switch"), small_number(json, "port"), link_report(json)};
}
ctl::PortPeer port_peer(const Json& json) {
  const std::uint64_t rate = number(object_of(json), "rate"), delay = number(json, "delay_ns");
  constexpr std::uint64_t kDelayMax = 10'000'000'000;
  if (delay > kDelayMax) throw Mistake("delay_ns: too large");
  return {name_of(json, "port"),
          name_of(json, "peer_switch"),
          name_of(json, "peer_port"),
          {Bandwidth::from_bps(rate), Duration::from_ns(static_cast<std::int64_t>(delay))},
          small_number(json, "number")};
}

Message greeting(const Json& json) {
  const std::uint32_t version = small_number(json, "version");
  if (version != kVersion) throw Mistake("version " + std::to_string(version) + " is not spoken here");
  const std::string& role = words(member(json, "role"), "role");
  if (role == "host") {
    return HostGreeting{
        version, {name_of(json, "id"), list<IpAddress>(json, "addresses", ctl::Controller::kAddressesMax, address)}};
  }
  if (role != "switch") throw Mistake("role: switch or host was expected");
  SwitchGreeting greeting{version, {}};
  greeting.hello = {name_of(json, "id"),
                    number(json, "epoch"),
                    list<ctl::PortPeer>(json, "links", kPortsMax, port_peer),
                    list<fabric::Prefix>(json, "prefixes", kPortsMax, prefix),
                    list<ctl::PortRoute>(json, "routes", kRoutesMax, port_route),
                    small_number(json, "number")};
  return greeting;
}

Message read(const Json& json) {
  const std::string& type = words(member(object_of(json), "type"), "type");
  if (type == "alive") return Alive{};
  if (type == "hello") return greeting(json);
  if (type == "welcome") return Welcome{small_number(json, "version")};
  if (type == "installed") return RoutesInstalled{number(json, "epoch"), truth(json, "installed")};
  if (type == "links") return LinkReports{list<ctl::PortReport>(json, "ports", kPortsMax, port_report)};
  if (type == "active") return ActiveFeedback{port_report(json), list<ctl::FlowEnds>(json, "flows", kFlowsMax, flow)};
  if (type == "passive") return PassiveFeedback{flow(json), list<ctl::HopReport>(json, "hops", kHopsMax, hop)};
  if (type == "routes") {
    return Routes{number(json, "epoch"), list<ctl::PortRoute>(json, "routes", kRoutesMax, port_route)};
  }
  if (type == "control") {
    return ControlPacket{address(member(json, "destination")), small_number(json, "congested_links")};
  }
  throw Mistake("no such message");
}

Json report_json(const ctl::LinkReport& report) {
  return {{"up", report.up},      {"rate", report.rate},   {"speed", report.speed},
          {"load", report.load},  {"queue", report.queue}, {"queue_limit", report.queue_limit},
          {"drops", report.drops}};
}
Json port_json(const ctl::PortReport& report) {
  Json json = report_json(report.report);
  json["port"] = report.port;
  return json;
}
Json flow_json(const ctl::FlowEnds& ends) {
  return {{"source", print_address(ends.source)}, {"destination", print_address(ends.destination)}};
}
Json routes_json(const std::vector<ctl::PortRoute>& routes) {
  Json array = Json::array();
  for (const auto& route : routes) array.push_back({{"prefix", prefix_text(route.prefix)}, {"ports", route.ports}});
  return array;
}

Json json_of(const Alive&) { return {{"type", "alive"}}; }
Json json_of(const Welcome& welcome) { return {{"type", "welcome"}, {"version", welcome.version}}; }
Json json_of(const HostGreeting& greeting) {
  Json addresses = Json::array();
  for (const IpAddress& each : greeting.hello.addresses) addresses.push_back(print_address(each));
  return {{"type", "hello"},
          {"version", greeting.version},
          {"role", "host"},
          {"id", greeting.hello.id},
          {"addresses", std::move(addresses)}};
}
Json json_of(const SwitchGreeting& greeting) {
  const ctl::SwitchHello& hello = greeting.hello;
  Json links = Json::array(), prefixes = Json::array();
  for (const ctl::PortPeer& link : hello.links) {
    links.push_back({{"port", link.port},
                     {"peer_switch", link.peer_switch},
                     {"peer_port", link.peer_port},
                     {"rate", link.facts.rate.bps()},
                     {"delay_ns", static_cast<std::uint64_t>(link.facts.delay.ns())},
                     {"number", link.number}});
  }
  for (const fabric::Prefix& each : hello.prefixes) prefixes.push_back(prefix_text(each));
  return {{"type", "hello"}, {"version", greeting.version}, {"role", "switch"},
          {"id", hello.id},  {"number", hello.number},      {"epoch", hello.epoch},
          {"links", links},  {"prefixes", prefixes},        {"routes", routes_json(hello.routes)}};
}
Json json_of(const RoutesInstalled& done) {
  return {{"type", "installed"}, {"epoch", done.epoch}, {"installed", done.installed}};
}
Json json_of(const LinkReports& reports) {
  Json ports = Json::array();
  for (const ctl::PortReport& each : reports.ports) ports.push_back(port_json(each));
  return {{"type", "links"}, {"ports", std::move(ports)}};
}
Json json_of(const ActiveFeedback& feedback) {
  Json json = port_json(feedback.port), flows = Json::array();
  for (const ctl::FlowEnds& each : feedback.flows) flows.push_back(flow_json(each));
  json["type"] = "active";
  json["flows"] = std::move(flows);
  return json;
}
Json json_of(const PassiveFeedback& feedback) {
  Json json = flow_json(feedback.flow), hops = Json::array();
  for (const ctl::HopReport& each : feedback.hops) {
    Json entry = report_json(each.report);
    entry["switch"] = each.switch_number;
    entry["port"] = each.port_number;
    hops.push_back(std::move(entry));
  }
  json["type"] = "passive";
  json["hops"] = std::move(hops);
  return json;
}
Json json_of(const Routes& routes) {
  return {{"type", "routes"}, {"epoch", routes.epoch}, {"routes", routes_json(routes.routes)}};
}
Json json_of(const ControlPacket& packet) {
  return {{"type", "control"},
          {"destination", print_address(packet.destination)},
          {"congested_links", packet.congested_links}};
}

}  // namespace

bool good_name(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-' || c == ':';
  };
  return !name.empty() && name.size() <= kNameMax && std::ranges::all_of(name, good);
}

std::string prefix_text(const fabric::Prefix& prefix) {
  const bool v4 = prefix.address.is_v4() && prefix.length >= 96;
  return print_address(prefix.address) + "/" + std::to_string(v4 ? prefix.length - 96 : prefix.length);
}

std::optional<fabric::Prefix> parse_prefix(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto address = parse_address(text.substr(0, slash));
  unsigned length = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + slash + 1, end, length);
  if (!address || read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  const bool v4 = text.find(':') == std::string::npos;
  if (length > (v4 ? 32u : 128u)) return std::nullopt;
  return fabric::Prefix::of(*address, static_cast<std::uint8_t>(v4 ? 96 + length : length));
}

Parsed parse_message(std::string_view text) {
  Parsed parsed;
  if (text.size() > kMessageMax) {
    parsed.error = "too long";
    return parsed;
  }
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    parsed.message = read(json);
    parsed.ok = true;
  } catch (const Mistake& mistake) {
    parsed.error = mistake.what();
  }
  return parsed;
}

std::string message_text(const Message& message) {
  return std::visit([](const auto& each) { return json_of(each).dump(); }, message);
}

}  // namespace brdma::session
