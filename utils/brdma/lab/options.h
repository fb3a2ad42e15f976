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
  std::uint32_t wait_seconds = 5;     // pair: for the server to listen
  std::vector<std::string> operands;  // words that are no options, before "--"
  std::vector<std::string> command;   // what follows "--", or for exec the first operand
};

// `operands_max` operands; one more starts `command` (as "--" does). Checks NETWORK values as a whole.
[[nodiscard]] LabOptions parse_lab_options(Invocation& invocation, std::size_t operands_max);

[[nodiscard]] std::string network_help();

}  // namespace brdma::lab
