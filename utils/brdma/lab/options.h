// lab/options.h - the words of `brdma lab COMMAND` as values.
#pragma once

#include <string>
#include <vector>

#include "lab/plan.h"
#include "objects.h"

namespace brdma::lab {

struct LabOptions {
  LabPlan plan;
  bool named = false;                 // --name was given
  bool hosts_given = false;           // --hosts was
  std::string topology;               // --topology
  std::uint32_t wait_seconds = 5;     // pair: for the server to listen
  std::uint32_t interval_ms = 1000;   // top: from one look to the next
  std::uint32_t count = 0;            // top: so many looks; 0: until interrupted
  std::vector<std::string> operands;  // words that are no options, before "--"
  std::vector<std::string> command;   // what follows "--", or for exec the first operand
};

// `operands_max` operands; one more starts `command` (as "--" does). Checks NETWORK values as a whole.
[[nodiscard]] LabOptions parse_lab_options(Invocation& invocation, std::size_t operands_max);

// For a lab that shall come up: reads its topology, if one is given. That NETWORK, with defaults for what it does not
// name, makes sense as a whole. Throws UsageError.
void require_whole_network(LabOptions& options);

[[nodiscard]] std::string network_help();

}  // namespace brdma::lab
