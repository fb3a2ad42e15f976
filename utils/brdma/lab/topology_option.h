// lab/topology_option.h - `--topology NAME|FILE`: one of those that come with the package (docs/lab.md), or one's own.
#pragma once

#include <string>
#include <vector>

#include "lab/plan.h"

namespace brdma::lab {

// Finds it, reads it, and makes the plan one of its hosts and its NETWORK, where `plan.network` does not say otherwise.
// Throws UsageError.
void load_topology(LabPlan& plan, const std::string& name);
// The text's hosts and switches alone; an empty text changes nothing. Throws topology::TopologyError.
void take_topology(LabPlan& plan, const std::string& text, const std::string& name);

[[nodiscard]] std::vector<std::string> topology_names();  // that come with the package

}  // namespace brdma::lab
