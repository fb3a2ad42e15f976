// results/files.h - writes and reads result files. A file is whole or not there: it is written beside its place and
// moved. Errors: samples::RunError names the file and the reason.
#pragma once

#include <optional>
#include <string>

#include "results/summary.h"

namespace brdma::simulator {

void make_folder(const std::string& path);
void write_file(const std::string& path, const std::string& text);
[[nodiscard]] std::optional<Json> read_json(const std::string& path);  // none: it is not there, or no JSON object
// flows.tsv, flows.svg and, last, summary.json: with it the run is complete.
void write_run(const std::string& folder, const Scenario& scenario, const RunResult& result, const Json& summary);

}  // namespace brdma::simulator
