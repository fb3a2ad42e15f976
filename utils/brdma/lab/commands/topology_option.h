// lab/commands/topology_option.h - `--topology NAME|FILE`: one that comes with the package (docs/reference/lab.md), or
// the user's own.
#pragma once

#include <string>
#include <vector>

#include "lab/network/plan.h"

namespace brdma::lab {

// Finds and reads the topology. Takes its hosts into the plan, and its NETWORK except for options that `plan.network`
// sets. Throws UsageError.
void load_topology(LabPlan& plan, const std::string& name);
// Takes only the text's hosts and switches; an empty text changes nothing. Throws topology::TopologyError.
void take_topology(LabPlan& plan, const std::string& text, const std::string& name);

[[nodiscard]] std::vector<std::string> topology_names();  // of the package

}  // namespace brdma::lab
