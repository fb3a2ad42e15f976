// run/server.h - the side without an address: waits for the clients of a run, serves it, prints their shares.
#pragma once

#include "run/loop.h"
#include "values/options.h"

namespace brdma::perf {

// One run, or with options.serve_on runs until interrupted. Returns the exit code: 1 where data was wrong. Throws
// RunError if it cannot listen, or (without serve_on) if the run failed.
[[nodiscard]] int run_server(Loop& loop, const Options& options);

}  // namespace brdma::perf
