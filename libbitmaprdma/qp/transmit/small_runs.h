// qp/transmit/small_runs.h - private: fast path for small requests in a row, a packet each. Common fields are computed
// once. It does the same as data_packets.h for each packet; that takes everything else: losses, several paths, the end
// of the credit, and packets that may leave without any because nothing else is in flight.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "qp/queues/message_table.h"
#include "qp/queues/payload_cursor.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/transmit_batch.h"
#include "qp/send/message_start.h"
#include "qp/send/packet_builder.h"
#include "qp/send/segments.h"
#include "qp/transmit/runs.h"
#include "wire/run_headers.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class SmallRuns {
 public:
  struct Parts {
    Runs runs;
    SendQueue& queue;
    MessageTable& messages;
    const Segments& segments;
    NextMessage& next;
  };
  [[gnu::always_inline]] explicit SmallRuns(const Parts& parts) : parts_(parts) {}

  // True: some were added.
  [[gnu::always_inline]] bool transmit(PayloadCursor& cursor, TransmitBatch& batch, Instant now) const;

 private:
  struct Run {
    WorkOpcode opcode{};
    RunSize allowed, used;
    std::uint32_t ack_interval = 0, until_asked = 0;  // packets until one that asks for an acknowledgement
    std::size_t packet_bytes = 0, room = 0;           // of the last; so many more of that size fit into the batch
    Message message;                                  // the next one
    wire::RunHeaders headers;
    [[nodiscard]] bool writes() const { return opcode == WorkOpcode::kRdmaWrite; }
  };
  [[nodiscard, gnu::always_inline]] bool may_run() const {
    const Runs& runs = parts_.runs;
    return runs.in_steady_state() && runs.id().state == QpState::kRts &&
           parts_.messages.all_left(runs.scoreboard().next()) && parts_.next.cut == 0 && runs.small_is_not_large();
  }
  [[nodiscard, gnu::always_inline]] bool is_last_posted(const Message& message) const {
    return message.wqe + 1 == parts_.queue.tail();
  }
  [[nodiscard, gnu::always_inline]] Run begin(Instant now) const;
  // False: the next one is of another kind, or finds no room, or its memory is not readable.
  [[gnu::always_inline]] bool add(Run& run, PayloadCursor& cursor, TransmitBatch& batch, Instant now) const;

  Parts parts_;
};

inline bool SmallRuns::transmit(PayloadCursor& cursor, TransmitBatch& batch, Instant now) const {
  const SendQueue& queue = parts_.queue;
  const std::uint64_t number = queue.next();
  if (number == queue.tail() || !parts_.runs.is_small(queue[number]) || !may_run()) return false;
  Run run = begin(now);
  while (run.message.wqe != queue.tail() && run.used.packets < run.allowed.packets) {
    if (!add(run, cursor, batch, now)) break;
  }
  if (run.used.packets == 0) return false;
  parts_.runs.count(run.used, batch.path(), now);
  return true;
}

inline SmallRuns::Run SmallRuns::begin(Instant now) const {
  const Identity& id = parts_.runs.id();
  const SendLimits limits = parts_.runs.limits();
  Run run;
  run.opcode = parts_.queue[parts_.queue.next()].opcode;
  run.allowed = limits.run_allowance();
  run.message.first = limits.scoreboard.next();
  run.message.wqe = parts_.queue.next();
  run.message.packets = 1;
  run.message.kind = run.writes() ? MessageKind::kWrite : MessageKind::kSend;
  run.message.msn = parts_.next.msn;
  run.message.rsn = parts_.next.rsn;
  run.message.first_operation = parts_.segments.next_number();
  // A single one requests its acknowledgement anyway (SendQueue::nothing_behind).
  run.ack_interval = is_last_posted(run.message) ? 1 : limits.request_interval();
  run.until_asked = limits.packets_until_request(run.ack_interval, 0);
  // As from PacketBuilder::data() for each; over many queue pairs a run is mostly one packet.
  wire::Bth bth;
  bth.opcode = wire::opcode_of(run.writes() ? wire::RcOp::kWriteOnly : wire::RcOp::kSendOnly, /*bitmap=*/true);
  bth.dest_qpn = id.attributes.destination_qpn;
  wire::Bxth bxth;
  bxth.source_qpn = id.qpn;
  bxth.token = id.peer_token;
  bxth.timestamp = wire::timestamp_of(now);
  run.headers = wire::RunHeaders{bth, bxth, run.writes()};
  return run;
}

inline bool SmallRuns::add(Run& run, PayloadCursor& cursor, TransmitBatch& batch, Instant now) const {
  const Runs& runs = parts_.runs;
  SendQueue& queue = parts_.queue;
  const Scoreboard& board = runs.scoreboard();
  Message& message = run.message;
  const SendWqe& wqe = queue[message.wqe];
  if (wqe.opcode != run.opcode || !runs.is_small(wqe) || run.used.bytes + wqe.length > run.allowed.bytes) return false;
  const std::size_t packet_bytes = TransmitBatch::packet_bytes(run.headers.size(), wqe.length);
  if (packet_bytes != run.packet_bytes) {
    run.packet_bytes = packet_bytes;
    run.room = is_last_posted(message) ? std::size_t{batch.fits(packet_bytes, 0, true)} : batch.room(packet_bytes);
  }
  if (run.room == 0 || !cursor.take_all(queue, message.wqe)) return false;
  --run.room;
  queue.begin_next();
  const bool asks = run.until_asked == 1 || queue.nothing_behind();
  runs.admission().on_added(1, asks);
  --run.until_asked;
  if (asks) run.until_asked = runs.limits().packets_until_request(run.ack_interval, run.used.packets + 1);
  batch.add_of_run(run.headers,
                   {.psn = board.psn_of(message.first),
                    .ack_request = asks,
                    .solicited = !run.writes() && (wqe.flags & kSendSolicited) != 0,
                    .msn = message.msn,
                    .rsn = message.rsn,
                    .reth = {wqe.remote_address, wqe.rkey, wqe.length}},
                   cursor.slices(), wqe.length);
  if (runs.env().telemetry.sink != nullptr) [[unlikely]]
    PacketBuilder{runs.id(), queue, board}.trace_data(runs.env(), message, message.first, 1, run.packet_bytes, now);
  message.length = wqe.length;
  parts_.messages.push_back(message);
  ++message.first;
  ++message.wqe;
  parts_.next.pass(!run.writes());
  message.msn = parts_.next.msn;
  message.rsn = parts_.next.rsn;
  ++run.used.packets;
  run.used.bytes += wqe.length;
  return true;
}

}  // namespace brdma::qp
