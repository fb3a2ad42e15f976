// values/picture.h - results as a picture (SVG 1.1, no script, no font but the viewer's): goodput over time, with the
// warm-up shaded, and for latencies the part of samples above each time, both axes logarithmic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "values/plan.h"

namespace brdma::perf {

// `took`: the samples' times in ns, in any order; empty: no second part.
[[nodiscard]] std::string picture_of(const Json& results, std::vector<std::uint64_t> took);

// Positions of an axis' labels, for tests: 1, 2 or 5 times a power of ten, at most `most` + 1 from 0 to `high`.
[[nodiscard]] std::vector<double> round_ticks(double high, std::size_t most);

}  // namespace brdma::perf
