// qp/paths/path_probing.h - what requests and responses have in common when they judge a path: how often one that is
// set aside is probed, and how its loss is averaged.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::qp {

// The interval between probes of a path that is set aside: doubled from the first to the maximum.
inline constexpr Duration kProbeFirst = 4_ms, kProbeMax = 1_s;
// Moving average of a path's loss in parts per million: each packet counts for 1/64.
inline constexpr std::uint32_t kLossGainShift = 6, kPpm = 1'000'000;

}  // namespace brdma::qp
