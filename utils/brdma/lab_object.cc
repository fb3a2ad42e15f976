// `brdma lab`: hosts on this machine, joined by a network with configurable impairments. docs/lab.md

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

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

void print_lab_help() {
  std::string topologies;
  for (const std::string& name : lab::topology_names()) topologies += (topologies.empty() ? "" : ", ") + name;
  std::printf(
      "Usage: brdma lab pair [NETWORK] [--wait SECONDS] -- PROGRAM ARGS   server on h1, client on h2, and a table\n"
      "       brdma lab up [--hosts N] [NETWORK]                          hosts h1..hN at 10.77.0.1.. and fd77::1..\n"
      "       brdma lab up --topology NAME|FILE [NETWORK]                 several switches: %s\n"
      "         --controller unix:PATH|ADDRESS:PORT --controller-key FILE   of its switches and hosts (docs/wan.md)\n"
      "       brdma lab link LINK up|down                                 of a topology, while traffic runs\n"
      "       brdma lab link LINK set NETWORK\n"
      "       brdma lab route SWITCH add|replace PREFIX via PORT[,PORT...]\n"
      "       brdma lab route SWITCH del PREFIX\n"
      "       brdma lab exec HOST [--] PROGRAM ARGS                       with the RDMA devices in sight\n"
      "       brdma lab set NETWORK                                       change the network while it runs\n"
      "       brdma lab show [-j]                                         counters of the network\n"
      "       brdma lab top [-j] [--interval MS] [--count N]              its queues, live\n"
      "       brdma lab down\n"
      "       brdma lab list\n"
      "Each takes --name LAB (default: lab).\n"
      "NETWORK: without any, the hosts are joined directly, as fast as the kernel goes\n%s",
      topologies.c_str(), lab::network_help().c_str());
}

void require_no_command(const LabOptions& options) {
  if (!options.command.empty()) throw UsageError("'" + options.command.front() + "' is not expected here");
}

int up(Invocation& invocation) {
  LabOptions options = lab::parse_lab_options(invocation, 0);
  require_no_command(options);
  lab::require_whole_network(options);
  const lab::RunningLab running = lab::start_lab(options.plan, lab::Lifetime::kDetached);
  if (invocation.style.json) {
    print_json(lab::describe_lab(options.plan.name), invocation.style);
  } else if (isatty(STDOUT_FILENO) != 0) {
    const std::string& name = options.plan.name;
    std::printf("lab '%s' is up: h1 to %s. Try: brdma lab exec %sh1 -- ibv_devinfo\n", name.c_str(),
                lab::host_name(options.plan.hosts).c_str(), options.named ? ("--name " + name + " ").c_str() : "");
  }
  return 0;
}

int exec(Invocation& invocation) {
  const LabOptions options = lab::parse_lab_options(invocation, 1);
  if (options.operands.empty() || options.command.empty()) {
    throw UsageError("expected: brdma lab exec [--name LAB] HOST [--] PROGRAM ARGS");
  }
  for (const auto& [option, value] : options.plan.network) {
    // Here this is the program's own setting of that name: the lab's is its default.
    if (option != "paths") throw UsageError("--" + option + " is the lab's: brdma lab set --" + option + " " + value);
    setenv("BRDMA_PATHS", value.c_str(), 1);
  }
  return lab::run_on_host(lab::open_host(options.plan.name, options.operands.front()), options.command);
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
  print_records(records, invocation.style);
  return 0;
}

int pair(Invocation& invocation) {
  LabOptions options = lab::parse_lab_options(invocation, 0);
  if (options.command.empty()) throw UsageError("expected: brdma lab pair [NETWORK] -- PROGRAM ARGS");
  lab::require_whole_network(options);
  if (options.plan.hosts < 2) throw UsageError("--topology: a pair needs two hosts");
  return lab::run_pair(options, invocation.style);
}

}  // namespace

int lab_object(Invocation& invocation) {
  constexpr std::array<std::string_view, 11> kCommands{"help", "pair", "up",  "exec", "set",  "show",
                                                       "down", "list", "top", "link", "route"};
  take_style_options(invocation.words, invocation.style);
  if (invocation.words.empty()) {
    print_lab_help();
    return 2;
  }
  const std::string word = invocation.words.take();
  switch (find_word(word == "--help" || word == "-h" ? "help" : word, kCommands)) {
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
    default:
      throw UsageError("unknown command 'lab " + word + "': see 'brdma lab help'");
  }
}

}  // namespace brdma
