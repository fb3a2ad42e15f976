// fabric/marking_text.h - a curve of marks or early drops as text, for the options of fabric/network.h: two values and
// the chance at the second. Their unit says what is measured (fabric/switch/red_marker.h):
//   20kb,80kb,10%    length of the queue, at most 1 GiB
//   50us,200us,10%   queueing delay, at most 10 s
//   40%,80%,10%      occupancy of the shared memory, at most 100 %
// The first may be 0 without a unit. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "fabric/switch/red_marker.h"

namespace brdma::fabric {

// Nothing: not of this form. "off" is the caller's.
[[nodiscard]] std::optional<MarkingConfig> parse_marking(std::string_view text);
[[nodiscard]] std::string print_marking(const MarkingConfig& marking);

}  // namespace brdma::fabric
