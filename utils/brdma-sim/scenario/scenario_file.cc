#include "scenario/scenario_file.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/toml_text.h"
#include "fabric/topology.h"
#include "network/shape.h"
#include "scenario/protocols.h"
#include "scenario/table_reader.h"

namespace brdma::simulator {
namespace {

constexpr std::array<std::pair<std::string_view, Layout>, 6> kLayouts{{{"dumbbell", Layout::kDumbbell},
                                                                       {"incast", Layout::kIncast},
                                                                       {"leaf-spine", Layout::kLeafSpine},
                                                                       {"fat-tree", Layout::kFatTree},
                                                                       {"k-ary", Layout::kKAry},
                                                                       {"file", Layout::kFile}}};
// Options of NETWORK that mean nothing here: the simulator has equal-cost paths, and a seed of its own.
constexpr std::array<std::string_view, 6> kNoOptions{"seed", "impair", "paths", "skew", "path-loss", "link-state"};
constexpr std::uint64_t kFlowBytesMax = 1u << 30;

std::uint64_t fnv(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

class Parser {
 public:
  Parser(std::string file, toml::table root) : reader_(file), root_(std::move(root)) {
    scenario_.file = std::move(file);
    scenario_.protocol.recovery.edn = scenario_.protocol.recovery.congestion.edn = false;
  }

  Scenario parse() {
    reader_.read(root_, "the file",
                 {{"name", [this](const toml::node& node) { scenario_.name = reader_.text(node, "name"); }},
                  {"topology", [](const toml::node&) {}},
                  {"network", [](const toml::node&) {}},
                  {"core", [](const toml::node&) {}},
                  {"protocol", [](const toml::node&) {}},
                  {"group", [](const toml::node&) {}},
                  {"workload", [](const toml::node&) {}},
                  {"run", [](const toml::node&) {}}});
    take_topology();
    take_network();
    take_protocols();
    take_workloads();
    take_run();
    check();
    return std::move(scenario_);
  }

 private:
  using Key = TableReader::Key;

  const toml::table* table_of(std::string_view name) const {
    const toml::node* const node = root_.get(name);
    return node == nullptr ? nullptr : &reader_.table(*node, name);
  }
  Key count_key(std::string_view name, std::uint32_t& field, std::uint64_t least, std::uint64_t most) const {
    return {name, [this, name, &field, least, most](const toml::node& node) {
              field = static_cast<std::uint32_t>(reader_.number(node, name, least, most));
            }};
  }

  void take_layout(const toml::node& node) {
    std::vector<std::string_view> known;
    const std::string word = reader_.text(node, "kind");
    for (const auto& [name, layout] : kLayouts) {
      known.push_back(name);
      if (word != name) continue;
      scenario_.topology.layout = layout;
      return;
    }
    reader_.fail_unknown(node, "kind of topology", word, known);
  }

  void take_topology() {
    const toml::table* const table = table_of("topology");
    if (table == nullptr) reader_.fail(0, "no [topology]; it needs at least: kind = \"dumbbell\"");
    TopologyPlan& plan = scenario_.topology;
    if (table->get("kind") == nullptr) reader_.fail(*table, "[topology] needs kind, for example kind = \"dumbbell\"");
    take_layout(*table->get("kind"));
    const Key kind{"kind", [](const toml::node&) {}};
    std::vector<Key> keys{kind};
    switch (plan.layout) {
      case Layout::kDumbbell:
      case Layout::kIncast:
        keys.push_back(count_key("hosts", plan.hosts, 1, kHostsMax / 2));
        break;
      case Layout::kLeafSpine:
        keys.insert(keys.end(), {count_key("leaves", plan.leaves, 1, 500), count_key("spines", plan.spines, 1, 16),
                                 count_key("hosts-per-leaf", plan.hosts_per_leaf, 1, kHostsMax)});
        break;
      case Layout::kFatTree:
        keys.insert(keys.end(), {count_key("pods", plan.pods, 1, 64), count_key("tors", plan.tors, 1, 64),
                                 count_key("aggs", plan.aggs, 1, 16), count_key("cores", plan.cores, 1, 256),
                                 count_key("hosts-per-tor", plan.hosts_per_tor, 1, 256)});
        break;
      case Layout::kKAry:
        keys.insert(keys.end(),
                    {count_key("k", plan.k, 2, 32), count_key("oversubscription", plan.oversubscription, 1, 16)});
        break;
      case Layout::kFile:
        keys.push_back({"file", [&](const toml::node& node) { plan.file = reader_.text(node, "file"); }});
        break;
    }
    reader_.read(*table, "[topology] of this kind", keys);
    check_topology(*table);
  }
  void check_topology(const toml::table& table) const {
    const TopologyPlan& plan = scenario_.topology;
    if (plan.layout == Layout::kFile && plan.file.empty()) reader_.fail(table, "kind = \"file\" needs file");
    if (plan.layout == Layout::kKAry && plan.k % 2 != 0) reader_.fail(table, "k: expected an even number");
    if (plan.layout == Layout::kFatTree && (plan.cores % plan.aggs != 0 || plan.cores / plan.aggs > 16)) {
      reader_.fail(table, "cores: expected a multiple of aggs, at most 16 times");
    }
  }

  static bool is_option(std::string_view name, bool of_link) {
    if (std::find(kNoOptions.begin(), kNoOptions.end(), name) != kNoOptions.end()) return false;
    const auto options = fabric::network_options();
    const bool known = std::any_of(options.begin(), options.end(), [&](const auto& each) { return each.name == name; });
    return known && (!of_link || fabric::is_link_option(name));
  }
  void take_options(const toml::table& table, const std::string& what, bool of_link,
                    fabric::NetworkConfig& config) const {
    std::vector<Key> keys;
    for (const auto& option : fabric::network_options()) {
      if (!is_option(option.name, of_link)) continue;
      keys.push_back({option.name, [this, &config, name = option.name](const toml::node& node) {
                        if (const auto error = fabric::set_option(config, name, reader_.value_text(node, name))) {
                          reader_.fail(node, *error);
                        }
                      }});
    }
    reader_.read(table, what, keys);
    if (const auto error = fabric::check_network(config)) reader_.fail(table, *error);
  }
  void take_network() {
    fabric::NetworkConfig& network = scenario_.network;
    network.link.rate = Bandwidth::from_bps(100'000'000'000);
    network.link.delay = 1_us;
    network.link.queue_bytes = 1u << 20;
    const toml::table* const table = table_of("network");
    if (table != nullptr) take_options(*table, "[network]", false, network);
    fabric::NetworkConfig core = network;
    const toml::table* const core_table = table_of("core");
    if (core_table != nullptr) take_options(*core_table, "[core]", true, core);
    scenario_.core = core.link;
    if (!network.link.rate || !core.link.rate) {
      reader_.fail(table != nullptr ? *table : root_, "rate: links of the simulator have one, for example 100gbit");
    }
  }

  void take_protocols() {
    if (const toml::table* const table = table_of("protocol")) {
      read_protocol(reader_, *table, "[protocol]", scenario_.protocol);
    }
    hosts_ = static_cast<std::uint32_t>(make_shape(scenario_).hosts.size());
    for (const toml::table* const table : tables_of("group")) {
      GroupPlan group{{}, scenario_.protocol};
      read_protocol(reader_, *table, "[[group]]", group.protocol,
                    {{"hosts", [&](const toml::node& node) { group.hosts = reader_.hosts(node, "hosts", hosts_); }}});
      if (group.hosts.empty()) reader_.fail(*table, "[[group]] needs hosts, for example hosts = \"h1-h6\"");
      scenario_.groups.push_back(std::move(group));
    }
  }
  // [name] or [[name]], each.
  std::vector<const toml::table*> tables_of(std::string_view name) const {
    const toml::node* const node = root_.get(name);
    if (node == nullptr) return {};
    const toml::array* const array = node->as_array();
    if (array == nullptr) return {&reader_.table(*node, name)};
    std::vector<const toml::table*> tables;
    for (const toml::node& each : *array) tables.push_back(&reader_.table(each, name));
    return tables;
  }

  void take_workloads() {
    const auto tables = tables_of("workload");
    if (tables.empty()) reader_.fail(0, "no [workload]; it needs at least: sizes = \"facebook_webserver\"");
    for (const toml::table* const table : tables) scenario_.workloads.push_back(workload_of(*table));
  }
  WorkloadPlan workload_of(const toml::table& table) const {
    WorkloadPlan plan;
    const auto kind = [&](const toml::node& node) {
      plan.arrivals =
          reader_.choice(node, "arrivals", {"poisson", "incast"}) == 0 ? Arrivals::kPoisson : Arrivals::kIncast;
    };
    const auto counts = [&](const toml::node& node) {
      plan.counts_headers = reader_.choice(node, "load-counts", {"payload", "wire"}) == 1;
    };
    if (scenario_.topology.layout == Layout::kIncast) plan.arrivals = Arrivals::kIncast;
    reader_.read(
        table, "[workload]",
        {{"label", [&](const toml::node& node) { plan.label = reader_.text(node, "label"); }},
         {"arrivals", kind},
         {"sizes", [&](const toml::node& node) { plan.sizes = reader_.text(node, "sizes"); }},
         {"bytes", [&](const toml::node& node) { plan.bytes = reader_.bytes(node, "bytes", kFlowBytesMax); }},
         {"load", [&](const toml::node& node) { plan.load = reader_.fraction(node, "load", 0, 10); }},
         {"load-counts", counts},
         count_key("flows", plan.flows, 1, 100'000'000),
         count_key("fan-in", plan.fan_in, 1, kHostsMax),
         {"senders", [&](const toml::node& node) { plan.senders = reader_.hosts(node, "senders", hosts_); }},
         {"receivers", [&](const toml::node& node) { plan.receivers = reader_.hosts(node, "receivers", hosts_); }},
         {"start", [&](const toml::node& node) { plan.start = reader_.time(node, "start"); }}});
    if (plan.sizes.empty() == (plan.bytes == 0)) {
      reader_.fail(table,
                   "[workload] needs one of sizes and bytes: sizes = \"facebook_webserver\", or bytes = \"64kb\"");
    }
    complete(plan);
    return plan;
  }
  // The layout's senders and receivers, where the file names none.
  void complete(WorkloadPlan& plan) const {
    const Layout layout = scenario_.topology.layout;
    const auto range = [](std::uint32_t first, std::uint32_t end) {
      std::vector<std::uint32_t> numbers;
      for (; first < end; ++first) numbers.push_back(first);
      return numbers;
    };
    const bool halves = layout == Layout::kDumbbell;
    if (plan.senders.empty()) plan.senders = range(layout == Layout::kIncast ? 1 : 0, halves ? hosts_ / 2 : hosts_);
    if (plan.receivers.empty()) plan.receivers = range(halves ? hosts_ / 2 : 0, layout == Layout::kIncast ? 1 : hosts_);
  }

  void take_run() {
    const toml::table* const table = table_of("run");
    if (table == nullptr) return;
    RunPlan& plan = scenario_.run;
    reader_.read(
        *table, "[run]",
        {{"seed", [&](const toml::node& node) { plan.seed = reader_.number(node, "seed", 0, 1'000'000'000'000); }},
         {"time-limit", [&](const toml::node& node) { plan.time_limit = reader_.time(node, "time-limit"); }},
         count_key("warmup", plan.warmup, 0, 100'000'000),
         count_key("connections", plan.connections, 1, 4096)});
  }

  void check() const {
    for (const WorkloadPlan& plan : scenario_.workloads) {
      const auto& from = plan.senders;
      const auto& to = plan.receivers;
      if (from.size() == 1 && to.size() == 1 && from == to)
        reader_.fail(0, "a flow needs two hosts: senders, receivers");
    }
  }

  TableReader reader_;
  toml::table root_;
  Scenario scenario_;
  std::uint32_t hosts_ = 0;
};

toml::table parsed(const std::string& text, const std::string& file) {
  const TableReader reader{file};
  if (const auto stray = stray_character(text)) {
    reader.fail(static_cast<toml::source_index>(stray->line), std::string{stray->what});
  }
  toml::parse_result result = toml::parse(text, file);
  if (!result) reader.fail(result.error().source().begin.line, std::string{result.error().description()});
  return std::move(result).table();
}

// One word after the equals sign, as the only member of a table.
toml::parse_result parsed_value(const std::string& value) {
  const std::string quoted = "x = \"" + value + "\"", as_is = "x = " + value;
  toml::parse_result result = toml::parse(stray_character(as_is) ? quoted : as_is);
  const bool plain = !value.empty() && value.find_first_of("\"'\\\n") == value.npos;
  return result || !plain ? std::move(result) : toml::parse(quoted);
}

// "workload.load=0.7": numbers and words as in the file, but that quotes may be left out.
void change(toml::table& root, const std::string& word) {
  const std::size_t equals = word.find('='), dot = word.find('.');
  if (equals == word.npos || dot == word.npos || dot > equals) {
    throw ScenarioError("--set '" + word + "': expected TABLE.KEY=VALUE, for example workload.load=0.7");
  }
  const std::string value = word.substr(equals + 1);
  toml::table* table = &root;
  std::string_view path = std::string_view{word}.substr(0, equals);
  for (std::size_t end; (end = path.find('.')) != path.npos; path.remove_prefix(end + 1)) {
    const std::string_view name = path.substr(0, end);
    if (!table->contains(name)) table->insert(name, toml::table{});
    toml::table* const next = table->get(name)->as_table();
    if (next == nullptr) throw ScenarioError("--set '" + word + "': " + std::string{name} + " is not one table there");
    table = next;
  }
  toml::parse_result result = parsed_value(value);
  const toml::node* const made = result ? result.table().get("x") : nullptr;
  if (made == nullptr) throw ScenarioError("--set '" + word + "': no value of TOML");
  if (const auto* number = made->as_integer()) {
    table->insert_or_assign(path, number->get());
  } else if (const auto* fraction = made->as_floating_point()) {
    table->insert_or_assign(path, fraction->get());
  } else if (const auto* flag = made->as_boolean()) {
    table->insert_or_assign(path, flag->get());
  } else {
    table->insert_or_assign(path, made->value_or(value));
  }
}

}  // namespace

Scenario parse_scenario(const std::string& text, const std::string& file, const std::vector<std::string>& changes) {
  if (text.size() > kScenarioBytesMax) throw ScenarioError(file + ": longer than 1 MiB");
  toml::table root = parsed(text, file);
  std::uint64_t digest = fnv(0xCBF29CE484222325u, text);
  for (const std::string& each : changes) {
    change(root, each);
    digest = fnv(digest, "\n" + each);
  }
  Scenario scenario = Parser{file, std::move(root)}.parse();
  scenario.digest = digest;
  return scenario;
}

Scenario read_scenario(const std::string& file, const std::vector<std::string>& changes) {
  std::ifstream in{file};
  if (!in) throw ScenarioError("scenario " + file + ": cannot be read");
  return parse_scenario({std::istreambuf_iterator<char>{in}, {}}, file, changes);
}

}  // namespace brdma::simulator
