#include "lab/commands/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "grammar/help.h"
#include "lab/commands/topology_option.h"
#include "settings/settings_option.h"

namespace brdma::lab {
namespace {

std::uint32_t parse_number(const std::string& option, const std::string& text, std::uint32_t min, std::uint32_t max) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < min || number > max) {
    throw UsageError(option + " '" + text + "': expected a number, " + std::to_string(min) + " to " +
                     std::to_string(max));
  }
  return number;
}

bool take_network_option(const std::string& name, const std::string& word, Words& words, NetworkOptions& network) {
  for (const auto& option : fabric::network_options()) {
    if (option.name != name) continue;
    const std::string value = words.take_value(word);
    fabric::NetworkConfig scratch;
    if (const auto error = fabric::set_option(scratch, name, value)) throw UsageError("--" + *error);
    network[name] = value;
    return true;
  }
  return false;
}

void take_name(const std::string& word, Words& words, LabOptions& options) {
  options.plan.name = words.take_value(word);
  options.named = true;
  if (!is_lab_name(options.plan.name)) {
    throw UsageError("--name '" + options.plan.name + "': expected 1 to 40 letters, digits, '-', '_' or '.'");
  }
}

// An option with its value; `word` is taken already.
void take_option(const std::string& word, Words& words, LabOptions& options) {
  if (word == "--name") {
    take_name(word, words, options);
  } else if (word == "--hosts") {
    options.plan.hosts = parse_number(word, words.take_value(word), 1, kHostsMax);
    options.hosts_given = true;
  } else if (word == "--topology") {
    options.topology = words.take_value(word);
  } else if (word == "--controller") {
    options.plan.controller = words.take_value(word);
  } else if (word == "--controller-key") {
    options.plan.controller_key = std::filesystem::absolute(words.take_value(word)).string();
  } else if (word == "--interval") {
    options.interval_ms = parse_number(word, words.take_value(word), 10, 3'600'000);
  } else if (word == "--count") {
    options.count = parse_number(word, words.take_value(word), 1, 1'000'000);
  } else if (word == "--wait") {
    options.wait_seconds = parse_number(word, words.take_value(word), 0, 3600);
  } else if (!take_network_option(word.substr(std::min<std::size_t>(2, word.size())), word, words,
                                  options.plan.network) &&
             !take_setting(word, words)) {
    throw grammar::unknown_option(word, "lab");
  }
}

// Where a program on a host of a lab says none: that lab.
std::string default_lab() {
  const char* const of_host = std::getenv("BITMAPRDMA_LAB");
  return of_host != nullptr && is_lab_name(of_host) ? of_host : LabPlan{}.name;
}

}  // namespace

LabOptions parse_lab_options(Invocation& invocation, std::size_t operands_max) {
  LabOptions options;
  options.plan.name = default_lab();
  Words& words = invocation.words;
  while (!words.empty()) {
    if (take_style_option(words, invocation.style)) continue;
    const std::string word = words.take();
    if (word == "--") {
      options.command = words.take_rest();
      break;
    }
    if (word.starts_with("-")) {
      take_option(word, words, options);
      continue;
    }
    if (options.operands.size() < operands_max) {
      options.operands.push_back(word);
      continue;
    }
    if (operands_max == 0) throw UsageError("'" + word + "' is not expected here: programs stand behind --");
    options.command = words.take_rest();
    options.command.insert(options.command.begin(), word);
    break;
  }
  return options;
}

RemoteCommand parse_remote_command(Words& words) {
  LabOptions options;
  options.plan.name = default_lab();
  RemoteCommand remote;
  while (!words.empty()) {
    const std::string word = words.take();
    if (word == "--name") {
      take_name(word, words, options);
    } else if (word == "-l") {
      (void)words.take_value(word);
    } else if (word.starts_with("-")) {
      constexpr std::array kWithoutEffect{"-n", "-q", "-T", "-x"};
      if (std::ranges::find(kWithoutEffect, word) == kWithoutEffect.end()) throw grammar::unknown_option(word, "lab");
    } else {
      remote.host = word;
      break;
    }
  }
  for (const std::string& word : words.take_rest()) remote.command += (remote.command.empty() ? "" : " ") + word;
  remote.lab = options.plan.name;
  return remote;
}

void require_whole_network(LabOptions& options) {
  LabPlan& plan = options.plan;
  if (plan.controller.empty() != plan.controller_key.empty()) {
    throw UsageError("--controller and --controller-key go together");
  }
  if (!plan.controller.empty() && options.topology.empty()) {
    throw UsageError("--controller: switches of a --topology have one");
  }
  if (!options.topology.empty()) {
    if (options.hosts_given) throw UsageError("--hosts: the topology says how many there are");
    load_topology(plan, options.topology);
  } else if (plan.network.contains("link-state")) {
    throw UsageError("--link-state needs --topology: one Ethernet switch is no hop");
  }
  fabric::NetworkConfig config;
  for (const auto& [name, value] : plan.network) (void)fabric::set_option(config, name, value);
  if (const auto error = fabric::check_network(config)) throw UsageError("--" + *error);
}

std::string network_help() {
  std::string text;
  for (const auto& option : fabric::network_options()) {
    std::string line = "  --" + std::string{option.name} + " " + std::string{option.value};
    line.resize(std::max<std::size_t>(line.size() + 2, 28), ' ');
    text += line + std::string{option.help} + "\n";
  }
  return text;
}

}  // namespace brdma::lab
