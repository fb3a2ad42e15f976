// lab/commands/pair.h - one server and one client of a program, on two hosts of a lab of their own, and a table of the
// results.
#pragma once

#include "lab/commands/options.h"
#include "output.h"

namespace brdma::lab {

// Runs options.command on h1 and, when that listens, the same on h2 with h1's address appended. Prints both outputs,
// each line with its host's name before it, then the table; with JSON one object instead. Returns the exit code: the
// client's, or the server's when only that failed; 130 when interrupted. The lab and all in it are gone afterwards.
[[nodiscard]] int run_pair(const LabOptions& options, const OutputStyle& style);

}  // namespace brdma::lab
