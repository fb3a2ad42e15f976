// Fast path: a single small request on a queue pair with nothing else in flight. Most turns are of this kind with many
// queue pairs used in turn, and in ping-pong programs. It does the same as a run (transmit_small.cc) of one packet,
// which takes everything else.
#include <algorithm>

#include "qp/send/requester_impl.h"

namespace brdma::qp {

// Nothing is in flight, missing, in recovery or paced, and one request waits.
inline bool Requester::Impl::is_single_request() const {
  const std::uint32_t threshold = env.config.transfer.threshold_bytes;
  return messages.empty() && scoreboard.empty() && queue.next() + 1 == queue.tail() && id.state == QpState::kRts &&
         !loss_recovery && !has_signals() && !rnr.waiting() && next.cut == 0 && in_steady_state() &&
         (threshold == 0 || threshold > kCopiedBytesMax);
}

// Its memory, if contiguous; null: the general path finds the error, or gathers it.
inline const std::byte* Requester::Impl::piece_of(std::uint64_t number) const {
  const SendWqe& wqe = queue[number];
  if (wqe.inlined) return queue.inline_bytes(number);
  if (wqe.sge_count != 1) return nullptr;
  const Sge& sge = queue.sges(number)[0];
  std::byte* at = nullptr;
  (void)env.memory.resolve(memory::Accessor{id.pd}, sge.lkey, sge.address, sge.length, 0, &at);
  return env.memory.holds(at, sge.length) ? at : nullptr;
}

// False: nothing has happened.
bool Requester::Impl::transmit_single(TransmitBatch& batch, std::size_t room, Instant now) {
  if (!is_single_request()) return false;
  const std::uint64_t number = queue.next();
  const SendWqe& wqe = queue[number];
  const std::uint32_t length = wqe.length;
  const RunSize more = limits().run_allowance();
  if (!is_small(wqe) || more.packets == 0 || length > more.bytes) return false;
  const bool writes = wqe.opcode == WorkOpcode::kRdmaWrite;
  const std::size_t headers = wire::kBthSize + wire::kBxthSize + room + (writes ? wire::kRethSize : 0);
  const std::size_t size = TransmitBatch::packet_bytes(headers, length);
  if (room == 0 ? !batch.fits(size, 0, true) : size > wire::packet_bytes_max(id.mtu()) || !batch.fits_grown(size))
    return false;
  const std::byte* const payload = piece_of(number);
  if (payload == nullptr) return false;

  Message message;
  message.first = scoreboard.next();
  message.wqe = number;
  message.packets = 1;
  message.length = length;
  message.kind = writes ? MessageKind::kWrite : MessageKind::kSend;
  message.msn = next.msn;
  message.rsn = next.rsn;
  message.first_operation = segments.next_number();
  // As from PacketBuilder::data(); nothing is behind it, so its acknowledgement is requested.
  wire::Bth bth;
  bth.opcode = wire::opcode_of(writes ? wire::RcOp::kWriteOnly : wire::RcOp::kSendOnly, /*bitmap=*/true);
  bth.dest_qpn = id.attributes.destination_qpn;
  bth.psn = scoreboard.base_psn();
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

  queue.begin_next();
  if (env.sink != nullptr) [[unlikely]]
    builder().trace_data(env, message, message.first, 1, size - room, now);
  messages.push_back(message);
  next.pass(!writes);
  admission.on_asked();
  timers.on_flight_begun(now);
  timers.on_activity(now);
  scoreboard.sent_single(length, batch.path(), now);
  admission.on_sent();
  env.count(Counter::kSentDataPackets);
  env.note_length(now, id.qpn, trace::WindowSide::kSend, scoreboard);
  return true;
}

}  // namespace brdma::qp
