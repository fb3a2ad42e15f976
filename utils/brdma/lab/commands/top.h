// lab/commands/top.h - `brdma lab top`: the switch's queues while traffic runs.
#pragma once

#include "lab/commands/options.h"
#include "output.h"

namespace brdma::lab {

// Each `interval_ms` a block of lines, one for each host; on a terminal always in the same place. With -j one object a
// sample. Ends after `count` samples, if given, or with the lab.
void watch_queues(const LabOptions& options, const OutputStyle& style);

}  // namespace brdma::lab
