// process_rows.h - lists from running processes: queue pairs, completion queues, memory regions, counters of queue
// pairs. One record each.
#pragma once

#include <string>
#include <string_view>

#include "management.h"

namespace brdma {

// `question` for brdmad; its rows, each headed by device and process. `heading`: "dev" or "link", as in rdma(8).
// `filters`: "KEY VALUE" pairs that a row must match, as in rdma(8); throws UsageError if no row has the key.
// `columns`: as for print_records(). A queue pair of `target` that no program has is reported on standard error. Exit
// code: 1 if a process gave no answer.
[[nodiscard]] int show_rows(const Json& question, const Target& target, const Json& filters, const std::string& heading,
                            std::string_view columns, const OutputStyle& style);

}  // namespace brdma
