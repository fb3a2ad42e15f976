// recovery/drop_notice.h - a switch reports a dropped packet: is it to be retransmitted? (design DN-13)  Pure.
#pragma once

#include <optional>

#include "base/units.h"
#include "bitmap/send_window.h"
#include "recovery/retransmit_request.h"

namespace brdma::recovery {

struct DroppedEntry {
  bitmap::EntryState state = bitmap::EntryState::kSentUnacked;
  bool sent_again = false;  // transmitted more than once
  Instant sent;             // its last transmission, up to 64 ns early
  bool first = true;        // of the reported range
};

// `transmitted`: send time of the dropped transmission, of the first packet of the range; the others followed within 20
// us. Unknown where the packets of the queue pair carry no timestamps.
//   sent once                             the drop was of that one
//   sent again, transmission known        an old notification, if this one was sent after it: that may have arrived
//   sent again, transmission not known    as with feedback: not twice within the quiet time
[[nodiscard]] RequestVerdict judge_drop(const DroppedEntry& entry, std::optional<Instant> transmitted, Duration quiet,
                                        Instant now);

}  // namespace brdma::recovery
