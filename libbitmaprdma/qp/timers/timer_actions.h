// qp/timers/timer_actions.h - private: what a requester does when one of its timers fires. When each is due:
// deadlines.h.
//
//   RTO      the first and the last unacknowledged packet leave again; all others wait for evidence (see on_evidence)
//   probe    the last one (TLP): if the tail was lost, the receiver now sees a gap and reports the missing packets
//   stall    the packets before one that has arrived are suspected, and the first of them leaves again
//   RNR      everything that the receiver refused, or dropped behind that, leaves again
#pragma once

#include <cstdint>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/inquiry/link_inquiries.h"
#include "qp/loss/sent_packets.h"
#include "qp/read/response_gaps.h"
#include "qp/timers/deadlines.h"
#include "qp/timers/progress.h"
#include "qp/timers/receiver_not_ready.h"
#include "qp/timers/retransmission_timers.h"
#include "qp/timers/timer_lengths.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class TimerActions {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    Scoreboard& scoreboard;
    RetransmissionTimers& timers;
    ReceiverNotReady& rnr;
    congestion::DelayWindow& congestion;
    ResponseAdmission& responses;
    const ResponseReceiver& receiver;
    SendPaths* paths;  // nullptr: there is one
    SentPackets packets;
    ResponseGaps gaps;
    LinkInquiries inquiries;
    TimerLengths lengths;
  };
  explicit TimerActions(const Parts& parts) : parts_(parts) {}

  void fire_retransmission(Instant now) const;
  void fire_probe(Instant now) const;
  void fire_stall(Instant now) const;
  void end_rnr_wait(Instant now) const;

  // A process that was stopped, or had no core, finds its deadlines long past. It received nothing in that time, so the
  // time does not count as silence. One retry remains in any case, whose acknowledgement may be in flight. (Packets
  // received meanwhile lie in the socket: a round of them is processed before timers are checked.) `due`: the RTO.
  void note_own_pause(Instant due, Instant now) const;

  // After a timeout only the first and the last undecided packet are retransmitted: with a merely slow peer more would
  // be waste. An acknowledgement of a packet sent after the timeout decides: earlier packets still missing are lost.
  // One of a packet sent before, or of most of them, shows that the timeout was spurious, as this host or the peer had
  // no core for a while. The congestion windows then stay as they are (in the spirit of Eifel, RFC 4015).
  // `sent`: the peer has received a packet that left then.
  void on_evidence(Instant sent, Instant now) const;

 private:
  void repeat(Sequence sequence, Instant now) const;
  void retransmit_by_irn(Instant now) const;

  Parts parts_;
};

}  // namespace brdma::qp
