#include "qp/execute/request_checks.h"

#include <algorithm>

namespace brdma::qp {
namespace {

std::optional<DropReason> early_invalid_unless(bool good) {
  return good ? std::nullopt : std::optional{DropReason::kEarlyInvalid};
}

}  // namespace

Verdict RequestChecks::atomic_write(const wire::Packet& packet, std::byte*& word) const {
  if (!grants(kAccessRemoteWrite) || !answers()) return Verdict::kInvalidRequest;
  if (packet.payload.size() != kAtomicBytes || packet.reth.length != kAtomicBytes) return Verdict::kInvalidRequest;
  if (packet.reth.address % kAtomicBytes != 0) return Verdict::kInvalidRequest;
  const Verdict verdict = resolve(packet.reth.rkey, packet.reth.address, kAtomicBytes, kAccessRemoteWrite, word);
  if (verdict != Verdict::kDone) return verdict;
  return is_aligned(word) ? Verdict::kDone : Verdict::kInvalidRequest;
}

Verdict RequestChecks::flush(const wire::Packet& packet) const {
  const wire::Feth& feth = packet.feth;
  if (feth.placement == 0 || feth.placement > (wire::kFlushGlobal | wire::kFlushPersistent)) {
    return Verdict::kInvalidRequest;
  }
  if (feth.selectivity > wire::kFlushRegion || !answers()) return Verdict::kInvalidRequest;
  const std::uint32_t needed = ((feth.placement & wire::kFlushGlobal) != 0 ? kAccessFlushGlobal : 0) |
                               ((feth.placement & wire::kFlushPersistent) != 0 ? kAccessFlushPersistent : 0);
  if (!grants(needed)) return Verdict::kInvalidRequest;
  if (feth.selectivity != wire::kFlushRegion) return resolve(packet.reth, needed);
  // The whole region, whatever its range.
  const MemoryRegion* const region = parts_.memory.find(packet.reth.rkey);
  if (region == nullptr) return Verdict::kAccessError;
  std::byte* bytes = nullptr;
  return resolve(packet.reth.rkey, region->iova, region->length, needed, bytes);
}

bool EarlyChecks::overlaps(const wire::Packet& packet) const {
  const Psn psn = packet.bth.psn;
  if (find_early(parts_.out_of_order, psn) != nullptr) return false;  // it came early itself: checked then
  const bitmap::ReceiveWindow& window = parts_.window;
  const std::uint32_t packets = psns_of(packet, parts_.mtu);
  const auto known = static_cast<std::uint32_t>(std::max(distance(window.highest(), psn) + 1, 0));
  for (std::uint32_t i = 1; i < std::min(packets, known); ++i) {
    if (window.has(psn + i)) return true;
  }
  return false;
}

std::optional<DropReason> EarlyChecks::held(const wire::Packet& packet) const {
  const RequestChecks request{{parts_.memory, parts_.identity, parts_.mtu}};
  std::byte* word = nullptr;
  if (packet.op == wire::RcOp::kReadRequest) return read(packet);
  if (wire::is_atomic(packet.op)) return early_invalid_unless(request.atomic(packet, word) == Verdict::kDone);
  if (packet.op == wire::RcOp::kFlush) return early_invalid_unless(request.flush(packet) == Verdict::kDone);
  if (packet.op == wire::RcOp::kAtomicWrite) {
    return early_invalid_unless(request.atomic_write(packet, word) == Verdict::kDone);
  }
  if (!packet.bitmap) return std::nullopt;
  if (wire::is_send(packet.op) || wire::has_immediate(packet.op)) {
    if (const auto reason = receive(packet)) return reason;
  }
  return wire::is_write(packet.op) ? write(packet) : std::nullopt;
}

std::optional<DropReason> EarlyChecks::read(const wire::Packet& packet) const {
  const std::uint32_t packets = psns_of(packet, parts_.mtu);
  if (static_cast<std::uint64_t>(ahead(packet)) + packets > parts_.window.open()) return DropReason::kOutOfWindow;
  const RequestChecks request{{parts_.memory, parts_.identity, parts_.mtu}};
  if (request.read(packet) != Verdict::kDone) return DropReason::kEarlyInvalid;
  return early_invalid_unless(!overlaps(packet));
}

// Not marked as received unless its receive is there: the sender must get an RNR NAK for a packet it can send again.
std::optional<DropReason> EarlyChecks::receive(const wire::Packet& packet) const {
  const auto index = receive_index(packet);
  if (!index) return DropReason::kEarlyNoReceive;
  // The place of data by reference in the message is known only in order.
  const std::uint64_t end = packet.bxth.by_reference()
                                ? data_bytes(packet)
                                : std::uint64_t{packet.bxth.packet_index} * parts_.mtu + packet.payload.size();
  return early_invalid_unless(!wire::is_send(packet.op) || end <= parts_.receives[*index].bytes);
}

std::optional<DropReason> EarlyChecks::write(const wire::Packet& packet) const {
  if ((parts_.identity.attributes.access & kAccessRemoteWrite) == 0) return DropReason::kEarlyInvalid;
  std::byte* to = nullptr;
  const auto fault = parts_.memory.resolve(parts_.identity.accessor(), packet.reth.rkey, packet.reth.address,
                                           data_bytes(packet), kAccessRemoteWrite, &to);
  return early_invalid_unless(fault == memory::Fault::kNone);
}

}  // namespace brdma::qp
