// lab/commands/routing.h - `brdma lab link` and `brdma lab route`: links and routes of a topology, changed while
// traffic runs.
#pragma once

#include "lab/commands/options.h"
#include "output.h"

namespace brdma::lab {

inline constexpr std::size_t kLinkOperands = 2, kRouteOperands = 5;

[[nodiscard]] Json change_link(const LabOptions& options);   // LINK up|down, or LINK set and link options
[[nodiscard]] Json change_route(const LabOptions& options);  // SWITCH add|replace PREFIX via PORT,..., or del PREFIX

// Tables for `show`, from the switch's answer: links with their traffic in each direction, switches with their routes.
void print_topology(const Json& show);

}  // namespace brdma::lab
