// ATOMIC WRITE and FLUSH through the real libibverbs: posted in each possible way, granted and refused, and the
// device's report of them.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

// Of later releases than some that this is built with.
constexpr std::uint64_t kWithFlush = 1u << 11, kWithAtomicWrite = 1u << 12;
constexpr auto kWrAtomicWrite = static_cast<ibv_wr_opcode>(15);
constexpr auto kWcFlush = static_cast<ibv_wc_opcode>(8), kWcAtomicWrite = static_cast<ibv_wc_opcode>(9);
constexpr int kAccessFlushGlobal = 1 << 8, kAccessFlushPersistent = 1 << 9;
constexpr std::size_t kAtomicWriteSlot = 344, kFlushSlot = 352;  // in ibv_qp_ex

template <class Function>
Function* slot(ibv_qp_ex* qp, std::size_t offset) {
  Function* function = nullptr;
  std::memcpy(&function, reinterpret_cast<std::byte*>(qp) + offset, sizeof function);
  return function;
}
using AtomicWriteFunction = void(ibv_qp_ex*, std::uint32_t, std::uint64_t, const void*);
using FlushFunction = void(ibv_qp_ex*, std::uint32_t, std::uint64_t, std::size_t, std::uint8_t, std::uint8_t);

ibv_qp* make_extended(const Side& side, std::uint64_t operations) {
  const ibv_qp_init_attr usual = usual_queue_pair(side.cq.get());
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = usual.send_cq;
  wanted.recv_cq = usual.recv_cq;
  wanted.cap = usual.cap;
  wanted.cap.max_inline_data = 0;
  wanted.qp_type = usual.qp_type;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.pd = side.pd.get();
  wanted.send_ops_flags = operations;
  ibv_qp* qp = ibv_create_qp_ex(side.context.get(), &wanted);
  if (qp != nullptr) {
    EXPECT_GE(wanted.cap.max_inline_data, sizeof(std::uint64_t));
  }
  return qp;
}

class ConfirmedRequests : public testing::Test {
 protected:
  ConfirmedRequests() : a(Side::make()), b(Side::make()) {
    b.mr.reset(ibv_reg_mr(b.pd.get(), b.memory.data(), b.memory.size(),
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | kAccessFlushGlobal));
    EXPECT_NE(b.mr, nullptr);
  }
  // Whether there is a queue pair with these operations; then it is connected.
  bool use(std::uint64_t operations) {
    ibv_qp* const made = make_extended(a, operations);
    if (made == nullptr) return false;
    a.qp.reset(made);
    connect(a, b);
    allow_flush();
    qp = ibv_qp_to_qp_ex(made);
    qp->wr_flags = IBV_SEND_SIGNALED;
    return true;
  }
  // Allowed with the other rights: a queue pair's may be changed while it works.
  void allow_flush(int placements = kAccessFlushGlobal) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | placements;
    ASSERT_EQ(ibv_modify_qp(b.qp.get(), &attributes, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), 0);
  }
  [[nodiscard]] std::uint64_t target(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(b.memory.data()) + offset;
  }
  [[nodiscard]] std::uint64_t word(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, b.memory.data() + offset, sizeof value);
    return value;
  }
  void expect_done(ibv_wc_opcode opcode, ibv_wc_status status = IBV_WC_SUCCESS) {
    const ibv_wc completion = wait_completion(a.cq.get());
    EXPECT_EQ(completion.status, status) << ibv_wc_status_str(completion.status);
    if (status == IBV_WC_SUCCESS) {
      EXPECT_EQ(completion.opcode, opcode);
    }
  }
  Side a, b;
  ibv_qp_ex* qp = nullptr;
};

TEST_F(ConfirmedRequests, TheDeviceSaysWhatItDoes) {
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(a.context.get(), nullptr, &attributes), 0);
  constexpr std::uint64_t kFlushGlobal = std::uint64_t{1} << 38, kFlushPersistent = std::uint64_t{1} << 39,
                          kAtomicWrite = std::uint64_t{1} << 40;
  EXPECT_NE(attributes.device_cap_flags_ex & kAtomicWrite, 0u);
  EXPECT_NE(attributes.device_cap_flags_ex & kFlushGlobal, 0u);
  EXPECT_EQ(attributes.device_cap_flags_ex & kFlushPersistent, 0u);
  EXPECT_EQ(ibv_reg_mr(a.pd.get(), a.memory.data(), 64, kAccessFlushPersistent), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(ConfirmedRequests, AtomicWriteByItsFunction) {
  if (!use(kWithAtomicWrite | IBV_QP_EX_WITH_RDMA_WRITE)) {
    EXPECT_EQ(errno, EOPNOTSUPP);
    GTEST_SKIP() << "this libibverbs has no ibv_wr_atomic_write()";
  }
  auto* const atomic_write = slot<AtomicWriteFunction>(qp, kAtomicWriteSlot);
  std::uint64_t value = 0x1122334455667788;
  ibv_wr_start(qp);
  atomic_write(qp, b.mr->rkey, target(16), &value);
  value = 7;  // it was copied
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  expect_done(kWcAtomicWrite);
  EXPECT_EQ(word(16), 0x1122334455667788u);
  ibv_wr_start(qp);
  atomic_write(qp, b.mr->rkey, target(4), &value);  // not aligned
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  ibv_wr_start(qp);
  atomic_write(qp, b.mr->rkey ^ 1, target(), &value);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  expect_done(kWcAtomicWrite, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ConfirmedRequests, AtomicWriteByPostSend) {
  connect(a, b);
  std::uint64_t value = 0xAABBCCDD00112233;
  std::memcpy(a.memory.data() + 8, &value, sizeof value);
  ibv_sge sge = a.sge(8, 8);
  ibv_send_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = kWrAtomicWrite;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {.remote_addr = target(64), .rkey = b.mr->rkey};
  ASSERT_EQ(post_send(a, request), 0);
  expect_done(kWcAtomicWrite);
  EXPECT_EQ(word(64), value);
  sge = {.addr = reinterpret_cast<std::uintptr_t>(&value), .length = 8, .lkey = 0};
  value = 5;
  request.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(post_send(a, request), 0);
  expect_done(kWcAtomicWrite);
  EXPECT_EQ(word(64), 5u);
  sge.length = 4;
  EXPECT_EQ(post_send(a, request), EINVAL);
  request.opcode = static_cast<ibv_wr_opcode>(14);  // FLUSH has a function only
  EXPECT_EQ(post_send(a, request), EINVAL);
}

TEST_F(ConfirmedRequests, FlushByItsFunction) {
  if (!use(kWithFlush | IBV_QP_EX_WITH_RDMA_WRITE)) {
    EXPECT_EQ(errno, EOPNOTSUPP);
    GTEST_SKIP() << "this libibverbs has no ibv_wr_flush()";
  }
  constexpr std::uint8_t kGlobal = 1, kPersistent = 2, kRange = 0, kRegion = 1;
  auto* const flush = slot<FlushFunction>(qp, kFlushSlot);
  ibv_wr_start(qp);
  ibv_wr_rdma_write(qp, b.mr->rkey, target());
  ibv_wr_set_sge(qp, a.mr->lkey, reinterpret_cast<std::uintptr_t>(a.memory.data()), 5000);
  flush(qp, b.mr->rkey, target(), 5000, kGlobal, kRange);
  flush(qp, b.mr->rkey, 0, 0, kGlobal, kRegion);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  expect_done(IBV_WC_RDMA_WRITE);
  expect_done(kWcFlush);
  expect_done(kWcFlush);
  ibv_wr_start(qp);
  flush(qp, b.mr->rkey, target(), 1, 0, kRange);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  ibv_wr_start(qp);
  flush(qp, b.mr->rkey, target(), 1, kPersistent, kRange);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  expect_done(kWcFlush, IBV_WC_REM_INV_REQ_ERR);
}

// A queue pair may have the right, as rdma-core's tests give it on any device; no region has.
TEST_F(ConfirmedRequests, FlushOfPersistentMemoryIsTheRegionsToRefuse) {
  const bool flushes = use(kWithFlush);
  if (!flushes) connect(a, b);
  allow_flush(kAccessFlushGlobal | kAccessFlushPersistent);
  if (!flushes) GTEST_SKIP() << "this libibverbs has no ibv_wr_flush()";
  constexpr std::uint8_t kPersistent = 2, kRange = 0;
  ibv_wr_start(qp);
  slot<FlushFunction>(qp, kFlushSlot)(qp, b.mr->rkey, target(), 1, kPersistent, kRange);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  expect_done(kWcFlush, IBV_WC_REM_ACCESS_ERR);
}

}  // namespace
}  // namespace brdma::test
