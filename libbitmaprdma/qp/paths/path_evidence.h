// qp/paths/path_evidence.h - private: what arrivals say of the paths that requests take (qp/paths/paths_send.h): an RTT
// sample of the path, the end of a doubt, and the silence of another path, whose packets in flight take another then.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/loss/sent_packets.h"
#include "qp/paths/paths_send.h"
#include "qp/read/response_admission.h"
#include "qp/timers/timer_lengths.h"
#include "wire/control.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class PathEvidence {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const Scoreboard& scoreboard;
    congestion::DelayWindow& congestion;  // of requests
    congestion::DelayWindow& responses;   // of the return path
    SendPaths& paths;
    SentPackets packets;
    TimerLengths lengths;
  };
  explicit PathEvidence(const Parts& parts) : parts_(parts) {}

  // An acknowledgement from that UDP port echoes a packet that left at `sent`. Returns the RTT sample for the
  // congestion window.
  Duration on_echo(const wire::BitmapAck& ack, std::uint16_t source_port, Instant sent, Duration round_trip,
                   Instant now) const;
  // The first response to a request that was sent once, at `sent` on that path: as an echo. Likewise a sample.
  Duration on_response(std::uint8_t path, std::uint16_t source_port, Instant sent, Instant now) const;
  // A response to a request that may have been sent more than once.
  void on_any_response(Sequence sequence, const Message& message, Instant now) const;

 private:
  void note_alive(std::uint8_t path, bool returned, Instant now) const;
  void retransmit_path(std::uint8_t path, Instant now) const;

  Parts parts_;
};

}  // namespace brdma::qp
