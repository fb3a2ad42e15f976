// qp/path_status.h - how one path of a queue pair stands, as plain values.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::qp {

// How one path of one queue pair stands, for whoever asks.
struct PathStatus {
  std::uint16_t source_port = 0;
  bool in_use = true;                            // false: set aside, silent
  std::uint64_t sent = 0, lost = 0, probes = 0;  // packets of data, requests for answers
  std::uint64_t acknowledged = 0;                // of what was sent once: which copy of several arrived is not known
  std::uint32_t in_flight = 0;                   // of data
  std::uint32_t loss_ppm = 0;                    // of late
  Duration round_trip, round_trip_min;
};

}  // namespace brdma::qp
