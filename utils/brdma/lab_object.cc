// `brdma lab`: hosts on this machine, joined by a network with configurable impairments. docs/reference/lab.md

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "grammar/help.h"
#include "lab/commands/options.h"
#include "lab/commands/pair.h"
#include "lab/commands/report.h"
#include "lab/commands/routing.h"
#include "lab/commands/top.h"
#include "lab/commands/topology_option.h"
#include "lab/processes/channel.h"
#include "lab/processes/client.h"
#include "lab/processes/host_process.h"
#include "lab/processes/start.h"
#include "objects.h"

namespace brdma {
namespace {

using lab::LabOptions;

void print_lab_help() { std::fputs(grammar::help_text({grammar::find_object("lab"), {}}).c_str(), stdout); }

void require_no_command(const LabOptions& options) {
  if (!options.command.empty()) throw UsageError("'" + options.command.front() + "' is not expected here");
}

// What `lab up` has made: hosts, their network, the next command.
void print_made(const LabOptions& options, const Json& description) {
  const std::string& name = options.plan.name;
  std::string network;
  for (const auto& [option, value] : options.plan.network)
    network += (network.empty() ? " with " : ", ") + option + " " + value;
  std::vector<std::vector<std::string>> rows;
  for (const Json& host : description.at("hosts")) {
    rows.push_back({"  " + host.at("host").get<std::string>(), host.at("ipv4"), host.at("ipv6"), host.at("interface")});
  }
  const char* const joined = !options.topology.empty()            ? "switches of a topology"
                             : description.value("switch", false) ? "a switch"
                                                                  : "joined directly";
  std::printf("lab '%s' is up: %s%s; interface MTU %s\n", name.c_str(), joined, network.c_str(),
              description.at("interface_mtu").dump().c_str());
  print_table(rows);
  if (const std::string trouble = description.value("names_trouble", ""); !trouble.empty())
    std::printf("host names do not resolve in it: %s\n", trouble.c_str());
  const std::string named = options.named ? " --name " + name : "";
  std::printf("next: brdma lab exec%s h1 -- ibv_devinfo; brdma lab down%s\n", named.c_str(), named.c_str());
}

int up(Invocation& invocation) {
  LabOptions options = lab::parse_lab_options(invocation, 0);
  require_no_command(options);
  lab::require_whole_network(options);
  const lab::RunningLab running = lab::start_lab(options.plan, lab::Lifetime::kDetached);
  const Json description = lab::describe_lab(options.plan.name);
  if (invocation.style.json) {
    print_json(description, invocation.style);
  } else {
    print_made(options, description);
  }
  return 0;
}

int exec(Invocation& invocation) {
  const LabOptions options = lab::parse_lab_options(invocation, 1);
  if (options.operands.empty() || options.command.empty()) {
    throw UsageError(grammar::usage("lab", "exec"));
  }
  for (const auto& [option, value] : options.plan.network) {
    // Here this is the program's own setting of that name: the lab's is its default.
    if (option != "paths") throw UsageError("--" + option + " is the lab's: brdma lab set --" + option + " " + value);
    setenv("BRDMA_PATHS", value.c_str(), 1);
  }
  return lab::run_on_host(lab::open_host(options.plan.name, options.operands.front()), options.command);
}

// A remote shell for launchers (mpirun, mpiexec): what they have of ssh is a line for the host's shell.
int rsh(Invocation& invocation) {
  const lab::RemoteCommand remote = lab::parse_remote_command(invocation.words);
  if (remote.host.empty() || remote.command.empty()) throw UsageError(grammar::usage("lab", "rsh"));
  return lab::run_on_host(lab::open_host(remote.lab, remote.host), {"/bin/sh", "-c", remote.command});
}

int set(Invocation& invocation) {
  const LabOptions options = lab::parse_lab_options(invocation, 0);
  require_no_command(options);
  if (options.plan.network.empty()) throw UsageError("expected a network option, for example --loss 5%");
  const Json reply = lab::set_switch(options.plan.name, options.plan.network);
  if (invocation.style.json) print_json(reply.at("network"), invocation.style);
  return 0;
}

// What the switch reports, for programs; null where the lab has none.
void add_network(Json& description, const Json& network) {
  const bool with_switch = !network.is_null();
  description["network"] = with_switch ? network.at("network") : Json{};
  description["links"] = with_switch ? network.at("hosts") : Json::array();
  if (with_switch && network.contains("switches")) {
    description["switches"] = network.at("switches");
    description["topology_links"] = network.at("links");
  }
  for (const char* const key : {"total", "buffer", "processing", "ecn", "flows", "edn", "switch_trouble"}) {
    description[key] = with_switch ? network.at(key) : Json{};
  }
}

void print_lab(const Json& description, const Json& network, const std::vector<lab::HostReport>& reports) {
  for (const Json& host : description.at("hosts")) {
    std::printf("%s %s %s\n", host.at("host").get<std::string>().c_str(), host.at("ipv4").get<std::string>().c_str(),
                host.at("ipv6").get<std::string>().c_str());
  }
  const std::string error = description.value("switch_error", "");
  if (!error.empty()) std::printf("%s\n", error.c_str());
  if (!network.is_null()) lab::print_network_table(network);
  if (!network.is_null() && network.contains("switches")) lab::print_topology(network);
  const auto counted = [](const lab::HostReport& report) { return !report.counters.empty(); };
  if (std::any_of(reports.begin(), reports.end(), counted)) lab::print_recovery_table(reports);
}

int show(Invocation& invocation) {
  const LabOptions options = lab::parse_lab_options(invocation, 0);
  require_no_command(options);
  Json description = lab::describe_lab(options.plan.name);
  Json network;
  if (description.value("switch", false)) {
    try {
      network = lab::show_switch(options.plan.name);
    } catch (const lab::LabError&) {  // it has ended since
      description = lab::describe_lab(options.plan.name);
    }
  }
  std::vector<lab::HostReport> reports;
  for (Json& host : description["hosts"]) {
    reports.push_back({host.at("host"), lab::host_counters(options.plan.name, host.at("host"))});
    host["counters"] = reports.back().counters;
  }
  if (!invocation.style.json) {
    print_lab(description, network, reports);
    return 0;
  }
  description.erase("ok");
  add_network(description, network);
  print_json(description, invocation.style);
  return 0;
}

int change(Invocation& invocation, std::size_t operands_max, Json (*ask)(const LabOptions&)) {
  const LabOptions options = lab::parse_lab_options(invocation, operands_max);
  require_no_command(options);
  Json reply = ask(options);
  reply.erase("ok");
  if (invocation.style.json) print_json(reply, invocation.style);
  return 0;
}

int top(Invocation& invocation) {
  const LabOptions options = lab::parse_lab_options(invocation, 0);
  require_no_command(options);
  lab::watch_queues(options, invocation.style);
  return 0;
}

int down(Invocation& invocation) {
  const LabOptions options = lab::parse_lab_options(invocation, 0);
  require_no_command(options);
  lab::take_down(options.plan.name);
  return 0;
}

// Labs are abstract sockets, and the kernel lists those.
int list(Invocation& invocation) {
  require_no_command(lab::parse_lab_options(invocation, 0));
  const std::string prefix = "@" + lab::keeper_socket_name("");
  std::ifstream table{"/proc/self/net/unix"};
  std::vector<Record> records;
  for (std::string line; std::getline(table, line);) {
    const std::size_t at = line.find(prefix);
    // Type 5 (sequenced packets) and the listening flag distinguish the keeper's socket from its connections.
    if (at == std::string::npos || line.find(" 00010000 0005 ") == std::string::npos) continue;
    const std::string name = line.substr(at + prefix.size());
    Json description;
    try {
      description = lab::describe_lab(name);
    } catch (const lab::LabError&) {
      continue;  // it has just ended
    }
    records.push_back({"",
                       {{"lab", name},
                        {"hosts", description.at("hosts").size()},
                        {"interface_mtu", description.at("interface_mtu")},
                        {"switch", description.at("switch")}}});
  }
  invocation.style.lists = true;
  print_records(records, invocation.style, "lab hosts interface_mtu switch");
  return 0;
}

int pair(Invocation& invocation) {
  LabOptions options = lab::parse_lab_options(invocation, 0);
  if (options.command.empty()) throw UsageError(grammar::usage("lab", "pair"));
  lab::require_whole_network(options);
  if (options.plan.hosts < 2) throw UsageError("--topology: a pair needs two hosts");
  return lab::run_pair(options, invocation.style);
}

}  // namespace

int lab_object(Invocation& invocation) {
  constexpr std::array<std::string_view, 12> kCommands{"help", "pair", "up",  "exec", "set",   "show",
                                                       "down", "list", "top", "link", "route", "rsh"};
  take_style_options(invocation.words, invocation.style);
  if (invocation.words.empty()) {
    print_lab_help();
    return 2;
  }
  const std::string word = invocation.words.take();
  switch (find_word(word, kCommands)) {
    case 0:
      print_lab_help();
      return 0;
    case 1:
      return pair(invocation);
    case 2:
      return up(invocation);
    case 3:
      return exec(invocation);
    case 4:
      return set(invocation);
    case 5:
      return show(invocation);
    case 6:
      return down(invocation);
    case 7:
      return list(invocation);
    case 8:
      return top(invocation);
    case 9:
      return change(invocation, lab::kLinkOperands, lab::change_link);
    case 10:
      return change(invocation, lab::kRouteOperands, lab::change_route);
    case 11:
      return rsh(invocation);
    default:
      throw grammar::unknown_command(word, "lab");
  }
}

}  // namespace brdma
