// Memory through the real libibverbs: regions registered again, hints, limits of locked memory; windows of both types.
#include <gmock/gmock.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr int kEverything = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                            IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

// b's memory is accessed by a.
class Memory : public testing::Test {
 protected:
  Memory() : a(Side::make()), b(Side::make()) { connect(a, b); }
  ibv_wc_status write_to(std::uint64_t address, std::uint32_t rkey, std::uint32_t bytes = 16) {
    ibv_sge sge = a.sge(0, bytes);
    ibv_send_wr request{};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma = {.remote_addr = address, .rkey = rkey};
    EXPECT_EQ(post_send(a, request), 0);
    return wait_completion(a.cq.get()).status;
  }
  std::uint64_t at(std::size_t offset) const { return reinterpret_cast<std::uintptr_t>(b.memory.data()) + offset; }
  Owned<ibv_mr> region(int access) {
    return Owned<ibv_mr>(ibv_reg_mr(b.pd.get(), b.memory.data(), b.memory.size(), access));
  }
  Side a, b;
};

TEST_F(Memory, IsRegisteredAgainUnderTheSameKeys) {
  Owned<ibv_mr> mr = region(IBV_ACCESS_LOCAL_WRITE);
  const std::uint32_t rkey = mr->rkey;
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kEverything), 0);
  EXPECT_EQ(mr->rkey, rkey);
  EXPECT_EQ(write_to(at(100), rkey), IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, b.memory.data() + 4096, 4096, 0), 0);
  EXPECT_EQ(mr->addr, b.memory.data() + 4096);
  EXPECT_EQ(mr->length, 4096u);
  EXPECT_EQ(write_to(at(4096), rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(write_to(at(100), rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Memory, AnotherDomainIsAnotherDomain) {
  Owned<ibv_mr> mr = region(kEverything);
  Owned<ibv_pd> other(ibv_alloc_pd(b.context.get()));
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_PD, other.get(), nullptr, 0, 0), 0);
  EXPECT_EQ(write_to(at(100), mr->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_pd(other.get()), EBUSY);
  mr.reset();
}

TEST_F(Memory, AWrongChangeChangesNothing) {
  Owned<ibv_mr> mr = region(kEverything);
  EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE), 0);
  EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, reinterpret_cast<void*>(4096), 4096, 0),
            0);
  EXPECT_NE(ibv_rereg_mr(mr.get(), 0, nullptr, nullptr, 0, 0), 0);
  EXPECT_EQ(write_to(at(100), mr->rkey), IBV_WC_SUCCESS);
}

TEST_F(Memory, HintsAreTaken) {
  for (const int hint : {int{IBV_ACCESS_ON_DEMAND}, int{IBV_ACCESS_RELAXED_ORDERING}, int{IBV_ACCESS_HUGETLB}}) {
    Owned<ibv_mr> mr = region(kEverything | hint);
    ASSERT_NE(mr, nullptr) << hint;
    EXPECT_EQ(write_to(at(100), mr->rkey), IBV_WC_SUCCESS);
  }
  Owned<ibv_mr> based(ibv_reg_mr_iova2(b.pd.get(), b.memory.data(), 4096, 1 << 20, kEverything));
  ASSERT_NE(based, nullptr);
  EXPECT_EQ(write_to((1 << 20) + 4080, based->rkey), IBV_WC_SUCCESS);
  Owned<ibv_mr> zero(ibv_reg_mr(b.pd.get(), b.memory.data(), 4096, kEverything | IBV_ACCESS_ZERO_BASED));
  ASSERT_NE(zero, nullptr);
  EXPECT_EQ(write_to(0, zero->rkey), IBV_WC_SUCCESS);
}

// Nothing is locked.
TEST_F(Memory, TheLimitOfLockedMemoryIsOfNoMatter) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &none), 0);
  constexpr std::size_t kBytes = 256 << 20;
  void* const large = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(large, MAP_FAILED);
  Owned<ibv_mr> mr(ibv_reg_mr(b.pd.get(), large, kBytes, kEverything));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(write_to(reinterpret_cast<std::uintptr_t>(large) + kBytes - 16, mr->rkey), IBV_WC_SUCCESS);
  mr.reset();
  munmap(large, kBytes);
  setrlimit(RLIMIT_MEMLOCK, &before);
}

class Windows : public Memory {
 protected:
  Windows() : lender(region(kEverything)) {}
  ibv_mw_bind_info range(std::uint64_t length = 4096, unsigned access = IBV_ACCESS_REMOTE_WRITE) {
    return {.mr = lender.get(), .addr = at(4096), .length = length, .mw_access_flags = access};
  }
  ibv_wc post_to_b(ibv_send_wr request) {
    request.wr_id = 77;
    request.send_flags = IBV_SEND_SIGNALED;
    EXPECT_EQ(post_send(b, request), 0);
    return wait_completion(b.cq.get());
  }
  void bind_type2(ibv_mw* mw) {
    ibv_send_wr request{};
    request.opcode = IBV_WR_BIND_MW;
    mw->rkey = ibv_inc_rkey(mw->rkey);
    request.bind_mw = {.mw = mw, .rkey = mw->rkey, .bind_info = range()};
    const ibv_wc done = post_to_b(request);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS) << ibv_wc_status_str(done.status);
    EXPECT_EQ(done.opcode, IBV_WC_BIND_MW);
    EXPECT_EQ(done.wr_id, 77u);
  }
  Owned<ibv_mr> lender;
};

TEST_F(Windows, OfType1AreBoundByTheirVerb) {
  ibv_mw* const mw = ibv_alloc_mw(b.pd.get(), IBV_MW_TYPE_1);
  ASSERT_NE(mw, nullptr);
  EXPECT_EQ(mw->type, IBV_MW_TYPE_1);
  ibv_mw_bind bind{.wr_id = 5, .send_flags = IBV_SEND_SIGNALED, .bind_info = range()};
  ASSERT_EQ(ibv_bind_mw(b.qp.get(), mw, &bind), 0);
  const ibv_wc done = wait_completion(b.cq.get());
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(done.wr_id, 5u);
  EXPECT_EQ(ibv_dereg_mr(lender.get()), EBUSY);
  EXPECT_EQ(write_to(at(4096 + 4080), mw->rkey), IBV_WC_SUCCESS);
  const std::uint32_t old = mw->rkey;
  bind.bind_info = {.mr = nullptr, .addr = 0, .length = 0, .mw_access_flags = 0};  // to nothing
  ASSERT_EQ(ibv_bind_mw(b.qp.get(), mw, &bind), 0);
  EXPECT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(write_to(at(4096), old), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Windows, OfType2AreBoundPosted) {
  ibv_mw* const mw = ibv_alloc_mw(b.pd.get(), IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  bind_type2(mw);
  EXPECT_EQ(write_to(at(4096), mw->rkey), IBV_WC_SUCCESS);
  ibv_send_wr invalidate{};
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.invalidate_rkey = mw->rkey;
  const ibv_wc done = post_to_b(invalidate);
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, IBV_WC_LOCAL_INV);
  bind_type2(mw);
  EXPECT_EQ(write_to(at(4096 + 4081), mw->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Windows, AreInvalidatedByThePeer) {
  ibv_mw* const mw = ibv_alloc_mw(b.pd.get(), IBV_MW_TYPE_2);
  bind_type2(mw);
  ASSERT_EQ(post_receive(b, 9, 0, 64), 0);
  ibv_sge sge = a.sge(0, 64);
  ibv_send_wr send{};
  send.sg_list = &sge;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND_WITH_INV;
  send.invalidate_rkey = mw->rkey;
  send.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(post_send(a, send), 0);
  const ibv_wc received = wait_completion(b.cq.get());
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.wc_flags, static_cast<unsigned>(IBV_WC_WITH_INV));
  EXPECT_EQ(received.invalidated_rkey, mw->rkey);
  EXPECT_EQ(wait_completion(a.cq.get()).opcode, IBV_WC_SEND);
  EXPECT_EQ(write_to(at(4096), mw->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Windows, AWrongBindingCompletesWithItsError) {
  ibv_mw* const mw = ibv_alloc_mw(b.pd.get(), IBV_MW_TYPE_2);
  ibv_send_wr request{};
  request.opcode = IBV_WR_BIND_MW;
  request.bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = range(b.memory.size())};
  EXPECT_EQ(post_to_b(request).status, IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Windows, KeepTheirDomain) {
  Owned<ibv_pd> pd(ibv_alloc_pd(b.context.get()));
  ibv_mw* const mw = ibv_alloc_mw(pd.get(), IBV_MW_TYPE_1);
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

// Bound, used and invalidated by ibv_wr_* functions.
TEST_F(Windows, ByTheFunctionsOfTheExtendedVerb) {
  Side c = Side::make();
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = c.cq.get();
  wanted.cap = {8, 8, 1, 1, 0};
  wanted.qp_type = IBV_QPT_RC;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.pd = c.pd.get();
  wanted.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV;
  c.qp.reset(ibv_create_qp_ex(c.context.get(), &wanted));
  ASSERT_NE(c.qp, nullptr);
  Side d = Side::make();
  connect(c, d);
  Owned<ibv_mr> mr(ibv_reg_mr(c.pd.get(), c.memory.data(), c.memory.size(), kEverything));
  ibv_mw* const mw = ibv_alloc_mw(c.pd.get(), IBV_MW_TYPE_2);
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(c.qp.get());
  ibv_mw_bind_info info{.mr = mr.get(),
                        .addr = reinterpret_cast<std::uintptr_t>(c.memory.data()),
                        .length = 64,
                        .mw_access_flags = IBV_ACCESS_REMOTE_READ};
  ibv_wr_start(qp);
  qp->wr_id = 1;
  qp->wr_flags = IBV_SEND_SIGNALED;
  mw->rkey = ibv_inc_rkey(mw->rkey);
  ibv_wr_bind_mw(qp, mw, mw->rkey, &info);
  qp->wr_id = 2;
  ibv_wr_local_inv(qp, mw->rkey);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  for (const auto& [id, opcode] : {std::pair{1u, IBV_WC_BIND_MW}, std::pair{2u, IBV_WC_LOCAL_INV}}) {
    const ibv_wc done = wait_completion(c.cq.get());
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(done.opcode, opcode);
    EXPECT_EQ(done.wr_id, id);
  }
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

}  // namespace
}  // namespace brdma::test
