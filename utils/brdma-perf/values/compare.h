// values/compare.h - two results beside each other: what differs beyond noise.
//
// A difference counts if the 95 % intervals do not meet: a stricter test than one at 5 %. The intervals hold the noise
// within a run. Runs at other times may differ by more: repeat A after B.
#pragma once

#include <string>

#include "values/plan.h"

namespace brdma::perf {

// {differs: [{key, a, b}], metrics: [{metric, unit, a, b, ratio, difference: "more" "less" "none" "unknown"}]}, of `b`
// to `a`; a and b: {value, low, high}. `differs`: conditions that are not the same in both. Throws RunError if one of
// them is no result of brdma perf.
[[nodiscard]] Json compare(const Json& a, const Json& b);
[[nodiscard]] std::string compare_text(const Json& comparison);

}  // namespace brdma::perf
