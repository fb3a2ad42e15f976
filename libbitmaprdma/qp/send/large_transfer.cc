// Sender of large commands (spec 4: sender). A WRITE or SEND from the threshold on keeps the head of the queue and
// leaves in segments. Each is an operation of the table: opened by its first packet, counted as its packets are
// acknowledged, forgotten when the window's base passes it. On the wire it stays one message: BXTH fields mark the
// segments, so that order, keys, immediates and retransmission are those of every other message.
#include "qp/send/requester_impl.h"
#include "registry/segmenter.h"

namespace brdma::qp {

bool Requester::Impl::is_large(const SendWqe& wqe) const {
  const std::uint32_t threshold = env.config.transfer.threshold_bytes;
  if (threshold == 0 || wqe.length < threshold) return false;
  switch (wqe.opcode) {
    case WorkOpcode::kRdmaWrite:
    case WorkOpcode::kRdmaWriteWithImm:
    case WorkOpcode::kSend:
    case WorkOpcode::kSendWithImm:
    case WorkOpcode::kSendWithInvalidate:
      return true;
    default:
      return false;
  }
}

// 0: it leaves undivided: it is small, large ones are not cut, or the peer does not support it.
std::uint8_t Requester::Impl::segment_packets(const SendWqe& wqe) const {
  if (env.config.transfer.segment_bytes == 0 || !id.bitmap_agreed || !id.peer_reads_operations) return 0;
  if (!is_large(wqe)) return 0;
  return static_cast<std::uint8_t>(registry::segment_packets(env.config.transfer.segment_bytes, id.mtu()));
}

// Numbers have eight bits: a segment waits for a number that no other operation in progress has.
bool Requester::Impl::segment_may_leave(const Message& message) const {
  return message.segment_packets == 0 || !operations->full() ||
         ((scoreboard.next() - message.first) & (message.segment_packets - 1u)) != 0;
}

// The packet of `sequence` is in the batch for the first time.
void Requester::Impl::begin_segment(const Message& message, Sequence sequence) {
  const registry::Segmenter segmenter(message.packets, message.segment_packets);
  const registry::Segment segment = segmenter.at(static_cast<std::uint32_t>(sequence - message.first));
  if (segment.place != 0) return;
  operations.made().open(sequence, segment.packets, segment.last);
  env.count(Counter::kOperationsSent);
}

// Does the acknowledgement report an operation complete that has not fully left?
bool Requester::Impl::names_unsent(const wire::BitmapAck& ack) const {
  if (operations->size() == 0) return false;
  const registry::SentOperation& newest = (*operations)[operations->size() - 1];
  return newest.end() > scoreboard.next() && is_named(ack, newest.number);
}

bool Requester::Impl::is_named(const wire::BitmapAck& ack, std::uint8_t number) {
  const auto ahead = static_cast<std::uint8_t>(number - ack.operations_next);
  if (ahead >= registry::kUnderWayMax) return true;
  return ahead >= 1 && ahead <= 8 && ((ack.operations_beyond << (ahead - 1)) & 0x80) != 0;
}

// Operations complete at the receiver: all their packets have arrived, whether its bits reach that far or not.
void Requester::Impl::take_operations(const wire::BitmapAck& ack, Instant now) {
  for (std::size_t i = 0; i < operations->size(); ++i) {
    const registry::SentOperation operation = (*operations)[i];
    if (static_cast<std::uint8_t>(operation.number - ack.operations_next) > 8 && !is_named(ack, operation.number))
      break;
    if (operation.complete() || !is_named(ack, operation.number)) continue;
    const Message& message = message_of(std::max(operation.first, scoreboard.base()));
    for (Sequence at = std::max(operation.first, scoreboard.base()); at < operation.end(); ++at)
      acknowledge(at, message, now);
  }
}

// The next packet belongs to a large command: others go first (device/transmit.cc).
bool Requester::Impl::next_is_large() {
  if (env.config.transfer.threshold_bytes == 0) return false;
  if (scoreboard.pending() > 0) {
    return is_large(queue[message_of(scoreboard.next_pending(scoreboard.base())).wqe]);
  }
  if (!all_begun_is_sent()) return is_large(queue[messages.back().wqe]);
  return queue.next() != queue.tail() && is_large(queue[queue.next()]);
}

}  // namespace brdma::qp
