// run/output.h - files and standard output. A write error is an error: RunError.
#pragma once

#include <string>
#include <vector>

#include "values/plan.h"
#include "values/recording.h"

namespace brdma::perf {

void print(const std::string& text);
void write_picture(const std::string& path, const Json& results, const std::vector<Sample>& samples);
[[nodiscard]] Json read_results(const std::string& path);
// Where mixes of flow sizes are, beside the programs and as installed.
[[nodiscard]] std::vector<std::string> mix_folders();

}  // namespace brdma::perf
