// run/flows.h - the flows of a scenario: when each begins, between which hosts, how long it is. They depend on the seed
// and the workload alone, so that all protocols get the same flows.
// Errors: samples::Misuse, where there is no such file of sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "network/shape.h"
#include "scenario/scenario.h"

namespace brdma::simulator {

struct Flow {
  Duration start;  // from the beginning
  std::uint32_t workload = 0;
  std::uint32_t from = 0, to = 0;  // hosts, from 0
  std::uint64_t bytes = 0;
};

// What a workload's load is a part of, in bit/s, and its name.
struct Capacity {
  double bps = 0;
  std::string name;
};
[[nodiscard]] Capacity capacity_of(const WorkloadPlan& plan, const Scenario& scenario, const Shape& shape);

// By rising start; of equal starts in the order of their making.
// for loads that count headers.
[[nodiscard]] std::vector<Flow> make_flows(const Scenario& scenario, const Shape& shape, std::uint64_t seed);

// Folders with files of flow sizes.
[[nodiscard]] std::vector<std::string> size_folders();

}  // namespace brdma::simulator
