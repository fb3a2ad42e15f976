// The limits that ibv_query_device() reports are available: as many objects of each kind, work requests, scatter
// entries.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <functional>
#include <vector>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

class ReportedLimits : public testing::Test {
 protected:
  ReportedLimits() : context(open_first_device()), pd(ibv_alloc_pd(context.get())) {
    EXPECT_EQ(ibv_query_device(context.get(), &device), 0);
  }
  // `count` objects can be made, and destroyed again in another order than they were made.
  template <class Object>
  void expect_so_many(int count, const std::function<Object*()>& make, int (*destroy)(Object*)) {
    ASSERT_GT(count, 0);
    std::vector<Object*> made;
    made.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      made.push_back(make());
      ASSERT_NE(made.back(), nullptr) << i << " of " << count << ", errno " << errno;
    }
    for (std::size_t i = 0; i < made.size(); i += 2) ASSERT_EQ(destroy(made[i]), 0) << i;
    for (std::size_t i = made.size(); i-- > 0;) {
      if (i % 2 == 1) {
        ASSERT_EQ(destroy(made[i]), 0) << i;
      }
    }
  }
  Owned<ibv_context> context;
  Owned<ibv_pd> pd;
  ibv_device_attr device{};
};

TEST_F(ReportedLimits, QueuePairs) {
  const Owned<ibv_cq> cq(ibv_create_cq(context.get(), 16, nullptr, nullptr, 0));
  expect_so_many<ibv_qp>(
      device.max_qp,
      [&] {
        ibv_qp_init_attr wanted = usual_queue_pair(cq.get());
        return ibv_create_qp(pd.get(), &wanted);
      },
      ibv_destroy_qp);
}

TEST_F(ReportedLimits, CompletionQueues) {
  expect_so_many<ibv_cq>(
      device.max_cq, [&] { return ibv_create_cq(context.get(), 1, nullptr, nullptr, 0); }, ibv_destroy_cq);
}

TEST_F(ReportedLimits, ProtectionDomains) {
  expect_so_many<ibv_pd>(
      device.max_pd - 1, [&] { return ibv_alloc_pd(context.get()); }, ibv_dealloc_pd);  // one is there
}

TEST_F(ReportedLimits, MemoryRegions) {
  std::array<std::uint8_t, 64> bytes{};
  expect_so_many<ibv_mr>(
      device.max_mr, [&] { return ibv_reg_mr(pd.get(), bytes.data(), bytes.size(), int{IBV_ACCESS_LOCAL_WRITE}); },
      ibv_dereg_mr);
}

TEST_F(ReportedLimits, MemoryWindows) {
  expect_so_many<ibv_mw>(
      device.max_mw, [&] { return ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2); }, ibv_dealloc_mw);
}

TEST_F(ReportedLimits, AddressHandles) {
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = 1;
  ASSERT_EQ(ibv_query_gid(context.get(), 1, 0, &attributes.grh.dgid), 0);
  expect_so_many<ibv_ah>(
      device.max_ah, [&] { return ibv_create_ah(pd.get(), &attributes); }, ibv_destroy_ah);
}

TEST_F(ReportedLimits, SharedReceiveQueues) {
  ibv_srq_init_attr wanted{};
  wanted.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  expect_so_many<ibv_srq>(
      device.max_srq, [&] { return ibv_create_srq(pd.get(), &wanted); }, ibv_destroy_srq);
}

ibv_gid group(int number) {
  const auto low = static_cast<std::uint8_t>(number), high = static_cast<std::uint8_t>(number >> 8);
  return {.raw = {0xFF, 0x0E, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 239, 7, high, low}};
}

TEST_F(ReportedLimits, MulticastGroups) {
  const Owned<ibv_cq> cq(ibv_create_cq(context.get(), 16, nullptr, nullptr, 0));
  ibv_qp_init_attr wanted = usual_queue_pair(cq.get());
  wanted.qp_type = IBV_QPT_UD;
  std::vector<Owned<ibv_qp>> qps;
  for (int i = 0; i < device.max_mcast_qp_attach; ++i) qps.emplace_back(ibv_create_qp(pd.get(), &wanted));
  for (int i = 0; i < device.max_mcast_grp; ++i) {
    const ibv_gid gid = group(i);
    ASSERT_EQ(ibv_attach_mcast(qps[0].get(), &gid, 0), 0) << i << " of " << device.max_mcast_grp;
  }
  const ibv_gid beyond = group(device.max_mcast_grp), first = group(0);
  EXPECT_EQ(ibv_attach_mcast(qps[0].get(), &beyond, 0), ENOMEM);
  EXPECT_EQ(ibv_attach_mcast(qps[0].get(), &first, 0), 0);  // it is a member
  int attached = device.max_mcast_grp;
  for (std::size_t i = 1; i < qps.size(); ++i) {
    ASSERT_EQ(ibv_attach_mcast(qps[i].get(), &first, 0), 0) << i;
    ++attached;
  }
  // As many in all as reported.
  for (int i = 0; attached < device.max_total_mcast_qp_attach; ++i, ++attached) {
    const ibv_gid gid = group(1 + i / (device.max_mcast_qp_attach - 1));
    const auto member = static_cast<std::size_t>(1 + i % (device.max_mcast_qp_attach - 1));
    ASSERT_EQ(ibv_attach_mcast(qps[member].get(), &gid, 0), 0) << attached;
  }
  // Leaving makes room again.
  for (const auto& qp : qps) {
    for (int i = 0; i < device.max_mcast_grp; ++i) {
      const ibv_gid gid = group(i);
      (void)ibv_detach_mcast(qp.get(), &gid, 0);
    }
  }
  ASSERT_EQ(ibv_attach_mcast(qps[0].get(), &beyond, 0), 0);
  ASSERT_EQ(ibv_detach_mcast(qps[0].get(), &beyond, 0), 0);
}

// For one queue pair: posted, and pending until a receive is posted.
TEST_F(ReportedLimits, WorkRequestsAndScatterEntries) {
  Side a = Side::make(), b = Side::make();
  const auto requests = static_cast<std::uint32_t>(device.max_qp_wr), sges = static_cast<std::uint32_t>(device.max_sge);
  for (Side* side : {&a, &b}) {
    side->qp.reset();
    side->cq.reset(ibv_create_cq(side->context.get(), device.max_cqe, nullptr, nullptr, 0));
    ASSERT_NE(side->cq, nullptr);
    ibv_qp_init_attr wanted = usual_queue_pair(side->cq.get());
    wanted.cap.max_send_wr = wanted.cap.max_recv_wr = requests;
    wanted.cap.max_send_sge = wanted.cap.max_recv_sge = sges;
    side->qp.reset(ibv_create_qp(side->pd.get(), &wanted));
    ASSERT_NE(side->qp, nullptr);
  }
  connect(a, b);
  std::vector<ibv_sge> list;
  for (std::uint32_t i = 0; i < sges; ++i) list.push_back(a.sge(i * 8, 1));
  ibv_send_wr send{};
  send.sg_list = list.data();
  send.num_sge = static_cast<int>(sges);
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  for (std::uint32_t i = 0; i < requests; ++i) ASSERT_EQ(post_send(a, send), 0) << i;
  EXPECT_EQ(post_send(a, send), ENOMEM);
  std::vector<ibv_sge> into;
  for (std::uint32_t i = 0; i < sges; ++i) into.push_back(b.sge(i * 8, 1));
  ibv_recv_wr receive{.wr_id = 0, .next = nullptr, .sg_list = into.data(), .num_sge = static_cast<int>(sges)};
  ibv_recv_wr* bad = nullptr;
  for (std::uint32_t i = 0; i < requests; ++i) ASSERT_EQ(ibv_post_recv(b.qp.get(), &receive, &bad), 0) << i;
  for (std::uint32_t i = 0; i < requests; ++i) {
    ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS) << i;
    ASSERT_EQ(wait_completion(b.cq.get()).byte_len, sges) << i;
  }
}

TEST_F(ReportedLimits, ReceivesOfASharedQueue) {
  Side side = Side::make();
  ibv_srq_init_attr wanted{};
  wanted.attr = {.max_wr = static_cast<std::uint32_t>(device.max_srq_wr),
                 .max_sge = static_cast<std::uint32_t>(device.max_srq_sge),
                 .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(side.pd.get(), &wanted);
  ASSERT_NE(srq, nullptr);
  std::vector<ibv_sge> list(static_cast<std::size_t>(device.max_srq_sge), side.sge(0, 8));
  ibv_recv_wr receive{.wr_id = 0, .next = nullptr, .sg_list = list.data(), .num_sge = device.max_srq_sge};
  ibv_recv_wr* bad = nullptr;
  for (int i = 0; i < device.max_srq_wr; ++i) ASSERT_EQ(ibv_post_srq_recv(srq, &receive, &bad), 0) << i;
  EXPECT_EQ(ibv_post_srq_recv(srq, &receive, &bad), ENOMEM);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

}  // namespace
}  // namespace brdma::test
