// process_rows.h - lists from running processes: queue pairs, completion queues, memory regions, counters of queue
// pairs. One record each.
#pragma once

#include <string>

#include "management.h"

namespace brdma {

// `question` for brdmad; its rows, each headed by device and process. `heading`: "dev" or "link", as in rdma(8).
// `filters`: "KEY VALUE" pairs that a row must match, as in rdma(8). Exit code: 1 if a process gave no answer.
[[nodiscard]] int show_rows(const Json& question, const Target& target, const Json& filters, const std::string& heading,
                            const OutputStyle& style);

}  // namespace brdma
