// qp/receive/execute.cc - in-order execution of a request: everything before its PSN has been executed. The state kept
// between packets (`message`) does not depend on the packet format: one message may come in standard and in bitmap
// packets.
#include <atomic>
#include <cstring>

#include "qp/queues/notify_write.h"
#include "qp/receive/responder_impl.h"

namespace brdma::qp {
namespace {

using wire::RcOp;

constexpr std::uint32_t kSerialMask = 0xFF'FFFF;  // MSN and RSN

// The application's threads may use the same word: a real atomic operation, not a load and a store. False: the memory
// is not mapped.
bool fetch_and_store(RcOp op, const wire::AtomicEth& atomic, std::byte* word, std::uint64_t& original) {
  if (op == RcOp::kFetchAdd) return memory::fetch_add(word, atomic.swap_or_add, original);
  return memory::compare_swap(word, atomic.compare, atomic.swap_or_add, original);
}

}  // namespace

Verdict Responder::Impl::execute(const wire::Packet& packet, bool placed, Outcome& outcome, Instant now) {
  if (packet.op == RcOp::kWriteOnly && !placed && !packet.bxth.by_reference()) return execute_single_write(packet);
  if (wire::is_write(packet.op)) return execute_write(packet, placed, outcome, now);
  if (wire::is_send(packet.op)) return execute_send(packet, placed, outcome, now);
  if (message.kind != Message::Kind::kNone) return Verdict::kInvalidRequest;  // inside another message
  if (packet.op == RcOp::kReadRequest) return execute_read(packet);
  return wire::is_atomic(packet.op) ? execute_atomic(packet) : execute_confirmed(packet);
}

Verdict Responder::Impl::execute_send(const wire::Packet& packet, bool placed, Outcome& outcome, Instant now) {
  const bool first = wire::is_first_or_only(packet.op);
  const bool last = wire::is_last_or_only(packet.op);
  if (first != (message.kind == Message::Kind::kNone)) return Verdict::kInvalidRequest;
  if (!first && message.kind != Message::Kind::kSend) return Verdict::kInvalidRequest;
  if (!payload_fits_opcode(packet, mtu)) return Verdict::kInvalidRequest;
  if (!receives.has(0)) return Verdict::kNotReady;
  // Its RSN and index decided the place of the data: they must match the values known in order.
  if (placed && (packet.bxth.rsn != rsn || packet.bxth.packet_index != message.packets)) {
    return Verdict::kInvalidRequest;
  }
  const std::uint64_t bytes = message.bytes + data_bytes(packet);
  if (bytes > receives[0].bytes) {
    complete_receive(packet, CompletionStatus::kLocalLengthError, 0, outcome, now);
    return Verdict::kInvalidRequest;
  }
  memory::Fault fault = memory::Fault::kNone;
  if (packet.bxth.by_reference()) [[unlikely]] {
    const Verdict verdict = local_fetch().send(packet, receives, message.bytes, fault);
    if (verdict != Verdict::kDone && fault == memory::Fault::kNone) return verdict;
  } else if (!placed) {
    fault = receives.scatter(env.memory, identity.pd, 0, message.bytes, packet.payload);
  }
  if (fault != memory::Fault::kNone) {
    complete_receive(packet, CompletionStatus::kLocalProtectionError, 0, outcome, now);
    return Verdict::kOperationError;
  }
  if (!last) {
    message.kind = Message::Kind::kSend;
    message.bytes = bytes;
    ++message.packets;
    return Verdict::kDone;
  }
  // After the data is in place, and before it is reported. A region's key can't be invalidated by a peer.
  if (wire::has_invalidate(packet.op) && !env.memory.invalidate(identity.accessor(), packet.invalidate_rkey)) {
    return Verdict::kAccessError;
  }
  message = Message{};
  msn = (msn + 1) & kSerialMask;
  complete_receive(packet, CompletionStatus::kSuccess, static_cast<std::uint32_t>(bytes), outcome, now);
  return Verdict::kDone;
}

// Checks of the whole message, on its first packet.
Verdict Responder::Impl::begin_write(const wire::Packet& packet, std::byte*& to) {
  if ((identity.attributes.access & kAccessRemoteWrite) == 0) return Verdict::kInvalidRequest;
  if (packet.reth.length > RequestChecks::kBytesMax) return Verdict::kInvalidRequest;
  const auto fault = env.memory.resolve(identity.accessor(), packet.reth.rkey, packet.reth.address, packet.reth.length,
                                        kAccessRemoteWrite, &to);
  if (fault != memory::Fault::kNone) return Verdict::kAccessError;
  env.count(Counter::kWriteRequests);
  return Verdict::kDone;
}

// The same as execute_write(), without the state kept between packets of a message.
Verdict Responder::Impl::execute_single_write(const wire::Packet& packet) {
  if (message.kind != Message::Kind::kNone || packet.payload.size() > mtu) return Verdict::kInvalidRequest;
  std::byte* to = nullptr;
  if (const Verdict verdict = begin_write(packet, to); verdict != Verdict::kDone) return verdict;
  if (packet.payload.size() != packet.reth.length) return Verdict::kInvalidRequest;
  if (!packet.payload.empty() && !copy_uncovered(out_of_order, packet.bth.psn, to, packet.payload))
    return Verdict::kAccessError;
  if (env.memory.watched() != 0) [[unlikely]]
    notify_write(env, packet.reth, identity.qpn);
  msn = (msn + 1) & kSerialMask;
  return Verdict::kDone;
}

Verdict Responder::Impl::execute_write(const wire::Packet& packet, bool placed, Outcome& outcome, Instant now) {
  const bool first = wire::is_first_or_only(packet.op);
  const bool last = wire::is_last_or_only(packet.op);
  if (first != (message.kind == Message::Kind::kNone)) return Verdict::kInvalidRequest;
  if (!first && message.kind != Message::Kind::kWrite) return Verdict::kInvalidRequest;
  if (!payload_fits_opcode(packet, mtu)) return Verdict::kInvalidRequest;
  const bool immediate = wire::has_immediate(packet.op);
  // Before any write or count: the same packet will come again.
  if (immediate && !receives.has(0)) return Verdict::kNotReady;
  std::byte* to = nullptr;
  if (first) {
    const Verdict verdict = begin_write(packet, to);
    if (verdict != Verdict::kDone) return verdict;
    message.reth = packet.reth;
  } else if (packet.bitmap && (packet.reth.address != message.reth.address + message.bytes ||
                               packet.reth.rkey != message.reth.rkey || packet.reth.length != message.reth.length)) {
    return Verdict::kInvalidRequest;
  }
  const std::uint64_t bytes = message.bytes + data_bytes(packet);
  if (last ? bytes != message.reth.length : bytes >= message.reth.length) return Verdict::kInvalidRequest;
  if (packet.bxth.by_reference()) [[unlikely]] {
    const Verdict verdict = local_fetch().write(
        packet, {.rkey = message.reth.rkey, .address = message.reth.address + message.bytes, .memory = to});
    if (verdict != Verdict::kDone) return verdict;
  } else if (!placed && !place_write(packet, to)) {
    return Verdict::kAccessError;
  }
  if (!last) {
    message.kind = Message::Kind::kWrite;
    message.bytes = bytes;
    ++message.packets;
    return Verdict::kDone;
  }
  if (env.memory.watched() != 0) [[unlikely]]
    notify_write(env, message.reth, identity.qpn);
  message = Message{};
  msn = (msn + 1) & kSerialMask;
  if (immediate) {
    complete_receive(packet, CompletionStatus::kSuccess, static_cast<std::uint32_t>(bytes), outcome, now);
  }
  return Verdict::kDone;
}

// The key is looked up for each packet: the region may be gone since the last.
bool Responder::Impl::place_write(const wire::Packet& packet, std::byte* to) {
  const std::size_t size = packet.payload.size();
  if (size == 0) return true;
  // A registered operation's key was looked up once; the result holds until a region goes.
  if (to == nullptr && packet.bxth.operation_packets != 0) to = operations.place_of(packet, env.memory);
  if (to == nullptr) {
    const auto fault = env.memory.resolve(identity.accessor(), message.reth.rkey, message.reth.address + message.bytes,
                                          size, kAccessRemoteWrite, &to);
    if (fault != memory::Fault::kNone) return false;
  }
  return copy_uncovered(out_of_order, packet.bth.psn, to, packet.payload);
}

Verdict Responder::Impl::execute_read(const wire::Packet& packet) {
  const Verdict verdict = request_checks().read(packet);
  if (verdict != Verdict::kDone) return verdict;
  if (!window.empty() && early_checks().overlaps(packet)) return Verdict::kInvalidRequest;
  if (!resources.room_for_request()) return Verdict::kNotReady;
  env.count(Counter::kReadRequests);
  msn = (msn + 1) & kSerialMask;
  const Response response = read_response_of(packet, msn);
  resources.push(response);
  log_response(response_log, identity, response, /*is_read=*/true, mtu, last_call);
  return Verdict::kDone;
}

Verdict Responder::Impl::execute_atomic(const wire::Packet& packet) {
  std::byte* word = nullptr;
  const Verdict verdict = request_checks().atomic(packet, word);
  if (verdict != Verdict::kDone) return verdict;
  if (!resources.room_for_request()) return Verdict::kNotReady;
  Response response;
  if (!fetch_and_store(packet.op, packet.atomic, word, response.original)) return Verdict::kAccessError;
  env.count(Counter::kAtomicRequests);
  msn = (msn + 1) & kSerialMask;
  response.kind = Response::Kind::kAtomic;
  response.bitmap = packet.bitmap;
  response.psn = packet.bth.psn;
  response.msn = msn;
  response.message = packet.bxth.msn;
  resources.push(response);
  resources.remember_atomic(response.psn, response.original, response.msn);
  return Verdict::kDone;
}

// ATOMIC WRITE and FLUSH (IBTA 1.5, annex A19). A READ response without data answers both, and their duplicates: it
// only confirms execution, so no record is needed. Persistence: no known memory outlives the machine, so no region and
// no queue pair grants it.
Verdict Responder::Impl::execute_confirmed(const wire::Packet& packet) {
  std::byte* word = nullptr;
  const bool flush = packet.op == wire::RcOp::kFlush;
  const Verdict verdict = flush ? request_checks().flush(packet) : request_checks().atomic_write(packet, word);
  if (verdict != Verdict::kDone) return verdict;
  if (!resources.room_for_request()) return Verdict::kNotReady;
  if (flush) {
    // Data placed before is visible to all threads that see the response's effects.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else if (!store_word(packet, word)) {
    return Verdict::kAccessError;
  }
  env.count(flush ? Counter::kFlushRequests : Counter::kAtomicWriteRequests);
  msn = (msn + 1) & kSerialMask;
  const Response response = confirmation_of(packet, msn);
  resources.push(response);
  log_response(response_log, identity, response, /*is_read=*/false, mtu, last_call);
  return Verdict::kDone;
}

// One store, bytes unchanged: they are the application's. If a later WRITE has been placed over a part of it already,
// the steps cannot be distinguished any more. False: the word is not mapped.
bool Responder::Impl::store_word(const wire::Packet& packet, std::byte* word) {
  const bool covered = out_of_order != nullptr &&
                       out_of_order->early.uncovered(packet.bth.psn, word, RequestChecks::kAtomicBytes).size !=
                           RequestChecks::kAtomicBytes;
  bool done = false;
  if (covered) [[unlikely]] {
    done = copy_uncovered(out_of_order, packet.bth.psn, word, packet.payload);
  } else {
    std::uint64_t value = 0;
    std::memcpy(&value, packet.payload.data(), RequestChecks::kAtomicBytes);
    done = memory::store(word, value);
  }
  if (done && env.memory.watched() != 0) [[unlikely]]
    notify_write(env, packet.reth, identity.qpn);
  return done;
}

void Responder::Impl::complete_receive(const wire::Packet& packet, CompletionStatus status, std::uint32_t bytes,
                                       Outcome& outcome, Instant now) {
  const bool good = status == CompletionStatus::kSuccess;
  Completion completion;
  completion.wr_id = receives[0].wr_id;
  completion.status = status;
  completion.opcode = wire::is_write(packet.op) ? CompletionOpcode::kReceiveRdmaWithImm : CompletionOpcode::kReceive;
  completion.byte_length = bytes;
  completion.qp_num = identity.qpn;
  completion.source_qp = identity.attributes.destination_qpn;
  if (wire::has_immediate(packet.op) && good) {
    completion.flags = kCompletionWithImm;
    completion.immediate_be = packet.immediate_be;
  }
  if (wire::has_invalidate(packet.op) && good) {
    completion.flags = kCompletionWithInvalidate;
    completion.immediate_be = packet.invalidate_rkey;  // one union with the immediate, host order
  }
  receives.pop();
  if (!good) message = Message{};  // its receive is used up
  rsn = (rsn + 1) & kSerialMask;
  if (good) env.count(Counter::kReceives);
  if (!env.complete(*identity.receive_cq, completion, packet.bth.solicited || !good, now))
    outcome = Outcome{.to_error = true, .async_event = kEventQpFatal};
}

}  // namespace brdma::qp
