// qp/paths/path_trail.h - the last packets sent on one path, for the next packet there to name (docs/reference/wire.md:
// before on this path).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/psn.h"
#include "wire/headers.h"

namespace brdma::qp {

class PathTrail {
 public:
  // A packet of `psns` PSNs leaves for the first time: returns the header field about those before it.
  wire::BeforeOnPath extend(Psn psn, std::uint32_t psns) {
    wire::BeforeOnPath before;
    const std::int32_t away = distance(psn, last_);
    const bool near = begun_ && away >= 1 && away <= static_cast<std::int32_t>(wire::BeforeOnPath::kDistanceMax);
    if (near) {
      before.distance = static_cast<std::uint16_t>(away);
      before.run = static_cast<std::uint16_t>(run_);
    }
    run_ = std::min((near && away == 1 ? run_ : 0) + psns, wire::BeforeOnPath::kRunMax);
    last_ = psn + (psns - 1);
    begun_ = true;
    return before;
  }

 private:
  bool begun_ = false;  // the other members are valid
  Psn last_;            // newest PSN that was sent on it for the first time
  std::uint32_t run_ = 0;
};

}  // namespace brdma::qp
