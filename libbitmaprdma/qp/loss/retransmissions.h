// qp/loss/retransmissions.h - private: pending packets leave again, lowest PSN first, so that neighbours travel in one
// batch, whoever requested them (design BR-24). Payload comes from the application's memory,
// looked up again: the region may be gone. Of a request with responses the missing ones are requested again.
//
// They wait for others of their batch (held back), for the retransmission window and for the congestion window. Packets
// of a timeout or a probe, which end a silence, wait for nothing (RetransmissionTimers::has_grant).
#pragma once

#include <cstdint>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/loss/loss_recovery.h"
#include "qp/loss/sent_packets.h"
#include "qp/paths/paths_send.h"
#include "qp/queues/payload_cursor.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/transmit_batch.h"
#include "qp/queues/work_completer.h"
#include "qp/send/ack_requests.h"
#include "qp/send/admission.h"
#include "qp/send/congestion_state.h"
#include "qp/send/packet_builder.h"
#include "qp/timers/receiver_not_ready.h"
#include "qp/timers/retransmission_timers.h"
#include "recovery/rtt_estimator.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed. Precondition: a packet is pending.
class Retransmissions {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const SendQueue& queue;
    SendFault& fault;
    const Scoreboard& scoreboard;
    const recovery::RttEstimator& rtt;
    const congestion::DelayWindow& congestion;   // of requests
    const congestion::DelayWindow& return_path;  // of responses
    PooledLossRecovery& loss;
    Admission& admission;
    RetransmissionTimers& timers;
    const ReceiverNotReady& rnr;
    ResponsePace* pace;  // nullptr: responses are not paced
    SendPaths* paths;    // nullptr: there is one
    SentPackets packets;
  };
  explicit Retransmissions(const Parts& parts) : parts_(parts) {}

  // The first may leave now.
  [[nodiscard]] bool may_leave(Instant now) const;
  // As many as may leave and fit. True: some were added.
  bool poll(TransmitBatch& batch, Instant now) const;

 private:
  struct Rerequested {  // responses of one message
    Sequence first, end;
    [[nodiscard]] std::uint32_t packets() const { return static_cast<std::uint32_t>(end - first); }
  };
  [[nodiscard]] SendLimits limits() const {
    return {parts_.env, parts_.id, parts_.scoreboard, parts_.congestion, parts_.admission};
  }
  [[nodiscard]] AckRequests ack_requests() const {
    return AckRequests{{parts_.id, parts_.queue, parts_.rnr, limits(), parts_.admission}};
  }
  [[nodiscard]] PacketBuilder builder() const { return {parts_.id, parts_.queue, parts_.scoreboard}; }
  [[nodiscard]] bool holds_back(Instant now) const;
  [[nodiscard]] bool window_full(std::uint32_t more = 0) const;  // with `more` in flight besides
  [[nodiscard]] bool admits(Sequence sequence, const Message& message) const;
  bool resend(Sequence sequence, PayloadCursor& cursor, TransmitBatch& batch, Instant now) const;
  bool resend_data(Sequence sequence, const Message& message, PayloadCursor& cursor, TransmitBatch& batch,
                   Instant now) const;
  void put_path(wire::Packet& packet, Sequence sequence, std::uint8_t path, Instant now) const;
  [[nodiscard]] Rerequested read_rerequest(Sequence pending, const Message& message) const;
  bool resend_request(Sequence pending, Message& message, PayloadCursor& cursor, TransmitBatch& batch,
                      Instant now) const;

  Parts parts_;
};

}  // namespace brdma::qp
