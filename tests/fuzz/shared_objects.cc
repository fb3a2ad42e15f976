// Objects shared by queue pairs: a shared receive queue, memory windows; and a peer that uses windows and invalidates
// them, with and without the right.
#include <array>
#include <cerrno>

#include "base/check.h"
#include "fuzz/engine_world.h"

namespace brdma::fuzz {
namespace {

using wire::RcOp;

constexpr std::uint32_t kLimitMax = 4;
constexpr std::uint32_t kRemote = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;

}  // namespace

void EngineWorld::make_shared(bool with_queue) {
  lent_.bytes = initial_;
  const auto begin = reinterpret_cast<std::uintptr_t>(lent_.bytes.data()) + kGuardBytes;
  lent_.handle = engine_->register_memory(pd_, begin, kRegionBytes, kIova, kAccessLocalWrite | kAccessMwBind).value();
  lent_.key = engine_->info(lent_.handle).lkey;
  for (Window& window : windows_) allocate(window);
  if (!with_queue) return;
  SrqAttributes attributes{.wr_max = kWorkRequestsMax, .sge_max = 3};
  srq_ = engine_->create_srq(pd_, attributes, nullptr).value();
}

void EngineWorld::allocate(Window& window) {
  window.type2 = &window == &windows_[1];
  window.handle = engine_->alloc_window(pd_, window.type2).value();
  window.key = engine_->info(window.handle).rkey;
}

void EngineWorld::destroy_shared() {
  for (Window& window : windows_) BRDMA_CHECK(engine_->dealloc_window(window.handle).ok());
  BRDMA_CHECK(engine_->deregister_memory(lent_.handle).ok());  // nothing is bound to it any more
  if (srq_ != nullptr) BRDMA_CHECK(engine_->destroy_srq(srq_).ok());
}

// Posted to, resized, given a limit; never destroyed while a queue pair uses it.
void EngineWorld::use_shared_queue() {
  if (srq_ == nullptr) return post_receive();
  const std::uint8_t how = input_.u8();
  if (how % 8 == 7) {
    BRDMA_CHECK(engine_->destroy_srq(srq_).error() == EBUSY);
    return;
  }
  if (how % 8 >= 5) {
    const SrqAttributes attributes{.wr_max = input_.u8(), .sge_max = 3, .limit = input_.below(kLimitMax + 1)};
    const SrqAttributes before = engine_->query_srq(srq_);
    const Status status = engine_->modify_srq(srq_, attributes, how % 8 == 5 ? kSrqAttrLimit : input_.u8() & 3);
    const SrqAttributes after = engine_->query_srq(srq_);
    BRDMA_CHECK(status.ok() || (after.wr_max == before.wr_max && after.limit == before.limit));
    return;
  }
  std::array<Sge, 3> sges;
  const std::size_t count = input_.below(4);
  for (std::size_t i = 0; i < count; ++i) sges[i] = some_sge();
  const ReceiveRequest request{.wr_id = next_wr_id_++, .sges = std::span{sges}.first(count)};
  const Status status = engine_->post_receive(srq_, request, now_);
  BRDMA_CHECK(status.ok() || status.error() == EINVAL || status.error() == ENOMEM);
  if (status.ok()) shared_receives_.insert(request.wr_id);
  drain();
}

// The application binds, invalidates, and replaces windows. Of the lent region only the first half is ever bound (with
// a window's whole range, or some of it), so the second one never changes.
void EngineWorld::use_window() {
  Connection& connection = pick();
  Window& window = windows_[input_.below(2)];
  const std::uint8_t how = input_.u8();
  if (how % 8 == 7) {
    BRDMA_CHECK(engine_->dealloc_window(window.handle).ok());
    return allocate(window);
  }
  SendRequest request;
  request.wr_id = next_wr_id_++;
  request.flags = input_.u8() & (kSendFence | kSendSignaled);
  if (how % 8 >= 5) {
    request.opcode = WorkOpcode::kLocalInvalidate;
    request.immediate_be = how % 8 == 5 ? window.key : lent_.key;
  } else {
    const std::uint32_t offset = input_.below(kBoundMax);
    request.opcode = WorkOpcode::kBindMw;
    request.rkey = how < 0xF0 ? (window.key & ~0xFFu) | ((window.key + 1) & 0xFF) : window.key + input_.u16();
    request.immediate_be = how % 8 == 4 ? regions_[input_.below(2)].key : lent_.key;  // those cannot be bound to
    request.remote_address = kIova + offset;
    request.compare_or_add = input_.below(kBoundMax - offset + 1);
    request.swap = input_.u8() < 0xE0 ? kRemote | (how & 0x20) : input_.u16();
  }
  const bool renames = request.opcode == WorkOpcode::kBindMw && how < 0xF0;
  const Status status = engine_->post_send(connection.qp, request, now_);
  BRDMA_CHECK(status.ok() || status.error() == EINVAL || status.error() == ENOMEM || status.error() == EOPNOTSUPP);
  if (status.ok()) connection.sends.push_back({request.wr_id, (request.flags & kSendSignaled) != 0});
  if (status.ok() && renames) window.key = request.rkey;
  drain();
}

// The peer, in its turn: through a window, or beyond its end; or a SEND that invalidates one.
void EngineWorld::attack_window() {
  constexpr RcOp kThrough[] = {
      RcOp::kWriteOnly, RcOp::kWriteOnlyImm, RcOp::kReadRequest,        RcOp::kFetchAdd,
      RcOp::kFlush,     RcOp::kAtomicWrite,  RcOp::kSendOnlyInvalidate, RcOp::kSendOnlyInvalidate};
  Connection& connection = pick();
  const Window& window = windows_[input_.below(2)];
  const RcOp op = kThrough[input_.below(std::size(kThrough))];
  wire::Packet packet;
  packet.bth.opcode = wire::opcode_of(op, input_.coin());
  address_to(connection, packet);
  const std::uint8_t how = input_.u8();
  const std::uint32_t offset = input_.u16() % (kRegionBytes + 64), key = window.key - (how >= 0xE0 ? 1 : 0);
  const std::uint32_t payload = op == RcOp::kAtomicWrite ? 8 : input_.below(64);
  packet.reth = {.address = (how & 0x20) != 0 ? offset : kIova + offset, .rkey = key, .length = payload};
  packet.atomic = {.address = packet.reth.address & ~std::uint64_t{7}, .rkey = key, .swap_or_add = 1};
  packet.invalidate_rkey = how % 8 == 7 ? lent_.key : key;
  packet.bth.ack_request = true;
  connection.next_request = connection.next_request + 1;
  ++connection.msn;
  if (wire::is_send(op) || wire::has_immediate(op)) ++connection.rsn;
  send_packet(packet, payload);
}

}  // namespace brdma::fuzz
