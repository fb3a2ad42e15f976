// check/report.h - facts and findings as text and as JSON. docs/reference/cli.md lists the keys.
#pragma once

#include <vector>

#include "check/finding.h"
#include "output.h"

namespace brdma::check {

[[nodiscard]] Json report_json(const Facts& facts, const std::vector<Finding>& findings);
// A section a heading, one fact a line; findings last.
[[nodiscard]] std::string report_text(const Facts& facts, const std::vector<Finding>& findings);
// Throws std::runtime_error if standard output cannot be written.
void print_report(const Facts& facts, const std::vector<Finding>& findings, const OutputStyle& style);

}  // namespace brdma::check
