// qp/execute/request_execution.h - private: in-order execution of a request: everything before its PSN has been
// executed. It alone refuses, completes and counts messages, in a fixed order: rights and shape, the receive, the data,
// then what others see of it. A refused request has had no effect, except that a SEND may have written a part of its
// receive. Early packets run through it when the base reaches them (`placed`: their data is in memory already).
//
// The functions that run for each packet of a WRITE or SEND are inline: there the parts cost nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/psn.h"
#include "base/units.h"
#include "bitmap/receive_window.h"
#include "qp/execute/fetch_local.h"
#include "qp/execute/received_messages.h"
#include "qp/execute/request_checks.h"
#include "qp/execute/used_receives.h"
#include "qp/execute/verdict.h"
#include "qp/gaps/out_of_order.h"
#include "qp/queues/notify_write.h"
#include "qp/queues/receive_queue.h"
#include "qp/receive/operation_receiver.h"
#include "qp/respond/responder_resources.h"
#include "qp/respond/response_log.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"

namespace brdma::qp {

// Checks of a whole WRITE, on its first packet. `to`: its place in memory.
[[nodiscard]] inline Verdict begin_write(Environment& env, const Identity& identity, const wire::Reth& reth,
                                         std::byte*& to) {
  if ((identity.attributes.access & kAccessRemoteWrite) == 0) return Verdict::kInvalidRequest;
  if (reth.length > RequestChecks::kBytesMax) return Verdict::kInvalidRequest;
  const auto fault =
      env.memory.resolve(identity.accessor(), reth.rkey, reth.address, reth.length, kAccessRemoteWrite, &to);
  if (fault != memory::Fault::kNone) return Verdict::kAccessError;
  env.count(Counter::kWriteRequests);
  return Verdict::kDone;
}

// All data of a WRITE is in place.
inline void end_write(Environment& env, const Identity& identity, const wire::Reth& reth) {
  if (env.memory.watched() != 0) [[unlikely]]
    notify_write(env, reth, identity.qpn);
}

// A view of the responder's parts, made where it is needed.
class RequestExecution {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    const bitmap::ReceiveWindow& window;
    OutOfOrderState* out_of_order;  // null: nothing has come early
    ReceiveQueue& receives;
    ReceivedOperations& operations;
    ResponderResources& resources;
    std::unique_ptr<ResponseLog>& log;  // null: no response yet
    ReceivedMessages& messages;
    std::uint32_t mtu;
  };
  [[gnu::always_inline]] explicit RequestExecution(const Parts& parts) : parts_(parts) {}

  Verdict execute(const wire::Packet& packet, bool placed, Outcome& outcome, Instant now) const;

 private:
  using Kind = ReceivedMessages::Kind;

  Verdict send(const wire::Packet& packet, bool placed, Outcome& outcome, Instant now) const;
  Verdict write(const wire::Packet& packet, bool placed, Outcome& outcome, Instant now) const;
  Verdict single_write(const wire::Packet& packet) const;  // one packet, its data in it, without immediate
  // The data of a packet. kDone: it is in memory. `own_fault`: of the receive. `to`: the place, if known.
  Verdict receive_data(const wire::Packet& packet, bool placed, memory::Fault& own_fault) const;
  Verdict write_data(const wire::Packet& packet, bool placed, std::byte* to) const;
  [[nodiscard]] bool place(const wire::Packet& packet, std::byte* to) const;
  Verdict begin_or_continue(const wire::Packet& packet, std::byte*& to) const;
  // READs, atomics, ATOMIC WRITEs, FLUSHes. `since`: now.
  Verdict answered(const wire::Packet& packet, Instant since) const;
  Verdict read(const wire::Packet& packet, Instant since) const;
  Verdict atomic(const wire::Packet& packet) const;
  Verdict confirmed(const wire::Packet& packet, Instant since) const;
  [[nodiscard]] bool store_word(const wire::Packet& packet, std::byte* word) const;

  [[nodiscard]] UsedReceives used_receives() const {
    return UsedReceives{{parts_.env, parts_.identity, parts_.receives, parts_.messages}};
  }
  [[nodiscard]] LocalFetch local_fetch() const {
    return LocalFetch{{parts_.env, parts_.identity, parts_.out_of_order, parts_.mtu}};
  }

  Parts parts_;
};

[[gnu::always_inline]] inline Verdict RequestExecution::execute(const wire::Packet& packet, bool placed,
                                                                Outcome& outcome, Instant now) const {
  if (packet.op == wire::RcOp::kWriteOnly && !placed && !packet.bxth.by_reference()) return single_write(packet);
  if (wire::is_write(packet.op)) return write(packet, placed, outcome, now);
  if (wire::is_send(packet.op)) return send(packet, placed, outcome, now);
  return RequestExecution{parts_}.answered(packet, now);  // a copy: else the parts would be in memory for all
}

[[gnu::always_inline]] inline Verdict RequestExecution::receive_data(const wire::Packet& packet, bool placed,
                                                                     memory::Fault& own_fault) const {
  if (packet.bxth.by_reference()) [[unlikely]]
    return local_fetch().send(packet, parts_.receives, parts_.messages.bytes(), own_fault);
  if (!placed) {
    own_fault =
        parts_.receives.scatter(parts_.env.memory, parts_.identity.pd, 0, parts_.messages.bytes(), packet.payload);
  }
  return Verdict::kDone;
}

[[gnu::always_inline]] inline Verdict RequestExecution::send(const wire::Packet& packet, bool placed, Outcome& outcome,
                                                             Instant now) const {
  Environment& env = parts_.env;
  const Identity& identity = parts_.identity;
  ReceiveQueue& receives = parts_.receives;
  ReceivedMessages& messages = parts_.messages;
  if (!messages.takes(Kind::kSend, wire::is_first_or_only(packet.op))) return Verdict::kInvalidRequest;
  if (!payload_fits_opcode(packet, parts_.mtu)) return Verdict::kInvalidRequest;
  if (!receives.has(0)) return Verdict::kNotReady;
  // Its RSN and index decided the place of the data: they must match the values known in order.
  if (placed && (packet.bxth.rsn != messages.rsn() || packet.bxth.packet_index != messages.packets())) {
    return Verdict::kInvalidRequest;
  }
  const std::uint64_t bytes = messages.bytes() + data_bytes(packet);
  if (bytes > receives[0].bytes) {
    used_receives().complete(packet, CompletionStatus::kLocalLengthError, 0, outcome, now);
    return Verdict::kInvalidRequest;
  }
  memory::Fault fault = memory::Fault::kNone;
  const Verdict verdict = receive_data(packet, placed, fault);
  if (fault != memory::Fault::kNone) {
    used_receives().complete(packet, CompletionStatus::kLocalProtectionError, 0, outcome, now);
    return Verdict::kOperationError;
  }
  if (verdict != Verdict::kDone) return verdict;
  if (!wire::is_last_or_only(packet.op)) {
    messages.go_on(Kind::kSend, bytes);
    return Verdict::kDone;
  }
  // After the data is in place, and before it is reported. A region's key can't be invalidated by a peer.
  if (wire::has_invalidate(packet.op) && !env.memory.invalidate(identity.accessor(), packet.invalidate_rkey)) {
    return Verdict::kAccessError;
  }
  messages.complete();
  used_receives().complete(packet, CompletionStatus::kSuccess, static_cast<std::uint32_t>(bytes), outcome, now);
  return Verdict::kDone;
}

// The same as write(), without the state kept between packets of a message.
[[gnu::always_inline]] inline Verdict RequestExecution::single_write(const wire::Packet& packet) const {
  if (parts_.messages.in_progress() || packet.payload.size() > parts_.mtu) return Verdict::kInvalidRequest;
  std::byte* to = nullptr;
  if (const Verdict verdict = begin_write(parts_.env, parts_.identity, packet.reth, to); verdict != Verdict::kDone)
    return verdict;
  if (packet.payload.size() != packet.reth.length) return Verdict::kInvalidRequest;
  if (!packet.payload.empty() && !copy_uncovered(parts_.out_of_order, packet.bth.psn, to, packet.payload))
    return Verdict::kAccessError;
  end_write(parts_.env, parts_.identity, packet.reth);
  parts_.messages.count();
  return Verdict::kDone;
}

[[gnu::always_inline]] inline Verdict RequestExecution::begin_or_continue(const wire::Packet& packet,
                                                                          std::byte*& to) const {
  ReceivedMessages& messages = parts_.messages;
  if (!wire::is_first_or_only(packet.op)) {
    return packet.bitmap && !messages.is_next_of_write(packet.reth) ? Verdict::kInvalidRequest : Verdict::kDone;
  }
  const Verdict verdict = begin_write(parts_.env, parts_.identity, packet.reth, to);
  if (verdict == Verdict::kDone) messages.set_reth(packet.reth);
  return verdict;
}

[[gnu::always_inline]] inline Verdict RequestExecution::write_data(const wire::Packet& packet, bool placed,
                                                                   std::byte* to) const {
  const ReceivedMessages& messages = parts_.messages;
  if (packet.bxth.by_reference()) [[unlikely]] {
    return local_fetch().write(packet,
                               {.rkey = messages.reth().rkey, .address = messages.next_address(), .memory = to});
  }
  return placed || place(packet, to) ? Verdict::kDone : Verdict::kAccessError;
}

[[gnu::always_inline]] inline Verdict RequestExecution::write(const wire::Packet& packet, bool placed, Outcome& outcome,
                                                              Instant now) const {
  ReceivedMessages& messages = parts_.messages;
  const bool last = wire::is_last_or_only(packet.op);
  if (!messages.takes(Kind::kWrite, wire::is_first_or_only(packet.op))) return Verdict::kInvalidRequest;
  if (!payload_fits_opcode(packet, parts_.mtu)) return Verdict::kInvalidRequest;
  const bool immediate = wire::has_immediate(packet.op);
  // Before any write or count: the same packet will come again.
  if (immediate && !parts_.receives.has(0)) return Verdict::kNotReady;
  std::byte* to = nullptr;
  if (const Verdict verdict = begin_or_continue(packet, to); verdict != Verdict::kDone) return verdict;
  const std::uint64_t bytes = messages.bytes() + data_bytes(packet);
  if (last ? bytes != messages.reth().length : bytes >= messages.reth().length) return Verdict::kInvalidRequest;
  if (const Verdict verdict = write_data(packet, placed, to); verdict != Verdict::kDone) return verdict;
  if (!last) {
    messages.go_on(Kind::kWrite, bytes);
    return Verdict::kDone;
  }
  end_write(parts_.env, parts_.identity, messages.reth());
  messages.complete();
  if (immediate)
    used_receives().complete(packet, CompletionStatus::kSuccess, static_cast<std::uint32_t>(bytes), outcome, now);
  return Verdict::kDone;
}

// The key is looked up for each packet: the region may be gone since the last.
[[gnu::always_inline]] inline bool RequestExecution::place(const wire::Packet& packet, std::byte* to) const {
  const memory::MemoryTable& memory = parts_.env.memory;
  const ReceivedMessages& messages = parts_.messages;
  const std::size_t size = packet.payload.size();
  if (size == 0) return true;
  // A registered operation's key was looked up once; the result holds until a region goes.
  if (to == nullptr && packet.bxth.operation_packets != 0) to = parts_.operations.place_of(packet, memory);
  if (to == nullptr) {
    const auto fault = memory.resolve(parts_.identity.accessor(), messages.reth().rkey, messages.next_address(), size,
                                      kAccessRemoteWrite, &to);
    if (fault != memory::Fault::kNone) return false;
  }
  return copy_uncovered(parts_.out_of_order, packet.bth.psn, to, packet.payload);
}

}  // namespace brdma::qp
