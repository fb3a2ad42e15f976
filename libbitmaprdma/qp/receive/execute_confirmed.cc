// qp/receive/execute_confirmed.cc - in-order ATOMIC WRITE and FLUSH (IBTA 1.5, annex A19): everything before their PSN
// has been executed. A READ response without data answers both, and their duplicates: it only confirms execution, so no
// record is needed. Persistence: no known memory outlives the machine, so no region and no queue pair grants it.
#include <atomic>
#include <cstring>

#include "qp/receive/notify_write.h"
#include "qp/receive/responder_impl.h"

namespace brdma::qp {
namespace {

constexpr std::size_t kWordBytes = 8;

}  // namespace

Verdict Responder::Impl::execute_confirmed(const wire::Packet& packet) {
  std::byte* word = nullptr;
  const bool flush = packet.op == wire::RcOp::kFlush;
  const Verdict verdict = flush ? check_flush(packet) : check_atomic_write(packet, &word);
  if (verdict != Verdict::kDone) return verdict;
  if (!resources.room_for_request()) return Verdict::kNotReady;
  if (flush) {
    // Data placed before is visible to all threads that see the response's effects.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else if (!store_word(packet, word)) {
    return Verdict::kAccessError;
  }
  env.count(flush ? Counter::kFlushRequests : Counter::kAtomicWriteRequests);
  msn = (msn + 1) & Psn::kMask;
  confirm(packet, /*replay=*/false);
  return Verdict::kDone;
}

Verdict Responder::Impl::check_confirmed(const wire::Packet& packet) const {
  std::byte* word = nullptr;
  return packet.op == wire::RcOp::kFlush ? check_flush(packet) : check_atomic_write(packet, &word);
}

Verdict Responder::Impl::check_atomic_write(const wire::Packet& packet, std::byte** word) const {
  if ((identity.attributes.access & kAccessRemoteWrite) == 0) return Verdict::kInvalidRequest;
  if (identity.attributes.max_dest_rd_atomic == 0) return Verdict::kInvalidRequest;
  if (packet.payload.size() != kWordBytes || packet.reth.length != kWordBytes) return Verdict::kInvalidRequest;
  if (packet.reth.address % kWordBytes != 0) return Verdict::kInvalidRequest;
  const auto fault = env.memory.resolve(identity.accessor(), packet.reth.rkey, packet.reth.address, kWordBytes,
                                        kAccessRemoteWrite, word);
  if (fault != memory::Fault::kNone) return Verdict::kAccessError;
  // As for atomics: a region whose own start is not aligned.
  return reinterpret_cast<std::uintptr_t>(*word) % kWordBytes == 0 ? Verdict::kDone : Verdict::kInvalidRequest;
}

// One store, bytes unchanged: they are the application's. If a later WRITE has been placed over a part of it already,
// the steps cannot be distinguished any more. False: the word is not mapped.
bool Responder::Impl::store_word(const wire::Packet& packet, std::byte* word) {
  const bool covered =
      out_of_order != nullptr && out_of_order->early.uncovered(packet.bth.psn, word, kWordBytes).size != kWordBytes;
  bool done = false;
  if (covered) [[unlikely]] {
    done = copy_uncovered(packet.bth.psn, word, packet.payload);
  } else {
    std::uint64_t value = 0;
    std::memcpy(&value, packet.payload.data(), kWordBytes);
    done = memory::store(word, value);
  }
  if (done && env.memory.watched() != 0) [[unlikely]]
    notify_write(env, packet.reth, identity.qpn);
  return done;
}

Verdict Responder::Impl::check_flush(const wire::Packet& packet) const {
  if (packet.feth.placement == 0 || packet.feth.placement > (wire::kFlushGlobal | wire::kFlushPersistent)) {
    return Verdict::kInvalidRequest;
  }
  if (packet.feth.selectivity > wire::kFlushRegion) return Verdict::kInvalidRequest;
  if (identity.attributes.max_dest_rd_atomic == 0) return Verdict::kInvalidRequest;
  const std::uint32_t needed = ((packet.feth.placement & wire::kFlushGlobal) != 0 ? kAccessFlushGlobal : 0) |
                               ((packet.feth.placement & wire::kFlushPersistent) != 0 ? kAccessFlushPersistent : 0);
  if ((identity.attributes.access & needed) != needed) return Verdict::kInvalidRequest;
  std::uint64_t address = packet.reth.address, length = packet.reth.length;
  if (packet.feth.selectivity == wire::kFlushRegion) {  // the whole region, whatever its range
    const MemoryRegion* const region = env.memory.find(packet.reth.rkey);
    if (region == nullptr) return Verdict::kAccessError;
    address = region->iova;
    length = region->length;
  }
  std::byte* bytes = nullptr;
  const auto fault = env.memory.resolve(identity.accessor(), packet.reth.rkey, address, length, needed, &bytes);
  return fault == memory::Fault::kNone ? Verdict::kDone : Verdict::kAccessError;
}

// The response sender treats it as one to a READ without data.
void Responder::Impl::confirm(const wire::Packet& packet, bool replay) {
  Response response;
  response.kind = Response::Kind::kRead;
  response.bitmap = packet.bitmap;
  response.replay = replay;
  response.psn = packet.bth.psn;
  response.msn = msn;
  response.message = packet.bxth.msn;
  resources.push(response);
  if (!replay) log_response(response, /*is_read=*/false);
}

// A duplicate: its response may be lost. It was executed.
void Responder::Impl::replay_confirmation(const wire::Packet& packet, Instant now) {
  if (speaks_bitmap()) ack.force(now);
  if (resources.will_response(packet.bth.psn, 1, mtu)) return drop(DropReason::kDuplicate, packet, now);
  if (just_sent_again(packet.bth.psn, 1, now)) return drop(DropReason::kDuplicate, packet, now);
  if (!resources.room_for_replay()) return drop(DropReason::kHoldFull, packet, now);
  note_rerequested(packet.bth.psn, 1, now);
  confirm(packet, /*replay=*/true);
}

}  // namespace brdma::qp
