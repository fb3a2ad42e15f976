// qp/loss/executed_requests.h - private: the peer has executed all requests before a packet, as an acknowledgement's
// base or a response shows. Their packets are acknowledged, the peer is alive, and a receiver that was not ready has
// taken packets again.
#pragma once

#include "base/units.h"
#include "qp/loss/sent_packets.h"
#include "qp/timers/progress.h"
#include "qp/timers/receiver_not_ready.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class ExecutedRequests {
 public:
  struct Parts {
    Scoreboard& scoreboard;
    ReceiverNotReady& rnr;
    SentPackets packets;
    Progress progress;
    bool in_bulk;  // nothing is missing, and there are no per-packet records (CumulativeAcks::in_bulk)
  };
  explicit ExecutedRequests(const Parts& parts) : parts_(parts) {}

  // Precondition: `boundary` lies beyond all that is known to be executed. True: the refused packet has been taken
  // while we waited, as a receive was posted meanwhile.
  [[nodiscard]] bool acknowledge_before(Sequence boundary, Instant now) const {
    Scoreboard& board = parts_.scoreboard;
    if (parts_.in_bulk) {
      parts_.packets.acknowledge_run(board.cumulative(), boundary, now);
    } else {
      parts_.packets.acknowledge_before(boundary, now);
    }
    board.set_cumulative(boundary, now);
    parts_.rnr.on_executed(board.cumulative());
    parts_.progress.on_acknowledged(now);
    return parts_.rnr.waiting();
  }

 private:
  Parts parts_;
};

}  // namespace brdma::qp
