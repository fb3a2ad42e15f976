// qp/state/open_gap.h - the record of a gap (design BR-10), as plain values for management.
#pragma once

#include <cstdint>

#include "base/psn.h"
#include "base/units.h"
#include "recovery/gap_judge.h"

namespace brdma::qp {

struct OpenGap {
  bool response = false;  // among responses to our READs and atomics; else among the peer's requests
  Psn start;
  std::uint32_t length = 0;
  Instant first_seen;
  bool promoted = false;
  recovery::LossCause cause{};  // of a promoted one
  std::uint8_t path = 0;        // path of the packet that revealed it; its own if path_known
  bool path_known = false;
  std::uint32_t depth = 0;      // reorder depth: highest PSN received minus its start
  bool stalls = false;          // the base stands because of it ...
  Duration stalled;             // ... for so long
  std::uint32_t feedbacks = 0;  // FFMs that named it, or READ re-requests; 0: none
  Instant last_feedback;        // the last of them
};

// Result of an operator's retransmission.
struct RetransmitRequested {
  Psn first;
  std::uint32_t packets = 0, gaps = 0;  // gaps 0: packets were named
};

}  // namespace brdma::qp
