// qp/loss/reported_arrivals.h - private: what an acknowledgement says of packets beyond its base: bits, SACK ranges,
// completed segments. They have arrived, so they are not to be retransmitted; completion waits for the base. And what
// it shows of those that are missing: the receiver has judged them lost, or they are missing for long, or lost again.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/inquiry/link_inquiries.h"
#include "qp/loss/loss_recovery.h"
#include "qp/loss/sent_packets.h"
#include "qp/timers/progress.h"
#include "qp/timers/timer_lengths.h"
#include "wire/control.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class ReportedArrivals {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    Scoreboard& scoreboard;
    const Segments& segments;
    const congestion::DelayWindow& congestion;
    PooledLossRecovery& loss;
    const SendPaths* paths;  // nullptr: there is one
    bool sender_judges;
    SentPackets packets;
    Progress progress;
    LinkInquiries inquiries;
    TimerLengths lengths;
  };
  explicit ReportedArrivals(const Parts& parts) : parts_(parts) {}

  // `from`: the acknowledgement's base. Preconditions: it and `ack.highest` lie in the scoreboard, the segments that it
  // names have left, and all before the base is acknowledged.
  void on_acknowledgement(const wire::BitmapAck& ack, Sequence from, Instant now) const;
  // A receiver that was not ready may have dropped later arrivals: packets that its bits no longer show are in flight
  // again.
  void take_back(const wire::BitmapAck& ack, Sequence from, Instant now) const;

 private:
  struct EchoedPacket {  // that caused the acknowledgement
    Instant sent;
    std::uint8_t path = 0;
  };
  void take_bits(const wire::BitmapAck& ack, Sequence from, Instant now) const;
  void take_segments(const wire::BitmapAck& ack, Instant now) const;
  void take_ranges(const wire::BitmapAck& ack, Sequence from, Instant now) const;
  bool take_reported(Sequence sequence, Instant now) const;
  void judge_missing(const wire::BitmapAck& ack, Sequence from, Sequence end, Instant now) const;
  void apply_judgement(Sequence from, Sequence to, Instant now) const;
  struct Holes {  // in [from, to); the receiver has judged those before `judged`
    Sequence from, judged, to;
  };
  [[nodiscard]] bool may_be_held(Sequence at, const Holes& holes) const;
  void retransmit_old_holes(const Holes& holes, const std::optional<EchoedPacket>& echo, Instant now) const;
  [[nodiscard]] bool lost_again(const bitmap::SendEntry& entry, Instant sent, const std::optional<EchoedPacket>& echo,
                                Instant now) const;
  [[nodiscard]] Duration apart_on_paths() const;

  Parts parts_;
};

}  // namespace brdma::qp
