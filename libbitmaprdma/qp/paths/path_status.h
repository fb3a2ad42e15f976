// qp/paths/path_status.h - how one path of a queue pair stands, as plain values.
#pragma once

#include <cstddef>
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

// How the path bitmap of one path of a receiver stands (spec 1: multipath), of requests or of READ responses.
struct PathReceived {
  std::uint8_t path = 0;
  bool in_use = true;           // false: nothing came on it recently, so no gap waits for it
  std::uint64_t packets = 0;    // that came on it
  std::uint32_t marked = 0;     // of those, set in its bitmap: beyond the base
  std::uint32_t newest = 0;     // highest PSN of those (meaningful while there are some)
  std::uint32_t depth_max = 0;  // packets of the path that may overtake another of it, learnt
  std::size_t bytes = 0;        // memory of the bitmap
};

}  // namespace brdma::qp
