// lab/commands/options.h - the words of `brdma lab COMMAND` as values.
#pragma once

#include <string>
#include <vector>

#include "lab/network/plan.h"
#include "objects.h"

namespace brdma::lab {

struct LabOptions {
  LabPlan plan;
  bool named = false;                 // --name was given
  bool hosts_given = false;           // --hosts was
  std::string topology;               // --topology
  std::uint32_t wait_seconds = 5;     // pair: seconds until the server must listen
  std::uint32_t interval_ms = 1000;   // top: time between two samples
  std::uint32_t count = 0;            // top: number of samples; 0: until interrupted
  std::vector<std::string> operands;  // words that are not options, before "--"
  std::vector<std::string> command;   // words behind "--", or for exec from the first operand
};

// `operands_max` operands; one more starts `command` (as "--" does). Checks NETWORK values as a whole.
[[nodiscard]] LabOptions parse_lab_options(Invocation& invocation, std::size_t operands_max);

// As ssh has them: `[--name LAB] [-n] [-q] [-T] [-x] [-l USER] HOST [WORD ...]`. Words behind HOST are the command's,
// joined by spaces.
struct RemoteCommand {
  std::string lab, host, command;
};
[[nodiscard]] RemoteCommand parse_remote_command(Words& words);

// For a lab that will be started: reads its topology, if one is given. Checks that NETWORK makes sense as a whole, with
// defaults for missing options. Throws UsageError.
void require_whole_network(LabOptions& options);

[[nodiscard]] std::string network_help();

}  // namespace brdma::lab
