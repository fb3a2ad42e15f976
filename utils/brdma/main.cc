// brdma - the command line: brdma [-j|-p|-d] OBJECT COMMAND, after iproute2's rdma(8). docs/cli.md
// Exit codes: 0 done, 1 failed, 2 misuse; run and lab exec/pair return the program's own.

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "lab/processes/keeper.h"
#include "objects.h"
#include "output.h"

namespace brdma {
namespace {

struct Object {
  std::string_view name;
  int (*run)(Invocation&);
  std::string_view help;
};
// The order decides what an abbreviation means.
constexpr std::array kObjects{
    Object{"dev", dev_object, "RDMA devices: one for each network interface that is up"},
    Object{"link", link_object, "their ports"},
    Object{"resource", resource_object, "objects of programs: resource show [ctx|qp|cq|mr|gap|duplicate|cm_id]"},
    Object{"system", system_object, "versions; show config: every setting and its source; shutdown: end brdmad"},
    Object{"statistic", statistic_object,
           "counters; -d: of each process too; statistic show qp: of each queue pair; show cm: of RDMA-CM"},
    Object{"recovery", recovery_object,
           "loss detection and recovery: recovery show, recovery set [dev DEV] [qp N] KEY VALUE, recovery "
           "retransmit qp N [psn PSN [packets N] | gap PSN | gaps]"},
    Object{"congestion", congestion_object,
           "congestion control: congestion show, congestion set [dev DEV] [qp N] KEY VALUE"},
    Object{"managed", managed_object,
           "destinations with a reduced rate: managed show, managed add|remove ADDRESS [dev DEV]"},
    Object{"controller", controller_object,
           "routes of a wide-area network: controller show [links|switches|prefixes|hosts|counters], controller stop"},
    Object{"event", event_object, "events: event [-f] [dev DEV] [qp N] [since 10s] [TYPE...]; -f: follow"},
    Object{"alarm", alarm_object, "thresholds and raised alarms: alarm show, alarm set KEY VALUE"},
    Object{"run", run_object, "run a program with the devices in sight: run -- PROGRAM ARGS"},
    Object{"env", env_object, "the same for a shell: eval \"$(brdma env)\""},
    Object{"lab", lab_object, "hosts on this machine and a network that loses packets: lab help"},
};

void print_help() {
  std::printf("Usage: brdma [-j|-p|-d] OBJECT COMMAND    words may be abbreviated; the command is show by default\n\n");
  for (const Object& object : kObjects) {
    std::printf("  %-10s %s\n", std::string{object.name}.c_str(), std::string{object.help}.c_str());
  }
  std::printf("\n  -j JSON   -p JSON over several lines   -d details   -V version   help\n");
}

int dispatch(std::vector<std::string> arguments) {
  Invocation invocation{Words{std::move(arguments)}, {}};
  Words& words = invocation.words;
  while (!words.empty() && words.peek().starts_with("-")) {
    if (take_style_option(words, invocation.style)) continue;
    const std::string option = words.take();
    if (option == "-V" || option == "--version") {
      std::printf("brdma %s\n", BRDMA_VERSION);
      return 0;
    }
    if (option == "-h" || option == "--help" || option == "-help") {
      print_help();
      return 0;
    }
    throw UsageError("unknown option '" + option + "': see 'brdma help'");
  }
  if (words.empty()) {
    print_help();
    return 2;
  }
  const std::string word = words.take();
  if (word == "help") {
    print_help();
    return 0;
  }
  if (word == "version") {
    std::printf("brdma %s\n", BRDMA_VERSION);
    return 0;
  }
  std::vector<std::string_view> names;
  for (const Object& object : kObjects) names.push_back(object.name);
  const int found = find_word(word, names);
  if (found < 0) throw UsageError("unknown object '" + word + "': see 'brdma help'");
  return kObjects[static_cast<std::size_t>(found)].run(invocation);
}

}  // namespace

bool take_style_option(Words& words, OutputStyle& style) {
  const std::string& word = words.peek();
  if (word == "-j" || word == "-json" || word == "--json") {
    style.json = true;
  } else if (word == "-p" || word == "-pretty" || word == "--pretty") {
    style.json = style.pretty = true;
  } else if (word == "-jp" || word == "-pj") {
    style.json = style.pretty = true;
  } else if (word == "-d" || word == "-details" || word == "--details") {
    ++style.details;
  } else if (word == "-dd") {
    style.details += 2;
  } else if (word == "-jd" || word == "-dj") {
    style.json = true;
    ++style.details;
  } else {
    return false;
  }
  words.take();
  return true;
}

void take_style_options(Words& words, OutputStyle& style) {
  while (!words.empty() && take_style_option(words, style)) {
  }
}

}  // namespace brdma

int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::string_view{argv[1]} == "lab-keeper") {
      return brdma::lab::run_keeper(brdma::lab::keeper_description(argv[2]));
    }
    return brdma::dispatch({argv + 1, argv + argc});
  } catch (const brdma::UsageError& error) {
    brdma::print_error(error.what());
    return 2;
  } catch (const std::exception& error) {
    brdma::print_error(error.what());
    return 1;
  }
}
