#include "control/wan_report.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "control/address_text.h"
#include "control/report.h"

namespace brdma::control {
namespace {

double megabits(Bandwidth rate) { return static_cast<double>(rate.bps()) / 1e6; }

// Reads the member `key`, if it is a whole number that fits.
template <class Number>
bool take(const Json& json, const char* key, Number& number) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned()) return false;
  const auto value = found->get<std::uint64_t>();
  if (value > std::numeric_limits<Number>::max()) return false;
  number = static_cast<Number>(value);
  return true;
}

Json link_json(const recovery::LinkFacts& link) {
  return {{"hop", link.hop},          {"over_limits", link.over_limits},
          {"switch", link.switch_id}, {"port", link.port},
          {"speed", link.speed},      {"link_rate", link.link_rate},
          {"queue", link.queue},      {"queue_limit", link.queue_limit},
          {"drops", link.drops},      {"switch_speed", link.switch_speed}};
}

std::optional<recovery::LinkFacts> parse_link(const Json& json) {
  recovery::LinkFacts link;
  if (!json.is_object()) return std::nullopt;
  const auto over = json.find("over_limits");
  if (over == json.end() || !over->is_boolean()) return std::nullopt;
  link.over_limits = over->get<bool>();
  const bool whole = take(json, "hop", link.hop) && take(json, "switch", link.switch_id) &&
                     take(json, "port", link.port) && take(json, "speed", link.speed) &&
                     take(json, "link_rate", link.link_rate) && take(json, "queue", link.queue) &&
                     take(json, "queue_limit", link.queue_limit) && take(json, "drops", link.drops) &&
                     // An older process does not state it.
                     (!json.contains("switch_speed") || take(json, "switch_speed", link.switch_speed));
  return whole ? std::optional{link} : std::nullopt;
}

std::optional<IpAddress> address_of(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end() || !found->is_string()) return std::nullopt;
  return parse_address(found->get_ref<const std::string&>());
}

}  // namespace

std::optional<IpAddress> destination_of(const Json& request) { return address_of(request, "destination"); }

Json managed_json(const ManagedReport& report, Instant now) {
  return {{"destination", address_text(report.peer)},
          {"rate_mbps", megabits(report.rate)},
          {"full_mbps", megabits(report.full)},
          {"weight_percent", report.weight_percent},
          {"managed_ms", (now - report.since).ns() / 1'000'000}};
}

Json link_report_json(const recovery::LinkReport& report) {
  Json links = Json::array();
  for (const recovery::LinkFacts& link : report.links) links.push_back(link_json(link));
  return {{"source", address_text(report.local)},
          {"destination", address_text(report.peer)},
          {"qp", report.qpn},
          {"congested", report.congested},
          {"links", std::move(links)}};
}

std::optional<recovery::LinkReport> parse_link_report(const Json& json) {
  recovery::LinkReport report;
  const auto source = address_of(json, "source"), destination = address_of(json, "destination");
  if (!source || !destination || !take(json, "qp", report.qpn) || !take(json, "congested", report.congested)) {
    return std::nullopt;
  }
  report.local = *source;
  report.peer = *destination;
  const auto links = json.find("links");
  if (links == json.end() || !links->is_array()) return std::nullopt;
  for (const Json& each : *links) {
    const auto link = parse_link(each);
    if (!link) return std::nullopt;
    report.links.push_back(*link);
  }
  return report;
}

}  // namespace brdma::control
