// qp/transmit/request_packets.h - private: the next new packet, if its message is done with its responses: a READ
// request, an atomic, an ATOMIC WRITE, a FLUSH.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "qp/loss/scoreboard.h"
#include "qp/loss/sender_judgement.h"
#include "qp/paths/paths_send.h"
#include "qp/queues/message_table.h"
#include "qp/queues/payload_cursor.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/transmit_batch.h"
#include "qp/queues/work_completer.h"
#include "qp/read/request_copies.h"
#include "qp/read/response_admission.h"
#include "qp/read/response_pacing.h"
#include "qp/send/admission.h"
#include "qp/send/packet_builder.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/timers/retransmission_timers.h"
#include "recovery/rtt_estimator.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class RequestPackets {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const SendQueue& queue;
    SendFault& fault;
    MessageTable& messages;
    Scoreboard& scoreboard;
    const recovery::RttEstimator& rtt;
    Admission& admission;
    ResponseAdmission& responses;
    RetransmissionTimers& timers;
    ResponsePace* pace;  // nullptr: responses are not paced
    SendPaths* paths;    // nullptr: there is one
    SenderJudge* judge;  // nullptr: the sender does not judge losses
  };
  [[gnu::always_inline]] explicit RequestPackets(const Parts& parts) : parts_(parts) {}

  // Precondition: MessageStart::ready(), and `message` has begun. False: no room in the batch, or its memory is gone, a
  // fault of its work request.
  [[gnu::always_inline]] bool transmit(Message& message, PayloadCursor& cursor, TransmitBatch& batch,
                                       Instant now) const;

 private:
  [[nodiscard, gnu::always_inline]] RequestCopies copies() const {
    return RequestCopies{
        {parts_.env, parts_.id, parts_.queue, parts_.messages, parts_.scoreboard, parts_.responses, parts_.paths}};
  }
  [[gnu::always_inline]] void note_left(Message& message, std::uint8_t path, Instant now) const;

  Parts parts_;
};

inline bool RequestPackets::transmit(Message& message, PayloadCursor& cursor, TransmitBatch& batch, Instant now) const {
  const PacketBuilder builder{parts_.id, parts_.queue, parts_.scoreboard};
  const std::uint32_t payload = builder.request_payload(message);
  cursor.seek(parts_.queue, message.wqe, 0);
  if (!cursor.take(payload)) {
    parts_.fault.set(message.wqe, CompletionStatus::kLocalProtectionError);
    return false;
  }
  wire::Packet packet;
  builder.request(packet, message, message.first, message.packets, false, now);
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, payload);
  if (!batch.fits(bytes, cursor.slices().size(), packet.bitmap)) return false;
  if (parts_.responses.copies_left() > 0 && !copies().copy_last(packet, batch, now)) [[unlikely]]
    return false;
  if (parts_.scoreboard.empty()) parts_.timers.on_flight_begun(now);
  if (parts_.paths != nullptr) [[unlikely]]
    parts_.paths->put_fields(packet, batch.path(), message.packets, false, now);
  batch.add(packet, cursor.slices(), payload);
  note_left(message, batch.path(), now);
  trace_sent(parts_.env, parts_.id, packet, bytes, false, now);
  return true;
}

inline void RequestPackets::note_left(Message& message, std::uint8_t path, Instant now) const {
  const Identity& id = parts_.id;
  parts_.scoreboard.sent_request(message.packets, path, now);
  judge_sent(parts_.judge, id, message.first, now);
  message.in_flight_counted = true;
  if (parts_.pace != nullptr) [[unlikely]]
    ResponsePacing{{parts_.env, id, parts_.rtt, parts_.responses.congestion(), *parts_.pace}}.on_requested(
        message, message.packets, now);
  parts_.admission.on_asked();
  parts_.admission.on_sent();
  parts_.timers.on_new_data();
  parts_.env.count(Counter::kSentDataPackets);
}

}  // namespace brdma::qp
