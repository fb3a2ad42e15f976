// Fast path for MIDDLE packets of a long WRITE: the next expected one, and nothing is missing. It does the same as
// receive_request.cc and execute.cc, which check all cases and take everything else.
#include "qp/receive/responder_impl.h"

namespace brdma::qp {

bool Responder::Impl::is_middle_of_write(const wire::Packet& packet) const {
  if (packet.op != wire::RcOp::kWriteMiddle || message.kind != Message::Kind::kWrite) return false;
  if (packet.bth.psn != base() || !window.empty() || out_of_order != nullptr || !established) return false;
  if (tolerance.paths() != nullptr || identity.receiving_paths > 1 || !operations.escape().empty()) return false;
  if (packet.payload.size() != mtu || message.bytes + mtu >= message.reth.length) return false;
  if (!packet.bitmap) return true;
  return packet.bxth.operation == 0 && packet.bxth.operation_packets == 0 &&
         packet.reth.address == message.reth.address + message.bytes && packet.reth.rkey == message.reth.rkey &&
         packet.reth.length == message.reth.length;
}

// False: takes the general path, or its memory is not writable, or not mapped (any more).
bool Responder::Impl::take_middle_write(const wire::Packet& packet, Instant now) {
  if (!is_middle_of_write(packet)) return false;
  std::byte* to = nullptr;
  if (env.memory.resolve(identity.accessor(), message.reth.rkey, message.reth.address + message.bytes, mtu,
                         kAccessRemoteWrite, &to) != memory::Fault::kNone) {
    return false;
  }
  if (!copy_end_last(to, packet.payload)) return false;
  if (packet.bitmap) {
    bitmap_seen = true;
    note_echo(packet.bxth.path, packet.bxth.timestamp, now);
  }
  message.bytes += mtu;
  ++message.packets;
  note_for_acknowledgement(packet.bth.ack_request, now);
  base_packet.advance();
  window.advance_over(1);
  return true;
}

}  // namespace brdma::qp
