// qp/paths/path_status.h - state of one path of a queue pair, as plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace brdma::qp {

// State of one path of one queue pair, for management.
struct PathStatus {
  std::uint16_t source_port = 0;
  bool in_use = true;                            // false: set aside, silent
  std::uint64_t sent = 0, lost = 0, probes = 0;  // packets of data, READ requests
  std::uint64_t acknowledged = 0;                // of packets sent once: for others the received copy is unknown
  std::uint32_t in_flight = 0;                   // of data
  std::uint32_t loss_ppm = 0;                    // recent
  Duration round_trip, round_trip_min;
};

// State of one path's bitmap at a receiver (design BR-29), of requests or of READ responses.
struct PathReceived {
  std::uint8_t path = 0;
  bool in_use = true;           // false: nothing came on it recently, so no gap waits for it
  std::uint64_t packets = 0;    // received on it
  std::uint32_t marked = 0;     // of those, set in its bitmap: beyond the base
  std::uint32_t newest = 0;     // highest PSN of those (meaningful while there are some)
  std::uint32_t depth_max = 0;  // packets of the path that may overtake another of it, learnt
  std::size_t bytes = 0;        // memory of the bitmap
};

}  // namespace brdma::qp
