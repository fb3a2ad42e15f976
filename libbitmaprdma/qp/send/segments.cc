#include "qp/send/segments.h"

#include "qp/send/packet_builder.h"
#include "registry/segmenter.h"

namespace brdma::qp {
namespace {

bool is_named(const wire::BitmapAck& ack, std::uint8_t number) {
  const auto ahead = static_cast<std::uint8_t>(number - ack.operations_next);
  if (ahead >= registry::kUnderWayMax) return true;
  return ahead >= 1 && ahead <= 8 && ((ack.operations_beyond << (ahead - 1)) & 0x80) != 0;
}

}  // namespace

bool Segments::is_large(const SendWqe& wqe, const TransferConfig& config) {
  if (config.threshold_bytes == 0 || wqe.length < config.threshold_bytes) return false;
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

std::uint8_t Segments::packets_of_each(const SendWqe& wqe, const TransferConfig& config, const Identity& id) {
  if (config.segment_bytes == 0 || !id.bitmap_agreed || !id.peer_reads_operations) return 0;
  if (!is_large(wqe, config)) return 0;
  return static_cast<std::uint8_t>(registry::segment_packets(config.segment_bytes, id.mtu()));
}

bool Segments::on_sent(const Message& message, Sequence sequence) {
  const registry::Segmenter segmenter(message.packets, message.segment_packets);
  const registry::Segment segment = segmenter.at(static_cast<std::uint32_t>(sequence - message.first));
  if (segment.place != 0) return false;
  table_.made().open(sequence, segment.packets, segment.last);
  return true;
}

void Segments::on_arrived(const Message& message, Sequence sequence) {
  if (message.segment_packets != 0) table_.if_made()->arrived(PacketBuilder::operation_of(message, sequence));
}

void Segments::on_repeated(const Message& message, Sequence sequence) {
  if (message.segment_packets == 0 || start_of(message, sequence) != sequence) return;
  table_.if_made()->note_started_late(PacketBuilder::operation_of(message, sequence));
}

void Segments::take_started_late(FunctionRef<void(const registry::SentOperation&)> use) {
  if (size() > 0) table_.if_made()->take_started_late(use);
}

void Segments::on_reopened(const Message& message, Sequence sequence) {
  if (message.segment_packets != 0) table_.if_made()->not_arrived(PacketBuilder::operation_of(message, sequence));
}

std::size_t Segments::retire_before(Sequence base) { return size() == 0 ? 0 : table_.if_made()->retire_before(base); }

bool Segments::names_unsent(const wire::BitmapAck& ack, Sequence next) const {
  if (size() == 0) return false;
  const registry::SentOperation& newest = (*table_)[size() - 1];
  return newest.end() > next && is_named(ack, newest.number);
}

void Segments::for_each_completed(const wire::BitmapAck& ack,
                                  FunctionRef<void(const registry::SentOperation&)> complete) const {
  for (std::size_t i = 0; i < size(); ++i) {
    const registry::SentOperation operation = (*table_)[i];
    const bool named = is_named(ack, operation.number);
    if (static_cast<std::uint8_t>(operation.number - ack.operations_next) > 8 && !named) break;
    if (named && !operation.complete()) complete(operation);
  }
}

}  // namespace brdma::qp
