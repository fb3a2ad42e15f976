// Fast path for small requests in a row, a packet each. Common fields are computed once. It does the same as
// transmit_new.cc for each packet; that takes everything else: losses, several paths, the end of the credit, and
// packets that may leave without any because nothing else is in flight.
#include <algorithm>

#include "qp/send/requester_impl.h"

namespace brdma::qp {

bool Requester::Impl::may_run() const {
  const std::uint32_t threshold = env.config.transfer.threshold_bytes;
  return in_steady_state() && id.state == QpState::kRts && messages.all_left(scoreboard.next()) && next.cut == 0 &&
         (threshold == 0 || threshold > kCopiedBytesMax);
}

bool Requester::Impl::transmit_small(PayloadCursor& cursor, TransmitBatch& batch, Instant now) {
  const std::uint64_t number = queue.next();
  if (number == queue.tail() || !is_small(queue[number]) || !may_run()) return false;
  SmallRun run = begin_run(now);
  while (run.message.wqe != queue.tail() && run.used.packets < run.allowed.packets) {
    if (!add_to_run(run, cursor, batch, now)) break;
  }
  if (run.used.packets == 0) return false;
  end_run(run, batch.path(), now);
  return true;
}

Requester::Impl::SmallRun Requester::Impl::begin_run(Instant now) const {
  SmallRun run;
  run.opcode = queue[queue.next()].opcode;
  run.allowed = limits().run_allowance();
  run.message.first = scoreboard.next();
  run.message.wqe = queue.next();
  run.message.packets = 1;
  run.message.kind = run.writes() ? MessageKind::kWrite : MessageKind::kSend;
  run.message.msn = next.msn;
  run.message.rsn = next.rsn;
  run.message.first_operation = segments.next_number();
  // A single one requests its acknowledgement anyway (SendQueue::nothing_behind).
  run.ack_interval = is_last_posted(run.message) ? 1 : limits().request_interval();
  run.until_asked = limits().packets_until_request(run.ack_interval, 0);
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

// False: the next one is of another kind, or finds no room, or its memory is not readable.
bool Requester::Impl::add_to_run(SmallRun& run, PayloadCursor& cursor, TransmitBatch& batch, Instant now) {
  Message& message = run.message;
  const SendWqe& wqe = queue[message.wqe];
  if (wqe.opcode != run.opcode || !is_small(wqe) || run.used.bytes + wqe.length > run.allowed.bytes) return false;
  const std::size_t packet_bytes = TransmitBatch::packet_bytes(run.headers.size(), wqe.length);
  if (packet_bytes != run.packet_bytes) {
    run.packet_bytes = packet_bytes;
    run.room = is_last_posted(message) ? std::size_t{batch.fits(packet_bytes, 0, true)} : batch.room(packet_bytes);
  }
  if (run.room == 0 || !cursor.take_all(queue, message.wqe)) return false;
  --run.room;
  queue.begin_next();
  const bool asks = run.until_asked == 1 || queue.nothing_behind();
  admission.on_added(1, asks);
  --run.until_asked;
  if (asks) run.until_asked = limits().packets_until_request(run.ack_interval, run.used.packets + 1);
  batch.add_of_run(run.headers,
                   {.psn = scoreboard.psn_of(message.first),
                    .ack_request = asks,
                    .solicited = !run.writes() && (wqe.flags & kSendSolicited) != 0,
                    .msn = message.msn,
                    .rsn = message.rsn,
                    .reth = {wqe.remote_address, wqe.rkey, wqe.length}},
                   cursor.slices(), wqe.length);
  if (env.sink != nullptr) [[unlikely]]
    builder().trace_data(env, message, message.first, 1, run.packet_bytes, now);
  message.length = wqe.length;
  messages.push_back(message);
  ++message.first;
  ++message.wqe;
  message.msn = (message.msn + 1) & Psn::kMask;
  if (!run.writes()) message.rsn = (message.rsn + 1) & Psn::kMask;
  ++run.used.packets;
  run.used.bytes += wqe.length;
  return true;
}

void Requester::Impl::end_run(const SmallRun& run, std::uint8_t path, Instant now) {
  next.msn = run.message.msn;
  next.rsn = run.message.rsn;
  count_run(run.used, path, now);
}

void Requester::Impl::count_run(const RunSize& used, std::uint8_t path, Instant now) {
  const auto packets = static_cast<std::uint32_t>(used.packets);
  if (scoreboard.empty()) timers.on_flight_begun(now);
  scoreboard.sent_run(packets, used.bytes, path, now);
  admission.on_sent();
  timers.on_new_data();
  env.count(Counter::kSentDataPackets, packets);
}

}  // namespace brdma::qp
