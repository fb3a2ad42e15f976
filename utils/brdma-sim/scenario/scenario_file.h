// scenario/scenario_file.h - reads a scenario, a TOML file (docs/howto/simulator.md, docs/reference/simulator.md):
//   [topology] [network] [core] [protocol] [[group]] [workload] or [[workload]] [run]
// Errors: ScenarioError names file, line, and the word that was probably meant.
#pragma once

#include <string>
#include <vector>

#include "scenario/scenario.h"

namespace brdma::simulator {

inline constexpr std::size_t kScenarioBytesMax = 1u << 20;

// Changes of --set: "workload.load=0.7". The table must not be one of several (group, [[workload]]).
[[nodiscard]] Scenario parse_scenario(const std::string& text, const std::string& file,
                                      const std::vector<std::string>& changes = {});
[[nodiscard]] Scenario read_scenario(const std::string& file, const std::vector<std::string>& changes);

}  // namespace brdma::simulator
