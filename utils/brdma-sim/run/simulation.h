// run/simulation.h - one run of a scenario: a world of engines (libbitmaprdma/sim) behind routers, a connection of its
// own for each flow in flight, and what became of each flow. One seed gives the same result on every machine.
//
//   make connections, without faults -> faults -> flows begin at their times -> the last one is done, or the time is up
//
// Errors: ScenarioError, samples::Misuse: the user's. Thread-safety: one thread for an object.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "fabric/link.h"
#include "run/flows.h"
#include "scenario/scenario.h"

namespace brdma::simulator {

struct FlowResult {
  Flow flow;
  std::optional<Duration> took;  // from its start to the acknowledgement of its last byte; none: not done
  Duration alone;                // run/standalone.h
  std::uint32_t broken = 0;      // connections that ran out of retries: it began again
};

struct RunResult {
  std::uint64_t seed = 0;
  std::vector<FlowResult> flows;                       // by their starts
  fabric::LinkCounters links;                          // of all links, since the first flow
  std::map<std::string, std::uint64_t> retransmitted;  // packets, by the counter's name: the cause
  std::uint64_t sent = 0;                              // data packets, for the first time
  std::uint64_t timeouts = 0, notices = 0, rewritten = 0;
  std::uint64_t waited = 0;  // flows that found no free connection
  Duration length;           // of virtual time, from the first flow's start
  std::size_t hosts = 0, switches = 0;
};

// `progress`: called now and then with the number of flows that are done.
[[nodiscard]] RunResult run_scenario(const Scenario& scenario, std::uint64_t seed,
                                     const std::function<void(std::size_t)>& progress = {});

}  // namespace brdma::simulator
