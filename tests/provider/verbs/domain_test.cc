// Parent domains, also with allocators, and thread domains; the device's report of on-demand paging; a window that is
// not bound is invalidated.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

TEST(ParentDomain, IsUsedAsItsProtectionDomainIs) {
  Side a = Side::make(), b = Side::make();
  ibv_td_init_attr thread_domain{};
  ibv_td* const td = ibv_alloc_td(a.context.get(), &thread_domain);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr wanted{};
  wanted.pd = a.pd.get();
  wanted.td = td;
  ibv_pd* const parent = ibv_alloc_parent_domain(a.context.get(), &wanted);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(a.pd.get()), EBUSY);
  // A queue pair of it works with a region of the domain that it was made of, and the reverse.
  ibv_qp_init_attr attributes = usual_queue_pair(a.cq.get());
  a.qp.reset(ibv_create_qp(parent, &attributes));
  ASSERT_NE(a.qp, nullptr);
  EXPECT_EQ(a.qp->pd, parent);
  connect(a, b);
  ibv_mr* const mr = ibv_reg_mr(parent, a.memory.data(), a.memory.size(), int{IBV_ACCESS_LOCAL_WRITE});
  ASSERT_NE(mr, nullptr);
  for (const std::uint32_t key : {mr->lkey, a.mr->lkey}) {
    ibv_sge sge = a.sge(0, 100);
    sge.lkey = key;
    ibv_send_wr request = write_request(sge, b);
    ASSERT_EQ(post_send(a, request), 0);
    EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  }
  // The domain of a parent domain is the one that it was made from.
  wanted.pd = parent;
  wanted.td = nullptr;
  ibv_pd* const second = ibv_alloc_parent_domain(a.context.get(), &wanted);
  ASSERT_NE(second, nullptr);
  a.qp.reset();
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  EXPECT_EQ(ibv_dealloc_pd(a.pd.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(second), 0);  // a.pd goes with `a`
}

// Release 65. In a confidential guest some devices reach unprotected memory alone, and say so (kBounces). Any other
// device takes the permission and needs no such memory.
TEST(ParentDomain, MayShareMemoryThatNeedsNoSharing) {
  constexpr std::uint32_t kAllowUnprotected = 1 << 2;         // IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC
  constexpr std::uint64_t kBounces = std::uint64_t{1} << 41;  // IBV_DEVICE_CC_DMA_BOUNCE
  Side side = Side::make();
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(side.context.get(), nullptr, &device), 0);
  EXPECT_EQ(device.device_cap_flags_ex & kBounces, 0u);
  ibv_parent_domain_init_attr wanted{};
  wanted.pd = side.pd.get();
  wanted.comp_mask = kAllowUnprotected;
  ibv_pd* const parent = ibv_alloc_parent_domain(side.context.get(), &wanted);
  ASSERT_NE(parent, nullptr);
  ibv_mr* const mr = ibv_reg_mr(parent, side.memory.data(), side.memory.size(), int{IBV_ACCESS_LOCAL_WRITE});
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

// A program's allocator: it counts, and hands out pieces of one buffer.
struct Allocator {
  static void* allocate(ibv_pd* pd, void* context, std::size_t bytes, std::size_t alignment, std::uint64_t type) {
    auto& self = *static_cast<Allocator*>(context);
    EXPECT_EQ(pd, self.pd);
    EXPECT_EQ(type >> 32, 0u);
    ++self.given;
    if (self.answer != nullptr) return self.answer;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  static void release(ibv_pd* pd, void* context, void* memory, std::uint64_t) {
    auto& self = *static_cast<Allocator*>(context);
    EXPECT_EQ(pd, self.pd);
    ++self.freed;
    if (memory != self.answer) std::free(memory);
  }
  ibv_pd* make_domain(Side& side) {
    ibv_parent_domain_init_attr wanted{};
    wanted.pd = side.pd.get();
    wanted.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    wanted.alloc = &allocate;
    wanted.free = &release;
    wanted.pd_context = this;
    pd = ibv_alloc_parent_domain(side.context.get(), &wanted);
    EXPECT_NE(pd, nullptr);
    return pd;
  }
  ibv_pd* pd = nullptr;
  void* answer = nullptr;  // instead of memory
  int given = 0, freed = 0;
};

TEST(ParentDomain, ItsAllocatorGivesTheMemoryOfItsObjects) {
  Side a = Side::make(), b = Side::make();
  Allocator allocator;
  ibv_pd* const parent = allocator.make_domain(a);
  ibv_cq_init_attr_ex cq_wanted{};
  cq_wanted.cqe = 64;
  cq_wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
  cq_wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  cq_wanted.parent_domain = parent;
  ibv_cq_ex* const cq = ibv_create_cq_ex(a.context.get(), &cq_wanted);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(allocator.given, 1);
  ibv_srq_init_attr srq_wanted{.srq_context = nullptr, .attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0}};
  ibv_srq* const srq = ibv_create_srq(parent, &srq_wanted);
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(allocator.given, 2);
  ibv_qp_init_attr attributes = usual_queue_pair(ibv_cq_ex_to_cq(cq));
  attributes.srq = srq;
  a.qp.reset(ibv_create_qp(parent, &attributes));
  ASSERT_NE(a.qp, nullptr);
  EXPECT_EQ(allocator.given, 3);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  connect(a, b);
  ibv_sge sge = a.sge(0, 100);
  ASSERT_EQ(post_send(a, write_request(sge, b)), 0);
  EXPECT_EQ(wait_completion(ibv_cq_ex_to_cq(cq)).status, IBV_WC_SUCCESS);
  a.qp.reset();
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  EXPECT_EQ(allocator.freed, 3);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

TEST(ParentDomain, ItsAllocatorMayLeaveItToTheLibrary) {
  Side side = Side::make();
  Allocator allocator;
  allocator.answer = IBV_ALLOCATOR_USE_DEFAULT;
  ibv_pd* const parent = allocator.make_domain(side);
  ibv_qp_init_attr attributes = usual_queue_pair(side.cq.get());
  const Owned<ibv_qp> qp(ibv_create_qp(parent, &attributes));
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(allocator.given, 1);
  side.qp.reset(ibv_create_qp(parent, &attributes));
  side.qp.reset();
  EXPECT_EQ(allocator.freed, 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

TEST(ParentDomain, AnAllocatorThatFailsFailsTheCall) {
  Side side = Side::make();
  Allocator allocator;
  alignas(64) static std::array<char, 4096> odd;
  allocator.answer = odd.data() + 1;
  ibv_pd* const parent = allocator.make_domain(side);
  ibv_qp_init_attr attributes = usual_queue_pair(side.cq.get());
  errno = 0;
  EXPECT_EQ(ibv_create_qp(parent, &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(allocator.freed, 1);
  ibv_parent_domain_init_attr wanted{};
  wanted.pd = side.pd.get();
  wanted.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
  wanted.alloc = [](ibv_pd*, void*, std::size_t, std::size_t, std::uint64_t) -> void* { return nullptr; };
  wanted.free = &Allocator::release;
  ibv_pd* const second = ibv_alloc_parent_domain(side.context.get(), &wanted);
  ASSERT_NE(second, nullptr);
  errno = 0;
  EXPECT_EQ(ibv_create_qp(second, &attributes), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(ibv_dealloc_pd(second), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

TEST(ParentDomain, WhatItCannotBeMadeOf) {
  Side side = Side::make();
  const Owned<ibv_context> other = open_first_device();
  const auto refused = [&](int error, auto change) {
    ibv_parent_domain_init_attr wanted{};
    wanted.pd = side.pd.get();
    change(wanted);
    errno = 0;
    return ibv_alloc_parent_domain(side.context.get(), &wanted) == nullptr && errno == error;
  };
  using Attributes = ibv_parent_domain_init_attr;
  EXPECT_TRUE(refused(EINVAL, [](Attributes& wanted) { wanted.pd = nullptr; }));
  EXPECT_TRUE(refused(EINVAL, [](Attributes& wanted) { wanted.comp_mask = 1u << 20; }));
  EXPECT_TRUE(refused(EINVAL, [](Attributes& wanted) { wanted.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS; }))
      << "without functions";
  ibv_pd* const foreign = ibv_alloc_pd(other.get());
  EXPECT_TRUE(refused(EINVAL, [&](Attributes& wanted) { wanted.pd = foreign; }));
  EXPECT_EQ(ibv_dealloc_pd(foreign), 0);
  ibv_td_init_attr unknown{.comp_mask = 1};
  EXPECT_EQ(ibv_alloc_td(side.context.get(), &unknown), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

// Pages that were swapped out come back when they are accessed, as for the program itself.
TEST(OnDemand, IsForEveryTransportAndTrue) {
  Side a = Side::make(), b = Side::make();
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(a.context.get(), nullptr, &device), 0);
  EXPECT_EQ(device.odp_caps.general_caps, std::uint64_t{IBV_ODP_SUPPORT} | IBV_ODP_SUPPORT_IMPLICIT);
  const auto& transports = device.odp_caps.per_transport_caps;
  constexpr std::uint32_t kSends = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  constexpr std::uint32_t kFlush = 1 << 6, kAtomicWrite = 1 << 7;  // IBV_ODP_SUPPORT_..., of later releases
  EXPECT_EQ(transports.rc_odp_caps,
            kSends | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | kFlush | kAtomicWrite);
  EXPECT_EQ(transports.uc_odp_caps, kSends | IBV_ODP_SUPPORT_WRITE);
  EXPECT_EQ(transports.ud_odp_caps, kSends);

  constexpr std::size_t kBytes = 1 << 20;
  void* const pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  const Owned<ibv_mr> mr(
      ibv_reg_mr(b.pd.get(), pages, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND));
  ASSERT_NE(mr, nullptr);
  connect(a, b);
  ibv_qp_attr attributes{};  // programs set it for their queue pairs, too
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND;
  ASSERT_EQ(ibv_modify_qp(b.qp.get(), &attributes, IBV_QP_ACCESS_FLAGS), 0);
  std::memset(a.memory.data(), 0x5A, a.memory.size());
  for (int round = 0; round < 2; ++round) {
    ibv_sge sge = a.sge(0, static_cast<std::uint32_t>(a.memory.size()));
    ibv_send_wr request{};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(pages), .rkey = mr->rkey};
    ASSERT_EQ(post_send(a, request), 0);
    EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(pages, a.memory.data(), a.memory.size()), 0);
    ASSERT_EQ(::madvise(pages, kBytes, MADV_DONTNEED), 0);
  }
  ::munmap(pages, kBytes);
}

TEST(LocalOperation, ThatCannotBeDoneIsAnErrorOfTheQueuePair) {
  Side a = Side::make(), b = Side::make();
  connect(a, b);
  ibv_mw* const mw = ibv_alloc_mw(a.pd.get(), IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  ibv_send_wr invalidate{};
  invalidate.wr_id = 3;
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.send_flags = IBV_SEND_SIGNALED;
  invalidate.invalidate_rkey = mw->rkey;  // it is bound to nothing
  ASSERT_EQ(post_send(a, invalidate), 0);
  const ibv_wc failed = wait_completion(a.cq.get());
  EXPECT_EQ(failed.status, IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(failed.wr_id, 3u);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(a.qp.get(), &attributes, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

}  // namespace
}  // namespace brdma::test
