#include "qp/read/response_placement.h"

#include <cstring>

#include "qp/queues/payload_cursor.h"

namespace brdma::qp {

// READ responses without data confirm ATOMIC WRITEs and FLUSHes (IBTA 1.5, annex A19).
bool ResponsePlacement::answers(const wire::Packet& packet, const Message& message) {
  if (!wire::is_read_response(packet.op)) return message.kind == MessageKind::kAtomic;
  return message.kind == MessageKind::kRead || message.kind == MessageKind::kConfirmed;
}

bool ResponsePlacement::place(const wire::Packet& packet, Sequence sequence, const Message& message) const {
  if (message.kind == MessageKind::kRead) return place_data(packet, sequence, message);
  if (message.kind == MessageKind::kConfirmed) [[unlikely]] {
    if (packet.op == wire::RcOp::kReadResponseOnly && packet.payload.empty()) return true;
    parts_.env.drop(DropReason::kBadLength);
    return false;
  }
  // The application gets the result in its machine's byte order.
  const std::uint64_t original = packet.atomic_original;
  std::byte result[sizeof(original)];
  std::memcpy(result, &original, sizeof(original));
  return store(message, 0, result);
}

bool ResponsePlacement::place_data(const wire::Packet& packet, Sequence sequence, const Message& message) const {
  const std::uint32_t mtu = parts_.id.mtu(), expected = message.payload_at(sequence, mtu);
  if (packet.payload.size() != expected || packet.bxth.by_reference() != (message.by_reference != 0)) {
    parts_.env.drop(DropReason::kBadLength);
    return false;
  }
  if (message.by_reference != 0) [[unlikely]]
    return parts_.references.fetch_response(packet, message, parts_.fault);
  const auto index = static_cast<std::uint32_t>(sequence - message.first);
  return store(message, message.offset + index * mtu, packet.payload);
}

bool ResponsePlacement::store(const Message& message, std::uint32_t offset, ConstBytes data) const {
  if (scatter(parts_.env.memory, parts_.id.pd, parts_.queue, message.wqe, offset, data)) return true;
  parts_.env.drop(DropReason::kFault);
  parts_.fault.set(message.wqe, CompletionStatus::kLocalProtectionError);
  return false;
}

}  // namespace brdma::qp
