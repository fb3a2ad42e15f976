// qp/transmit/single_request.h - private: fast path for a single small request on a queue pair with nothing else in
// flight. Most turns are of this kind with many queue pairs used in turn, and in ping-pong programs. It does the same
// as a run (small_runs.h) of one packet, which takes everything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/units.h"
#include "qp/loss/loss_recovery.h"
#include "qp/queues/message_table.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/transmit_batch.h"
#include "qp/send/congestion_state.h"
#include "qp/send/message_start.h"
#include "qp/send/packet_builder.h"
#include "qp/send/segments.h"
#include "qp/transmit/runs.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class SingleRequest {
 public:
  struct Parts {
    Runs runs;
    SendQueue& queue;
    MessageTable& messages;
    const Segments& segments;
    const PooledLossRecovery& loss;
    const std::unique_ptr<CongestionState>& signals;  // null: there is none
    NextMessage& next;
  };
  [[gnu::always_inline]] explicit SingleRequest(const Parts& parts) : parts_(parts) {}

  // `room`: bytes reserved behind BXTH; the caller writes them in the batch. False: nothing has happened.
  [[gnu::always_inline]] bool transmit(TransmitBatch& batch, std::size_t room, Instant now) const;

 private:
  // Nothing is in flight, missing, in recovery or paced, and one request waits.
  [[nodiscard, gnu::always_inline]] bool is_single() const {
    const Runs& runs = parts_.runs;
    const SendQueue& queue = parts_.queue;
    return parts_.messages.empty() && runs.scoreboard().empty() && queue.next() + 1 == queue.tail() &&
           runs.id().state == QpState::kRts && !parts_.loss && !has_signals(parts_.signals, runs.id().recovery->wan) &&
           !runs.rnr().waiting() && parts_.next.cut == 0 && runs.in_steady_state() && runs.small_is_not_large();
  }
  // Its memory, if contiguous; null: the general path finds the error, or gathers it.
  [[nodiscard, gnu::always_inline]] const std::byte* piece_of(std::uint64_t number) const;
  [[gnu::always_inline]] void note_left(const Message& message, std::uint8_t path, Instant now) const;

  Parts parts_;
};

inline const std::byte* SingleRequest::piece_of(std::uint64_t number) const {
  const SendQueue& queue = parts_.queue;
  const SendWqe& wqe = queue[number];
  if (wqe.inlined) return queue.inline_bytes(number);
  if (wqe.sge_count != 1) return nullptr;
  const Sge& sge = queue.sges(number)[0];
  const memory::MemoryTable& memory = parts_.runs.env().memory;
  std::byte* at = nullptr;
  (void)memory.resolve(memory::Accessor{parts_.runs.id().pd}, sge.lkey, sge.address, sge.length, 0, &at);
  return memory.holds(at, sge.length) ? at : nullptr;
}

inline bool SingleRequest::transmit(TransmitBatch& batch, std::size_t room, Instant now) const {
  if (!is_single()) return false;
  const Runs& runs = parts_.runs;
  const Identity& id = runs.id();
  const std::uint64_t number = parts_.queue.next();
  const SendWqe& wqe = parts_.queue[number];
  const std::uint32_t length = wqe.length;
  const RunSize more = runs.limits().run_allowance();
  if (!runs.is_small(wqe) || more.packets == 0 || length > more.bytes) return false;
  const bool writes = wqe.opcode == WorkOpcode::kRdmaWrite;
  const std::size_t headers = wire::kBthSize + wire::kBxthSize + room + (writes ? wire::kRethSize : 0);
  const std::size_t size = TransmitBatch::packet_bytes(headers, length);
  if (room == 0 ? !batch.fits(size, 0, true) : size > wire::packet_bytes_max(id.mtu()) || !batch.fits_grown(size))
    return false;
  const std::byte* const payload = piece_of(number);
  if (payload == nullptr) return false;

  Message message;
  message.first = runs.scoreboard().next();
  message.wqe = number;
  message.packets = 1;
  message.length = length;
  message.kind = writes ? MessageKind::kWrite : MessageKind::kSend;
  message.msn = parts_.next.msn;
  message.rsn = parts_.next.rsn;
  message.first_operation = parts_.segments.next_number();
  // As from PacketBuilder::data(); nothing is behind it, so its acknowledgement is requested.
  wire::Bth bth;
  bth.opcode = wire::opcode_of(writes ? wire::RcOp::kWriteOnly : wire::RcOp::kSendOnly, /*bitmap=*/true);
  bth.dest_qpn = id.attributes.destination_qpn;
  bth.psn = runs.scoreboard().base_psn();
  bth.ack_request = true;
  bth.solicited = !writes && (wqe.flags & kSendSolicited) != 0;
  wire::Bxth bxth;
  bxth.source_qpn = id.qpn;
  bxth.token = id.peer_token;
  bxth.piggyback = room != 0;
  bxth.msn = message.msn;
  bxth.rsn = message.rsn;
  bxth.timestamp = wire::timestamp_of(now);
  std::byte* const at = batch.begin_copied(headers, length);
  bth.pad = static_cast<std::uint8_t>(TransmitBatch::pad_of(length));
  wire::emit_bth(bth, at);
  wire::emit_bxth(bxth, at + wire::kBthSize);
  if (writes) wire::emit_reth({wqe.remote_address, wqe.rkey, length}, at + headers - wire::kRethSize);
  batch.end_copied(payload);

  parts_.queue.begin_next();
  if (runs.env().telemetry.sink != nullptr) [[unlikely]]
    PacketBuilder{id, parts_.queue, runs.scoreboard()}.trace_data(runs.env(), message, message.first, 1, size - room,
                                                                  now);
  note_left(message, batch.path(), now);
  return true;
}

inline void SingleRequest::note_left(const Message& message, std::uint8_t path, Instant now) const {
  const Runs& runs = parts_.runs;
  parts_.messages.push_back(message);
  parts_.next.pass(message.kind == MessageKind::kSend);
  runs.admission().on_asked();
  runs.timers().on_flight_begun(now);
  runs.timers().on_activity(now);
  runs.scoreboard().sent_single(message.length, path, now);
  runs.admission().on_sent();
  runs.env().count(Counter::kSentDataPackets);
  runs.env().note_length(now, runs.id().qpn, trace::WindowSide::kSend, runs.scoreboard());
}

}  // namespace brdma::qp
