// qp/transmit/data_packets.h - private: the next new packet of a WRITE or SEND, alone. Any kind of it may leave this
// way; the fast paths (small_runs.h, middle_runs.h, single_request.h) write the most frequent ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/loss/scoreboard.h"
#include "qp/loss/sender_judgement.h"
#include "qp/paths/paths_send.h"
#include "qp/queues/message_table.h"
#include "qp/queues/payload_cursor.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/transmit_batch.h"
#include "qp/queues/work_completer.h"
#include "qp/send/ack_requests.h"
#include "qp/send/admission.h"
#include "qp/send/local_references.h"
#include "qp/send/packet_builder.h"
#include "qp/send/segments.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/timers/receiver_not_ready.h"
#include "qp/timers/retransmission_timers.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class DataPackets {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const SendQueue& queue;
    SendFault& fault;
    const MessageTable& messages;
    Scoreboard& scoreboard;
    Segments& segments;
    const congestion::DelayWindow& congestion;  // of requests
    Admission& admission;
    RetransmissionTimers& timers;
    const ReceiverNotReady& rnr;
    SendPaths* paths;    // nullptr: there is one
    SenderJudge* judge;  // nullptr: the sender does not judge losses
  };
  [[gnu::always_inline]] explicit DataPackets(const Parts& parts) : parts_(parts) {}

  // Precondition: MessageStart::ready(), and `message` has begun. False: no room in the batch, or its memory is gone, a
  // fault of its work request.
  [[gnu::always_inline]] bool transmit(const Message& message, PayloadCursor& cursor, TransmitBatch& batch,
                                       Instant now) const;

 private:
  [[nodiscard, gnu::always_inline]] AckRequests ack_requests() const {
    return AckRequests{{parts_.id,
                        parts_.queue,
                        parts_.rnr,
                        {parts_.env, parts_.id, parts_.scoreboard, parts_.congestion, parts_.admission},
                        parts_.admission}};
  }
  [[gnu::always_inline]] void note_left(const Message& message, std::uint32_t payload, std::uint8_t path,
                                        Instant now) const;

  Parts parts_;
};

inline bool DataPackets::transmit(const Message& message, PayloadCursor& cursor, TransmitBatch& batch,
                                  Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  const std::uint32_t mtu = parts_.id.mtu();
  const Sequence sequence = board.next();
  const std::uint32_t payload = message.payload_at(sequence, mtu);
  cursor.seek(parts_.queue, message.wqe, message.offset + static_cast<std::uint32_t>(sequence - message.first) * mtu);
  if (!cursor.take(message.by_reference != 0 ? message.by_reference : payload)) {
    parts_.fault.set(message.wqe, CompletionStatus::kLocalProtectionError);
    return false;
  }
  ReferenceBuffer reference;
  std::span<const Slice> slices = cursor.slices();
  if (message.by_reference != 0) [[unlikely]]
    slices = reference.make(parts_.id.local->own_key(), slices);
  wire::Packet packet;
  PacketBuilder{parts_.id, parts_.queue, board}.data(packet, message, sequence, false, now);
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, payload);
  if (!batch.fits(bytes, slices.size(), packet.bitmap)) return false;
  packet.bth.ack_request = ack_requests().next_asks(message, sequence + 1 == message.end());
  if (board.empty()) parts_.timers.on_flight_begun(now);
  if (parts_.paths != nullptr) [[unlikely]]
    parts_.paths->put_fields(packet, batch.path(), 1, false, now);
  batch.add(packet, slices, payload);
  note_left(message, payload, batch.path(), now);
  trace_sent(parts_.env, parts_.id, packet, bytes, false, now);
  return true;
}

inline void DataPackets::note_left(const Message& message, std::uint32_t payload, std::uint8_t path,
                                   Instant now) const {
  Scoreboard& board = parts_.scoreboard;
  const Sequence sequence = board.next();
  if (message.by_reference != 0) [[unlikely]]
    parts_.env.count(Counter::kByReference);
  if (message.segment_packets != 0 && parts_.segments.on_sent(message, sequence))
    parts_.env.count(Counter::kOperationsSent);
  board.sent(payload, path, now);
  judge_sent(parts_.judge, parts_.id, sequence, now);
  parts_.admission.on_sent();
  parts_.timers.on_new_data();
  parts_.env.count(Counter::kSentDataPackets);
}

}  // namespace brdma::qp
