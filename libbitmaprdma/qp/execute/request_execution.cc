#include "qp/execute/request_execution.h"

#include <atomic>
#include <cstring>

#include "qp/respond/repeated_responses.h"
#include "qp/respond/replayed_responses.h"

namespace brdma::qp {
namespace {

using wire::RcOp;

// The application's threads may use the same word: a real atomic operation, not a load and a store. False: the memory
// is not mapped.
bool fetch_and_store(RcOp op, const wire::AtomicEth& atomic, std::byte* word, std::uint64_t& original) {
  if (op == RcOp::kFetchAdd) return memory::fetch_add(word, atomic.swap_or_add, original);
  return memory::compare_swap(word, atomic.compare, atomic.swap_or_add, original);
}

}  // namespace

Verdict RequestExecution::answered(const wire::Packet& packet, Instant since) const {
  if (parts_.messages.in_progress()) return Verdict::kInvalidRequest;  // inside another message
  if (packet.op == RcOp::kReadRequest) return read(packet, since);
  return wire::is_atomic(packet.op) ? atomic(packet) : confirmed(packet, since);
}

Verdict RequestExecution::read(const wire::Packet& packet, Instant since) const {
  Environment& env = parts_.env;
  const RequestChecks checks{{env.memory, parts_.identity, parts_.mtu}};
  if (const Verdict verdict = checks.read(packet); verdict != Verdict::kDone) return verdict;
  const EarlyChecks early{{env.memory, parts_.identity, parts_.window, parts_.out_of_order, parts_.receives, parts_.mtu,
                           parts_.messages.rsn()}};
  if (!parts_.window.empty() && early.overlaps(packet)) return Verdict::kInvalidRequest;
  if (!parts_.resources.room_for_request()) return Verdict::kNotReady;
  env.count(Counter::kReadRequests);
  parts_.messages.count();
  const Response response = read_response_of(packet, parts_.messages.msn());
  parts_.resources.push(response);
  log_response(parts_.log, parts_.identity, response, /*is_read=*/true, parts_.mtu, since);
  return Verdict::kDone;
}

Verdict RequestExecution::atomic(const wire::Packet& packet) const {
  std::byte* word = nullptr;
  const RequestChecks checks{{parts_.env.memory, parts_.identity, parts_.mtu}};
  if (const Verdict verdict = checks.atomic(packet, word); verdict != Verdict::kDone) return verdict;
  if (!parts_.resources.room_for_request()) return Verdict::kNotReady;
  Response response;
  if (!fetch_and_store(packet.op, packet.atomic, word, response.original)) return Verdict::kAccessError;
  parts_.env.count(Counter::kAtomicRequests);
  parts_.messages.count();
  response.kind = Response::Kind::kAtomic;
  response.bitmap = packet.bitmap;
  response.psn = packet.bth.psn;
  response.msn = parts_.messages.msn();
  response.message = packet.bxth.msn;
  parts_.resources.push(response);
  parts_.resources.remember_atomic(response.psn, response.original, response.msn);
  return Verdict::kDone;
}

// ATOMIC WRITE and FLUSH (IBTA 1.5, annex A19). A READ response without data answers both, and their duplicates: it
// only confirms execution, so no record is needed. Persistence: no known memory outlives the machine, so no region and
// no queue pair grants it.
Verdict RequestExecution::confirmed(const wire::Packet& packet, Instant since) const {
  std::byte* word = nullptr;
  const bool flush = packet.op == RcOp::kFlush;
  const RequestChecks checks{{parts_.env.memory, parts_.identity, parts_.mtu}};
  const Verdict verdict = flush ? checks.flush(packet) : checks.atomic_write(packet, word);
  if (verdict != Verdict::kDone) return verdict;
  if (!parts_.resources.room_for_request()) return Verdict::kNotReady;
  if (flush) {
    // Data placed before is visible to all threads that see the response's effects.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else if (!store_word(packet, word)) {
    return Verdict::kAccessError;
  }
  parts_.env.count(flush ? Counter::kFlushRequests : Counter::kAtomicWriteRequests);
  parts_.messages.count();
  const Response response = confirmation_of(packet, parts_.messages.msn());
  parts_.resources.push(response);
  log_response(parts_.log, parts_.identity, response, /*is_read=*/false, parts_.mtu, since);
  return Verdict::kDone;
}

// One store, bytes unchanged: they are the application's. If a later WRITE has been placed over a part of it already,
// the steps cannot be distinguished any more. False: the word is not mapped.
bool RequestExecution::store_word(const wire::Packet& packet, std::byte* word) const {
  const OutOfOrderState* const state = parts_.out_of_order;
  const Psn psn = packet.bth.psn;
  const bool covered = state != nullptr && state->early.uncovered(psn, word, RequestChecks::kAtomicBytes).size !=
                                               RequestChecks::kAtomicBytes;
  bool done = false;
  if (covered) [[unlikely]] {
    done = copy_uncovered(state, psn, word, packet.payload);
  } else {
    std::uint64_t value = 0;
    std::memcpy(&value, packet.payload.data(), RequestChecks::kAtomicBytes);
    done = memory::store(word, value);
  }
  if (done) end_write(parts_.env, parts_.identity, packet.reth);
  return done;
}

}  // namespace brdma::qp
