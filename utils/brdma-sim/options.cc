#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "grammar/sim_commands.h"
#include "samples/errors.h"
#include "samples/quantities.h"

namespace brdma::simulator {
namespace {

using samples::Misuse;

constexpr std::size_t kListMax = 10'000;
constexpr std::uint32_t kJobsMax = 1024;

// The words of the command line before they are understood.
struct Words {
  std::string loads, seeds, part;
  std::vector<std::string> each;
};

const grammar::Option& row(std::span<const grammar::Option> rows, std::string_view name) {
  return *std::find_if(rows.begin(), rows.end(),
                       [name](const grammar::Option& each) { return each.names.ends_with(name); });
}

// "-o, --output" is "-o,--output" to the parser.
template <class Value>
CLI::Option* add(CLI::App* app, std::span<const grammar::Option> rows, std::string_view name, Value& value) {
  const grammar::Option& option = row(rows, name);
  std::string names{option.names};
  names.erase(std::remove(names.begin(), names.end(), ' '), names.end());
  return app->add_option(names, value, std::string{option.meaning})->type_name(std::string{option.value});
}

CLI::App* add_command(CLI::App& app, const grammar::Command& command, Options& options) {
  CLI::App* const made = app.add_subcommand(std::string{command.name}, std::string{command.meaning});
  made->add_option("SCENARIO", options.scenario, "a TOML file")->required();
  made->add_flag("-j,--json", options.json, "prints the summary as JSON");
  add(made, command.options, "--output", options.output);
  add(made, command.options, "--set", options.changes)->allow_extra_args(false);
  return made;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    parts.emplace_back(part);
  }
  return parts;
}

double number_of(const std::string& text, const std::string& list) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value <= 1e12)) {
    throw Misuse("'" + list + "': expected numbers such as 1..10, 0.1..0.9/0.2 or 0.3,0.5");
  }
  return value;
}

int digits_of(const std::string& text) {
  const std::size_t point = text.find('.');
  return point == text.npos ? 0 : static_cast<int>(text.size() - point - 1);
}

void add_range(const std::string& item, const std::string& step_text, const std::string& list,
               std::vector<std::string>& out) {
  const std::size_t dots = item.find(".."), slash = item.find('/');
  const std::string first_text = item.substr(0, dots);
  const std::string last_text = item.substr(dots + 2, slash == item.npos ? item.npos : slash - dots - 2);
  const std::string own_step = slash == item.npos ? step_text : item.substr(slash + 1);
  const double first = number_of(first_text, list), last = number_of(last_text, list), step = number_of(own_step, list);
  const int digits = std::max({digits_of(first_text), digits_of(last_text), digits_of(own_step)});
  if (!(step > 0) || last < first || (last - first) / step >= kListMax) throw Misuse("'" + list + "': no such range");
  for (std::size_t i = 0; first + static_cast<double>(i) * step <= last + step * 1e-6; ++i) {
    out.push_back(samples::fixed(first + static_cast<double>(i) * step, digits));
  }
}

std::optional<std::uint32_t> variable(const char* name) {
  const char* const text = std::getenv(name);
  std::uint32_t value = 0;
  if (text == nullptr) return std::nullopt;
  const auto [end, error] = std::from_chars(text, text + std::string_view{text}.size(), value);
  return error == std::errc{} && *end == '\0' ? std::optional{value} : std::nullopt;
}

void understand(Options& options, const Words& words) {
  if (options.kind != Options::Kind::kSweep) return;
  if (options.output.empty()) throw Misuse("sweep needs a folder for its results: -o DIR");
  if (!words.loads.empty()) options.loads = parse_list(words.loads, "0.1");
  if (!words.seeds.empty()) options.seeds = parse_list(words.seeds, "1");
  for (const std::string& each : words.each) {
    const std::size_t equals = each.find('=');
    if (equals == each.npos || equals == 0 || equals + 1 == each.size()) {
      throw Misuse("--each '" + each + "': expected KEY=V,V such as protocol.name=bitmap,gobackn");
    }
    options.axes.push_back({each.substr(0, equals), split(each.substr(equals + 1))});
  }
  options.part = words.part.empty() ? part_of_launcher() : parse_part(words.part);
}

}  // namespace

std::vector<std::string> parse_list(const std::string& text, const std::string& step) {
  std::vector<std::string> list;
  for (const std::string& item : split(text)) {
    if (item.find("..") != item.npos) {
      add_range(item, step, text, list);
    } else {
      (void)number_of(item, text);
      list.push_back(item);
    }
    if (list.size() > kListMax) throw Misuse("'" + text + "': more than 10,000 values");
  }
  if (list.empty()) throw Misuse("'" + text + "': no values");
  return list;
}

Part parse_part(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto whole = [&](const std::string& word) {
    const double value = slash == text.npos || digits_of(word) != 0 ? 0 : number_of(word, text);
    return value >= 1 && value <= 1e6 ? static_cast<std::uint32_t>(value) : 0u;
  };
  const Part part{whole(text.substr(0, slash)), slash == text.npos ? 0u : whole(text.substr(slash + 1))};
  if (part.number == 0 || part.of < part.number) {
    throw Misuse("--part '" + text + "': expected K/N with K from 1 to N, for example 2/8");
  }
  return part;
}

Part part_of_launcher() {
  constexpr std::array<std::array<const char*, 2>, 3> kRanks{
      {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}, {"PMIX_RANK", "PMIX_SIZE"}}};
  for (const auto& names : kRanks) {
    const auto rank = variable(names[0]), size = variable(names[1]);
    if (rank && size && *rank < *size) return {*rank + 1, *size};
  }
  const auto task = variable("SLURM_ARRAY_TASK_ID"), first = variable("SLURM_ARRAY_TASK_MIN"),
             count = variable("SLURM_ARRAY_TASK_COUNT");
  if (task && first && count && *task >= *first && *task - *first < *count) return {*task - *first + 1, *count};
  return {};
}

Options parse_options(int argc, const char* const* argv) {
  const std::string version = std::string("brdma-sim ") + BRDMA_VERSION;
  CLI::App app{"Simulates networks and flows\n", "brdma sim"};
  app.set_version_flag("-V,--version", version);
  app.require_subcommand(1);
  app.footer(
      "\nExit codes: 0 done, 1 failed (the reason is on standard error), 2 misuse.\nSee: brdma-sim(8), "
      "docs/howto/simulator.md");
  Options options;
  Words words;
  options.jobs = std::max(1u, std::thread::hardware_concurrency());
  const grammar::Command &run_row = grammar::kSim[0], &sweep_row = grammar::kSim[1];
  CLI::App* const run = add_command(app, run_row, options);
  add(run, run_row.options, "--seed", options.seed);
  CLI::App* const sweep = add_command(app, sweep_row, options);
  add(sweep, sweep_row.options, "--loads", words.loads);
  add(sweep, sweep_row.options, "--seeds", words.seeds);
  add(sweep, sweep_row.options, "--each", words.each)->allow_extra_args(false);
  add(sweep, sweep_row.options, "--jobs", options.jobs)->check(CLI::Range(1u, kJobsMax));
  add(sweep, sweep_row.options, "--part", words.part);
  try {
    app.parse(argc, argv);
    options.kind = run->parsed() ? Options::Kind::kRun : Options::Kind::kSweep;
    understand(options, words);
  } catch (const CLI::ParseError& error) {
    options.exit_code = app.exit(error) == 0 ? 0 : 2;
    options.kind = Options::Kind::kDone;
  } catch (const Misuse& error) {
    std::fprintf(stderr, "brdma sim: %s. See 'brdma sim --help'\n", error.what());
    options.kind = Options::Kind::kDone;
    options.exit_code = 2;
  }
  return options;
}

}  // namespace brdma::simulator
