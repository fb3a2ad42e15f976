// run/client.h - a run as its client sees it.
#pragma once

#include "run/loop.h"
#include "values/options.h"

namespace brdma::perf {

// Connects, runs, prints. Returns the exit code: 1 where data was wrong. Throws RunError and Misuse.
[[nodiscard]] int run_client(Loop& loop, const Options& options);

}  // namespace brdma::perf
