// qp/execute/request_checks.h - private: what a request must satisfy before it has any effect. In order a failed check
// is a NAK; an early packet or a duplicate that fails one is dropped.
//   RequestChecks   on the request alone: rights, limits, keys
//   EarlyChecks     on an early packet that is to be held, against the state of the queue pair
// Both are views of the responder's parts, made where they are needed. WRITEs and SENDs in order are checked as they
// are executed (request_execution.h), with the state of their message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/psn.h"
#include "bitmap/receive_window.h"
#include "memory/memory_table.h"
#include "qp/execute/verdict.h"
#include "qp/gaps/out_of_order.h"
#include "qp/queues/receive_queue.h"
#include "qp/respond/responder_resources.h"
#include "qp/state/identity.h"
#include "trace/drop_reason.h"
#include "wire/local_reference.h"
#include "wire/packet.h"

namespace brdma::qp {

// PSNs that a request takes: one for each READ response.
[[nodiscard]] inline std::uint32_t psns_of(const wire::Packet& packet, std::uint32_t mtu) {
  return packet.op == wire::RcOp::kReadRequest && !packet.bxth.by_reference()
             ? response_packets(packet.reth.length, mtu)
             : std::uint32_t{1};
}

// Bytes of a WRITE or SEND that this packet brings.
[[nodiscard]] inline std::size_t data_bytes(const wire::Packet& packet) {
  if (packet.bxth.by_reference()) [[unlikely]]
    return wire::referenced_bytes(packet.payload);
  return packet.payload.size();
}

// IBTA 9.7.4.1.6: First and Middle carry exactly the path MTU; Last and Only at most that. Data by reference has its
// own limit (wire/local_reference.h).
[[nodiscard]] inline bool payload_fits_opcode(const wire::Packet& packet, std::uint32_t mtu) {
  if (wire::is_last_or_only(packet.op) ? packet.payload.size() <= mtu : packet.payload.size() == mtu) return true;
  return packet.bxth.by_reference();
}

class RequestChecks {
 public:
  static constexpr std::uint32_t kBytesMax = 1u << 31;        // IBTA 9.7.2
  static constexpr std::uint32_t kReadPacketsMax = 1u << 22;  // a quarter of the PSN space, as the largest window
  static constexpr std::size_t kAtomicBytes = 8;              // also of an ATOMIC WRITE

  struct Parts {
    const memory::MemoryTable& memory;
    const Identity& identity;
    std::uint32_t mtu;
  };
  explicit RequestChecks(const Parts& parts) : parts_(parts) {}

  [[nodiscard]] Verdict read(const wire::Packet& packet) const;
  // `word`: set where the verdict is kDone.
  [[nodiscard]] Verdict atomic(const wire::Packet& packet, std::byte*& word) const;
  [[nodiscard]] Verdict atomic_write(const wire::Packet& packet, std::byte*& word) const;
  [[nodiscard]] Verdict flush(const wire::Packet& packet) const;

 private:
  [[nodiscard]] Verdict resolve(const wire::Reth& reth, std::uint32_t access) const {
    std::byte* bytes = nullptr;
    return resolve(reth.rkey, reth.address, reth.length, access, bytes);
  }
  [[nodiscard]] Verdict resolve(std::uint32_t rkey, std::uint64_t address, std::uint64_t length, std::uint32_t access,
                                std::byte*& bytes) const {
    const auto fault = parts_.memory.resolve(parts_.identity.accessor(), rkey, address, length, access, &bytes);
    return fault == memory::Fault::kNone ? Verdict::kDone : Verdict::kAccessError;
  }
  [[nodiscard]] bool grants(std::uint32_t access) const {
    return (parts_.identity.attributes.access & access) == access;
  }
  [[nodiscard]] bool answers() const { return parts_.identity.attributes.max_dest_rd_atomic != 0; }
  // An aligned address in a region whose own start is not: no single machine operation is possible.
  [[nodiscard]] static bool is_aligned(const std::byte* word) {
    return reinterpret_cast<std::uintptr_t>(word) % kAtomicBytes == 0;
  }

  Parts parts_;
};

inline Verdict RequestChecks::read(const wire::Packet& packet) const {
  if (!grants(kAccessRemoteRead) || !answers()) return Verdict::kInvalidRequest;
  if (packet.reth.length > kBytesMax) return Verdict::kInvalidRequest;
  // Not the window: an in-order READ needs no bits. A READ sent as a standard packet was cut before the peer knew our
  // window; it may come again as a bitmap packet.
  if (response_packets(packet.reth.length, parts_.mtu) > kReadPacketsMax) return Verdict::kInvalidRequest;
  return resolve(packet.reth, kAccessRemoteRead);
}

inline Verdict RequestChecks::atomic(const wire::Packet& packet, std::byte*& word) const {
  if (!grants(kAccessRemoteAtomic) || !answers()) return Verdict::kInvalidRequest;
  if (packet.atomic.address % kAtomicBytes != 0) return Verdict::kInvalidRequest;
  const Verdict verdict = resolve(packet.atomic.rkey, packet.atomic.address, kAtomicBytes, kAccessRemoteAtomic, word);
  if (verdict != Verdict::kDone) return verdict;
  return is_aligned(word) ? Verdict::kDone : Verdict::kInvalidRequest;
}

class EarlyChecks {
 public:
  struct Parts {
    const memory::MemoryTable& memory;
    const Identity& identity;
    const bitmap::ReceiveWindow& window;
    const OutOfOrderState* out_of_order;
    ReceiveQueue& receives;  // a shared queue's are taken as they are needed
    std::uint32_t mtu;
    std::uint32_t rsn;  // receives completed
  };
  explicit EarlyChecks(const Parts& parts) : parts_(parts) {}

  // Nothing: the packet may be held, and marked as received.
  [[nodiscard]] std::optional<DropReason> held(const wire::Packet& packet) const;
  // A READ's responses take PSNs of other received requests: the peer contradicts itself.
  [[nodiscard]] bool overlaps(const wire::Packet& packet) const;
  // Index of the posted receive that a bitmap packet's RSN names. Each message in between has a PSN at least: an RSN
  // further away would take the others' receives for nothing.
  [[nodiscard]] std::optional<std::size_t> receive_index(const wire::Packet& packet) const {
    const std::size_t index = (packet.bxth.rsn - parts_.rsn) & 0xFF'FFFF;
    if (index >= parts_.receives.size() && static_cast<std::int64_t>(index) > ahead(packet)) return std::nullopt;
    if (!parts_.receives.has(index)) return std::nullopt;
    return index;
  }

 private:
  [[nodiscard]] std::int32_t ahead(const wire::Packet& packet) const {
    return distance(packet.bth.psn, parts_.window.base());
  }
  [[nodiscard]] std::optional<DropReason> read(const wire::Packet& packet) const;
  [[nodiscard]] std::optional<DropReason> receive(const wire::Packet& packet) const;
  [[nodiscard]] std::optional<DropReason> write(const wire::Packet& packet) const;

  Parts parts_;
};

}  // namespace brdma::qp
