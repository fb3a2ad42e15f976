#include "configuration.h"

#define TOML_EXCEPTIONS 0  // as everywhere here: programs link both
#include <toml++/toml.h>

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "base/toml_text.h"
#include "controller-session/messages.h"
#include "fabric/quantity.h"

namespace brdma::controller_program {
namespace {

constexpr std::uint64_t kDelayMax = 10'000'000'000;  // ns

[[noreturn]] void refuse(const std::string& what) { throw std::runtime_error("controller's configuration: " + what); }

std::string text_of(const toml::table& table, const char* key) {
  const auto value = table[key].value<std::string>();
  if (!value) refuse(std::string(key) + ": a string was expected");
  return *value;
}

// "s2" for a port that leads to s2, "s2.2" for the second such: the lab's names.
class PortNames {
 public:
  std::pair<std::string, std::string> next(const std::string& a, const std::string& b) {
    const int count = ++links_[std::minmax(a, b)];
    const std::string which = count == 1 ? "" : "." + std::to_string(count);
    return {b + which, a + which};
  }

 private:
  std::map<std::pair<std::string, std::string>, int> links_;
};

void take_link(const toml::table& table, PortNames& names, ctl::NetworkMap& map) {
  const toml::array* between = table["between"].as_array();
  if (between == nullptr || between->size() != 2) refuse("link: between = [\"A\", \"B\"] was expected");
  const auto a = (*between)[0].value<std::string>(), b = (*between)[1].value<std::string>();
  if (!a || !b || !session::good_name(*a) || !session::good_name(*b)) refuse("link: between: not two names");
  ctl::LinkFacts facts;
  if (table.contains("delay")) {
    const auto ns = fabric::parse_quantity(text_of(table, "delay"), fabric::kTimeUnits);
    if (!ns || *ns > kDelayMax) refuse("link: delay: expected a time like 10ms, at most 10s");
    facts.delay = Duration::from_ns(static_cast<std::int64_t>(*ns));
  }
  const auto [from_a, from_b] = names.next(*a, *b);
  if (!map.add_link({*a, from_a}, {*b, from_b}, facts)) refuse("link " + *a + "-" + *b + ": no place for it");
}

struct Limit {
  const char* key;
  std::int64_t min, max;
  void (*set)(ctl::Settings&, std::int64_t);
};
constexpr Limit kLimits[] = {
    {"congested_links", 0, 4096,
     [](ctl::Settings& s, std::int64_t v) { s.congested_links_max = static_cast<std::uint32_t>(v); }},
    {"queue_high_percent", 1, 100,
     [](ctl::Settings& s, std::int64_t v) { s.links.state.queue_high = static_cast<std::uint32_t>(v * 10); }},
    {"queue_low_percent", 0, 100,
     [](ctl::Settings& s, std::int64_t v) { s.links.state.queue_low = static_cast<std::uint32_t>(v * 10); }},
    {"speed_low_percent", 0, 100,
     [](ctl::Settings& s, std::int64_t v) { s.links.state.speed_low = static_cast<std::uint32_t>(v * 10); }},
    {"speed_high_percent", 0, 100,
     [](ctl::Settings& s, std::int64_t v) { s.links.state.speed_high = static_cast<std::uint32_t>(v * 10); }},
    {"clear_after_ms", 0, 3'600'000, [](ctl::Settings& s, std::int64_t v) { s.links.clear_after = 1_ms * v; }},
    {"up_after_ms", 0, 3'600'000, [](ctl::Settings& s, std::int64_t v) { s.links.up_after = 1_ms * v; }},
    {"age_max_ms", 100, 3'600'000, [](ctl::Settings& s, std::int64_t v) { s.links.age_max = 1_ms * v; }},
    {"dwell_ms", 0, 3'600'000, [](ctl::Settings& s, std::int64_t v) { s.damping.dwell = 1_ms * v; }},
    {"dwell_max_ms", 0, 3'600'000, [](ctl::Settings& s, std::int64_t v) { s.damping.dwell_max = 1_ms * v; }},
    {"improvement_percent", 1, 99,
     [](ctl::Settings& s, std::int64_t v) { s.improvement_permille = static_cast<std::uint32_t>(v * 10); }},
    {"equal_percent", 0, 50,
     [](ctl::Settings& s, std::int64_t v) { s.equal_permille = static_cast<std::uint32_t>(v * 10); }},
    {"pace_ms", 0, 60'000, [](ctl::Settings& s, std::int64_t v) { s.pace = 1_ms * v; }},
    {"settle_ms", 0, 600'000, [](ctl::Settings& s, std::int64_t v) { s.settle = 1_ms * v; }},
    {"acknowledgement_max_ms", 10, 600'000, [](ctl::Settings& s, std::int64_t v) { s.acknowledgement_max = 1_ms * v; }},
    {"control_interval_ms", 0, 600'000, [](ctl::Settings& s, std::int64_t v) { s.control_interval = 1_ms * v; }},
};

void take_limits(const toml::table& table, ctl::Settings& settings) {
  for (const auto& [key, value] : table) {
    const Limit* found = nullptr;
    for (const Limit& limit : kLimits) {
      if (key.str() == limit.key) found = &limit;
    }
    const std::string name{key.str()};
    if (found == nullptr) refuse("there is no limit '" + name + "'");
    const auto number = value.value<std::int64_t>();
    if (!number || *number < found->min || *number > found->max) {
      refuse(name + ": expected " + std::to_string(found->min) + " to " + std::to_string(found->max));
    }
    found->set(settings, *number);
  }
  const fabric::LinkStateLimits& limits = settings.links.state;
  if (limits.queue_low > limits.queue_high || limits.speed_low > limits.speed_high) {
    refuse("a low limit is above its high one");
  }
}

template <class Take>
void each(const toml::table& root, const char* name, Take take) {
  const toml::array* array = root[name].as_array();
  if (array == nullptr) return;
  for (const toml::node& node : *array) {
    const toml::table* table = node.as_table();
    if (table == nullptr) refuse(std::string(name) + ": a table was expected");
    take(*table);
  }
}

}  // namespace

Configuration parse_configuration(const std::string& text) {
  Configuration result;
  if (const auto stray = stray_character(text))
    refuse(std::string{stray->what} + " at line " + std::to_string(stray->line));
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    std::ostringstream where;
    where << parsed.error().description() << " at " << parsed.error().source().begin;
    refuse(where.str());
  }
  const toml::table& root = parsed.table();
  each(root, "switch", [&](const toml::table& table) {
    const std::string name = text_of(table, "name");
    if (!session::good_name(name) || !result.map.add_switch(name))
      refuse("switch '" + name + "': not a name, or no place");
  });
  PortNames names;
  each(root, "link", [&](const toml::table& table) { take_link(table, names, result.map); });
  each(root, "prefix", [&](const toml::table& table) {
    const auto prefix = session::parse_prefix(text_of(table, "prefix"));
    if (!prefix || !result.map.add_prefix(*prefix, text_of(table, "switch"))) refuse("prefix: not one, or no place");
  });
  if (const toml::table* limits = root["controller"].as_table()) take_limits(*limits, result.settings);
  return result;
}

Configuration read_configuration(const std::string& path) {
  if (path.empty()) return {};
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) throw std::runtime_error("cannot read " + path);
  return parse_configuration(text.str());
}

}  // namespace brdma::controller_program
