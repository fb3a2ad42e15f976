#include "scenario/table_reader.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "control/nearest_word.h"
#include "fabric/quantity.h"

namespace brdma::simulator {
namespace {

std::string listed(const std::vector<std::string_view>& words) {
  std::string list;
  for (const std::string_view each : words) list.append(list.empty() ? "" : ", ").append(each);
  return list;
}

std::string shown(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

// "h3": 2. Nothing: no host's name, or beyond `count`.
std::optional<std::uint32_t> host_of(std::string_view name, std::uint32_t count) {
  std::uint32_t number = 0;
  if (!name.starts_with('h')) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size() || number < 1 || number > count) return std::nullopt;
  return number - 1;
}

}  // namespace

void TableReader::fail(toml::source_index line, const std::string& what) const {
  throw ScenarioError(file_ + (line == 0 ? "" : ":" + std::to_string(line)) + ": " + what);
}

void TableReader::fail(const toml::node& where, const std::string& what) const {
  fail(where.source().begin.line, what);
}

void TableReader::fail_unknown(const toml::node& where, const std::string& what, std::string_view word,
                               const std::vector<std::string_view>& known) const {
  NearestWord nearest{word};
  for (const std::string_view each : known) nearest.offer(each);
  const std::string question = nearest.question();
  fail(where, "unknown " + what + " '" + std::string{word} + "'" +
                  (question.empty() ? "; there is: " + listed(known) : question));
}

void TableReader::read(const toml::table& table, const std::string& what, const std::vector<Key>& keys) const {
  for (const auto& [name, node] : table) {
    const std::string_view word = name.str();
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const Key& each) { return each.name == word; });
    if (key != keys.end()) {
      key->take(node);
      continue;
    }
    std::vector<std::string_view> known;
    for (const Key& each : keys) known.push_back(each.name);
    fail_unknown(node, "key of " + what, word, known);
  }
}

std::uint64_t TableReader::number(const toml::node& node, std::string_view key, std::uint64_t least,
                                  std::uint64_t most) const {
  const auto value = node.value_exact<std::int64_t>();
  if (!value || *value < 0 || static_cast<std::uint64_t>(*value) < least || static_cast<std::uint64_t>(*value) > most) {
    fail(node,
         std::string{key} + ": expected a whole number, " + std::to_string(least) + " to " + std::to_string(most));
  }
  return static_cast<std::uint64_t>(*value);
}

double TableReader::fraction(const toml::node& node, std::string_view key, double above, double most) const {
  const auto value = node.value<double>();
  if (!value || !(*value > above && *value <= most)) {
    fail(node, std::string{key} + ": expected a number above " + shown(above) + ", at most " + shown(most));
  }
  return *value;
}

std::string TableReader::text(const toml::node& node, std::string_view key) const {
  const auto value = node.value_exact<std::string>();
  if (!value) fail(node, std::string{key} + ": expected a text");
  return *value;
}

std::string TableReader::value_text(const toml::node& node, std::string_view key) const {
  if (const auto value = node.value_exact<std::string>()) return *value;
  if (const auto value = node.value_exact<std::int64_t>()) return std::to_string(*value);
  if (const auto value = node.value_exact<bool>()) return *value ? "true" : "false";
  fail(node, std::string{key} + ": expected a text or a whole number");
}

bool TableReader::flag(const toml::node& node, std::string_view key) const {
  const auto value = node.value_exact<bool>();
  if (!value) fail(node, std::string{key} + ": expected true or false");
  return *value;
}

Duration TableReader::time(const toml::node& node, std::string_view key) const {
  const auto ns = fabric::parse_quantity(value_text(node, key), fabric::kTimeUnits);
  if (!ns || *ns > 1'000'000'000'000) {
    fail(node, std::string{key} + ": expected a time such as 50us, 1.5ms or 200ns, at most 1000s");
  }
  return Duration::from_ns(static_cast<std::int64_t>(*ns));
}

std::uint64_t TableReader::bytes(const toml::node& node, std::string_view key, std::uint64_t most) const {
  const auto bytes = fabric::parse_quantity(value_text(node, key), fabric::kSizeUnits);
  if (!bytes || *bytes < 1 || *bytes > most) {
    fail(node, std::string{key} + ": expected a size such as 4096 or 64kb, 1 to " + std::to_string(most) + " bytes");
  }
  return *bytes;
}

std::size_t TableReader::choice(const toml::node& node, std::string_view key,
                                std::initializer_list<std::string_view> words) const {
  const std::string word = text(node, key);
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) fail_unknown(node, std::string{key}, word, std::vector<std::string_view>(words));
  return static_cast<std::size_t>(found - words.begin());
}

std::vector<std::uint32_t> TableReader::hosts(const toml::node& node, std::string_view key, std::uint32_t count) const {
  const std::string all = text(node, key);
  std::vector<bool> chosen(count, all == "all");
  std::string_view rest = all == "all" ? std::string_view{} : std::string_view{all};
  const auto wrong = [&] {
    fail(node,
         std::string{key} + ": expected all, or hosts such as h1-h6,h9; there are h1 to h" + std::to_string(count));
  };
  if (all.empty()) wrong();
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::size_t dash = part.find('-');
    const auto first = host_of(part.substr(0, dash), count);
    const auto last = dash == part.npos ? first : host_of(part.substr(dash + 1), count);
    if (!first || !last || *last < *first) wrong();
    std::fill(chosen.begin() + *first, chosen.begin() + *last + 1, true);
  }
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t host = 0; host < count; ++host) {
    if (chosen[host]) numbers.push_back(host);
  }
  return numbers;
}

const toml::table& TableReader::table(const toml::node& node, std::string_view key) const {
  const toml::table* const table = node.as_table();
  if (table == nullptr) fail(node, std::string{key} + ": expected a table");
  return *table;
}

}  // namespace brdma::simulator
