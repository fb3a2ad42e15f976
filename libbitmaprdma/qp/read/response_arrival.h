// qp/read/response_arrival.h - private: what a response that has been placed changes. It is acknowledged, and no longer
// awaited. The first one to a request that was sent once gives an RTT sample (Karn): of a response that was requested
// again it is not known which request it answers. With several paths it is evidence of the path.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/loss/sender_judge.h"
#include "qp/loss/sent_packets.h"
#include "qp/paths/path_evidence.h"
#include "qp/paths/paths_send.h"
#include "qp/read/response_admission.h"
#include "qp/read/response_gaps.h"
#include "qp/send/congestion_state.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/timers/retransmission_timers.h"
#include "recovery/rtt_estimator.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class ResponseArrival {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const Scoreboard& scoreboard;
    recovery::RttEstimator& rtt;
    congestion::DelayWindow& congestion;  // of requests
    ResponseAdmission& responses;
    RetransmissionTimers& timers;
    SenderJudge* judge;  // nullptr: the sender does not judge losses
    ResponsePace* pace;  // nullptr: responses are not paced
    SendPaths* paths;    // nullptr: there is one
    SentPackets packets;
    ResponseGaps gaps;
  };
  explicit ResponseArrival(const Parts& parts) : parts_(parts) {}

  // The request of a response, as last sent.
  struct Request {
    Instant sent;
    bool once = false;  // it was sent once
  };
  // `packet`, the response at `sequence`, came from that UDP port, and its data is placed.
  Request take(const wire::Packet& packet, Sequence sequence, const Message& message, std::uint16_t source_port,
               Instant now) const;

 private:
  [[nodiscard]] PathEvidence path_evidence() const;
  void measure(Sequence sequence, std::uint16_t source_port, Instant sent, Instant now) const;

  Parts parts_;
};

}  // namespace brdma::qp
