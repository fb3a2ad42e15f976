// brdma-sim - simulates networks and flows: docs/howto/simulator.md. `brdma sim` runs it.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "options.h"
#include "results/files.h"
#include "results/summary.h"
#include "run/simulation.h"
#include "samples/errors.h"
#include "scenario/scenario_file.h"
#include "scenario/table_reader.h"
#include "sweep.h"

namespace brdma::simulator {
namespace {

int run_once(const Options& options) {
  const Scenario scenario = read_scenario(options.scenario, options.changes);
  std::size_t all = 0;
  for (const WorkloadPlan& each : scenario.workloads) all += each.flows;
  const bool terminal = isatty(2) != 0;
  const auto progress = [&](std::size_t done) {
    if (terminal) std::fprintf(stderr, "\rflows %zu of %zu", done, all);
  };
  const RunResult result = run_scenario(scenario, options.seed.value_or(scenario.run.seed), progress);
  if (terminal) std::fputs("\r\033[K", stderr);
  const Json summary = summary_of(scenario, result);
  if (!options.output.empty()) write_run(options.output, scenario, result, summary);
  std::fputs((options.json ? summary.dump() + "\n" : text_of(summary)).c_str(), stdout);
  if (std::fflush(stdout) != 0) throw samples::RunError("cannot write the results to standard output");
  return 0;
}

int run(const Options& options) {
  switch (options.kind) {
    case Options::Kind::kDone:
      return options.exit_code;
    case Options::Kind::kRun:
      return run_once(options);
    case Options::Kind::kSweep:
      return run_sweep(options);
  }
  return 2;
}

int print(const std::exception& error, int code) {
  std::fprintf(stderr, "brdma sim: %s\n", error.what());
  return code;
}

}  // namespace
}  // namespace brdma::simulator

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return brdma::simulator::run(brdma::simulator::parse_options(argc, argv));
  } catch (const brdma::simulator::ScenarioError& error) {
    return brdma::simulator::print(error, 2);
  } catch (const brdma::samples::Misuse& error) {
    return brdma::simulator::print(error, 2);
  } catch (const std::exception& error) {
    return brdma::simulator::print(error, 1);
  }
}
