// A UC packet: the next of its message, or the end of the message.
#include "memory/copy.h"
#include "qp/queues/notify_write.h"
#include "qp/unreliable/unreliable_receive.h"

namespace brdma::qp {
namespace {

// Packets of a message before its last are of a whole path MTU.
bool size_valid(const wire::Packet& packet, std::uint32_t mtu) {
  const std::size_t size = packet.payload.size();
  return wire::is_last_or_only(packet.op) ? size <= mtu : size == mtu;
}

}  // namespace

Outcome UnreliableReceiver::take_connected(const wire::Packet& packet, Instant now) {
  if (!admits(packet)) return {};
  return wire::is_write(packet.op) ? take_write(packet, now) : take_send(packet, now);
}

// Is it the next packet of the message in progress, or the first of another?
bool UnreliableReceiver::admits(const wire::Packet& packet) {
  const std::int32_t ahead = distance(packet.bth.psn, expected_);
  if (ahead < 0 && ahead >= -kLateMax) {
    env_.drop(DropReason::kDuplicate);
    return false;
  }
  const bool first = wire::is_first_or_only(packet.op);
  if (ahead != 0 || first) abandon();
  expected_ = packet.bth.psn + 1;
  if (first) {
    skipping_ = false;
    return true;
  }
  if (message_.kind != Message::Kind::kNone) return true;
  if (!skipping_) env_.count(Counter::kUcMessagesDropped);  // its first packets are missing
  skipping_ = !wire::is_last_or_only(packet.op);
  env_.drop(DropReason::kBrokenMessage);
  return false;
}

// The message in progress will not be finished.
void UnreliableReceiver::abandon() {
  if (message_.kind == Message::Kind::kNone) return;
  env_.count(Counter::kUcMessagesDropped);
  message_ = {};
  skipping_ = true;
}

// The message of this packet is not accepted.
Outcome UnreliableReceiver::refuse(const wire::Packet& packet, DropReason reason) {
  env_.count(Counter::kUcMessagesDropped);
  env_.drop(reason);
  message_ = {};
  skipping_ = !wire::is_last_or_only(packet.op);
  return {};
}

Outcome UnreliableReceiver::take_send(const wire::Packet& packet, Instant now) {
  const bool last = wire::is_last_or_only(packet.op);
  if (wire::is_first_or_only(packet.op)) message_ = {.kind = Message::Kind::kSend, .bytes = 0, .reth = {}};
  const std::size_t size = packet.payload.size();
  if (message_.kind != Message::Kind::kSend || !size_valid(packet, id_.mtu()))
    return refuse(packet, DropReason::kBadLength);
  if (!receives_.has(0)) return refuse(packet, DropReason::kNoReceive);
  const std::uint64_t bytes = message_.bytes + size;
  if (bytes > receives_[0].bytes) return refuse(packet, DropReason::kBadLength);
  const auto fault = receives_.scatter(env_.memory, id_.pd, 0, message_.bytes, packet.payload);
  message_.bytes = bytes;
  if (last) message_ = {};
  if (!last && fault == memory::Fault::kNone) return {};
  Completion completion{.byte_length = static_cast<std::uint32_t>(bytes), .source_qp = id_.attributes.destination_qpn};
  if (fault != memory::Fault::kNone) completion.status = CompletionStatus::kLocalProtectionError;
  return complete(packet, completion, now);
}

// The next part of the WRITE in progress. False: its region, or the memory, does not allow it.
bool UnreliableReceiver::write_part(ConstBytes payload) const {
  if ((id_.attributes.access & kAccessRemoteWrite) == 0) return false;
  const wire::Reth& reth = message_.reth;
  std::byte* to = nullptr;
  const auto finds = [&](std::uint64_t address, std::size_t size) {
    return env_.memory.resolve(id_.accessor(), reth.rkey, address, size, kAccessRemoteWrite, &to) ==
           memory::Fault::kNone;
  };
  // The whole message on its first packet: nothing is written of one that leaves its region.
  if (message_.bytes == 0 && !finds(reth.address, reth.length)) return false;
  return finds(reth.address + message_.bytes, payload.size()) && copy_end_last(to, payload);
}

Outcome UnreliableReceiver::take_write(const wire::Packet& packet, Instant now) {
  const bool last = wire::is_last_or_only(packet.op);
  if (wire::is_first_or_only(packet.op)) message_ = {.kind = Message::Kind::kWrite, .bytes = 0, .reth = packet.reth};
  if (message_.kind != Message::Kind::kWrite || !size_valid(packet, id_.mtu()))
    return refuse(packet, DropReason::kBadLength);
  const std::uint64_t bytes = message_.bytes + packet.payload.size();
  const wire::Reth& reth = message_.reth;
  if (last ? bytes != reth.length : bytes >= reth.length) return refuse(packet, DropReason::kBadLength);
  const bool immediate = wire::has_immediate(packet.op);
  if (immediate && !receives_.has(0)) return refuse(packet, DropReason::kNoReceive);
  if (!write_part(packet.payload)) {
    env_.count(Counter::kRemoteAccessErrors);
    return refuse(packet, DropReason::kFault);
  }
  if (wire::is_first_or_only(packet.op)) env_.count(Counter::kWriteRequests);
  message_.bytes = bytes;
  if (!last) return {};
  if (env_.memory.watched() != 0) [[unlikely]]
    notify_write(env_, reth, id_.qpn);
  message_ = {};
  if (!immediate) return {};
  return complete(packet,
                  {.byte_length = static_cast<std::uint32_t>(bytes), .source_qp = id_.attributes.destination_qpn}, now);
}

}  // namespace brdma::qp
