#include "work_requests/wr_functions.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include "verbs/verbs.h"
#include "work_requests/work_builder.h"

namespace brdma::provider {
namespace {

constexpr std::uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr std::uint64_t kWrites = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
constexpr std::uint64_t kAnswered =
    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

constexpr std::uint64_t kWindows = IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;

WorkBuilder& builder(ibv_qp_ex* qp) { return *object_of(&qp->qp_base).builder; }

SendRequest& begin(ibv_qp_ex* qp, std::uint64_t operation, WorkOpcode opcode) {
  return builder(qp).begin(operation, opcode, qp->wr_id, qp->wr_flags);
}

void refuse(ibv_qp_ex* qp) { builder(qp).refuse(EINVAL); }

void atomic(ibv_qp_ex* qp, std::uint64_t operation, WorkOpcode opcode, std::uint32_t rkey, std::uint64_t address,
            std::uint64_t compare_or_add, std::uint64_t swap) {
  SendRequest& request = begin(qp, operation, opcode);
  request.rkey = rkey;
  request.remote_address = address;
  request.compare_or_add = compare_or_add;
  request.swap = swap;
}

SendRequest& remote(ibv_qp_ex* qp, std::uint64_t operation, WorkOpcode opcode, std::uint32_t rkey,
                    std::uint64_t address) {
  SendRequest& request = begin(qp, operation, opcode);
  request.rkey = rkey;
  request.remote_address = address;
  return request;
}

extern "C" {

void wr_start(ibv_qp_ex* qp) {
  if (is_abandoned(qp->qp_base.context)) [[unlikely]]
    return builder(qp).refuse(EIO);
  builder(qp).start();
}

int wr_complete(ibv_qp_ex* qp) {
  if (is_abandoned(qp->qp_base.context)) [[unlikely]] {
    complain_of_abandoned();
    return EIO;
  }
  WorkBuilder& work = builder(qp);
  int error = work.error();
  if (error == 0) {
    const QueuePairObject& object = object_of(&qp->qp_base);
    error = object.context->post_send_all(object.engine, work.take()).error();
  }
  work.finish();
  return error;
}

void wr_abort(ibv_qp_ex* qp) {
  if (!is_abandoned(qp->qp_base.context)) [[likely]]
    builder(qp).finish();
}

void wr_send(ibv_qp_ex* qp) { begin(qp, IBV_QP_EX_WITH_SEND, WorkOpcode::kSend); }

void wr_send_imm(ibv_qp_ex* qp, __be32 immediate) {
  begin(qp, IBV_QP_EX_WITH_SEND_WITH_IMM, WorkOpcode::kSendWithImm).immediate_be = immediate;
}

void wr_send_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
  begin(qp, IBV_QP_EX_WITH_SEND_WITH_INV, WorkOpcode::kSendWithInvalidate).immediate_be = rkey;
}

void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
  remote(qp, IBV_QP_EX_WITH_RDMA_WRITE, WorkOpcode::kRdmaWrite, rkey, address);
}

void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, __be32 immediate) {
  remote(qp, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, WorkOpcode::kRdmaWriteWithImm, rkey, address).immediate_be = immediate;
}

void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
  remote(qp, IBV_QP_EX_WITH_RDMA_READ, WorkOpcode::kRdmaRead, rkey, address);
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t compare,
                       std::uint64_t swap) {
  atomic(qp, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, WorkOpcode::kAtomicCmpSwap, rkey, address, compare, swap);
}

void wr_atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t add) {
  atomic(qp, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, WorkOpcode::kAtomicFetchAdd, rkey, address, add, 0);
}

void wr_bind_mw(ibv_qp_ex* qp, ibv_mw*, std::uint32_t rkey, const ibv_mw_bind_info* info) {
  verbs::describe_binding(rkey, *info, begin(qp, IBV_QP_EX_WITH_BIND_MW, WorkOpcode::kBindMw));
}

void wr_local_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
  begin(qp, IBV_QP_EX_WITH_LOCAL_INV, WorkOpcode::kLocalInvalidate).immediate_be = rkey;
}

void wr_atomic_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, const void* word) {
  remote(qp, abi::kQpExWithAtomicWrite, WorkOpcode::kAtomicWrite, rkey, address);
  const ibv_data_buf piece{.addr = const_cast<void*>(word), .length = sizeof(std::uint64_t)};
  builder(qp).set_inline({&piece, 1});
}

void wr_flush(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::size_t length, std::uint8_t placement,
              std::uint8_t selectivity) {
  SendRequest& request = remote(qp, abi::kQpExWithFlush, WorkOpcode::kFlush, rkey, address);
  request.compare_or_add = length;
  request.swap = placement | std::uint64_t{selectivity} << 8;
}

// Operations that no queue pair of ours has: ibv_create_qp_ex() refuses them already, and these refuse a call all the
// same.
void wr_send_tso(ibv_qp_ex* qp, void*, std::uint16_t, std::uint16_t) { refuse(qp); }

void wr_set_xrc_srqn(ibv_qp_ex* qp, std::uint32_t number) {
  qp->qp_base.qp_type == IBV_QPT_XRC_SEND ? builder(qp).set_shared_queue(number) : refuse(qp);
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t remote_qpn, std::uint32_t remote_qkey) {
  builder(qp).set_destination(object_of(ah).address, remote_qpn, remote_qkey);
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) {
  const Sge sge{.address = address, .length = length, .lkey = lkey};
  builder(qp).set_sges({&sge, 1});
}

void wr_set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) {
  builder(qp).set_sges({reinterpret_cast<const Sge*>(list), count});
}

void wr_set_inline_data(ibv_qp_ex* qp, void* address, std::size_t length) {
  const ibv_data_buf piece{.addr = address, .length = length};
  builder(qp).set_inline({&piece, 1});
}

void wr_set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) {
  builder(qp).set_inline({list, count});
}

}  // extern "C"

// Functions that the loaded library may lack.
bool has(const abi::Layout& layout, std::size_t offset) { return layout.qp_comp_mask > offset; }

template <class Function>
void set_later(QueuePairObject& qp, const abi::Layout& layout, std::size_t offset, Function* function) {
  if (!has(layout, offset)) return;
  std::memcpy(qp.core.reserve + offset, &function, sizeof function);
}

}  // namespace

std::uint64_t wr_operations(QpType type, const abi::Layout& layout) {
  const std::uint64_t later = (has(layout, abi::kQpExAtomicWrite) ? abi::kQpExWithAtomicWrite : 0) |
                              (has(layout, abi::kQpExFlush) ? abi::kQpExWithFlush : 0);
  if (type == QpType::kUd) return kSends;
  return type == QpType::kUc ? kSends | kWrites : kSends | kWrites | kAnswered | kWindows | later;
}

void add_wr_functions(QueuePairObject& qp, const abi::Layout& layout, const QpCapabilities& limits,
                      std::uint64_t operations) {
  qp.builder = std::make_unique<WorkBuilder>(limits, operations);
  std::memcpy(qp.core.reserve + layout.qp_comp_mask, &abi::kVerbsQpEx, sizeof abi::kVerbsQpEx);
  ibv_qp_ex& ex = qp.core.qp_ex;
  ex.wr_start = wr_start;
  ex.wr_complete = wr_complete;
  ex.wr_abort = wr_abort;
  ex.wr_send = wr_send;
  ex.wr_send_imm = wr_send_imm;
  ex.wr_send_inv = wr_send_inv;
  ex.wr_send_tso = wr_send_tso;
  ex.wr_rdma_write = wr_rdma_write;
  ex.wr_rdma_write_imm = wr_rdma_write_imm;
  ex.wr_rdma_read = wr_rdma_read;
  ex.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  ex.wr_atomic_fetch_add = wr_atomic_fetch_add;
  ex.wr_bind_mw = wr_bind_mw;
  ex.wr_local_inv = wr_local_inv;
  ex.wr_set_ud_addr = wr_set_ud_addr;
  ex.wr_set_xrc_srqn = wr_set_xrc_srqn;
  ex.wr_set_inline_data = wr_set_inline_data;
  ex.wr_set_inline_data_list = wr_set_inline_data_list;
  ex.wr_set_sge = wr_set_sge;
  ex.wr_set_sge_list = wr_set_sge_list;
  set_later(qp, layout, abi::kQpExAtomicWrite, wr_atomic_write);
  set_later(qp, layout, abi::kQpExFlush, wr_flush);
}

}  // namespace brdma::provider
