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

}  // namespace brdma::perf
