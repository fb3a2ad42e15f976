// Verbs through the real libibverbs: objects, attributes, moves of queue pairs, errors as the manual names them.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "io/test_network.h"
#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

TEST(Device, IsFoundByEachCallAndStaysTheSame) {
  int count = 0;
  ibv_device** first = ibv_get_device_list(&count);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(ibv_get_device_name(first[0]), std::string("brdma_") + test_interface());
  EXPECT_NE(ibv_get_device_guid(first[0]), 0u);
  ibv_device** second = ibv_get_device_list(&count);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(first[0], second[0]);
  ibv_free_device_list(first);
  ibv_free_device_list(second);
}

// Number of used entries.
int gid_count(ibv_context* context) {
  ibv_gid_entry entries[16];
  return static_cast<int>(ibv_query_gid_table(context, entries, 16, 0));
}

TEST(Device, FollowsTheAddressesOfItsInterface) {
  const auto context = open_first_device();
  ibv_device* const device = context->device;
  const int before = gid_count(context.get());
  const std::string address = std::string("10.1.2.3/32 dev ") + test_interface();
  ASSERT_EQ(std::system(("ip address add " + address).c_str()), 0);
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);  // looks again
  ASSERT_EQ(count, 1);
  EXPECT_EQ(list[0], device);
  ibv_free_device_list(list);
  ibv_gid_entry entries[8];
  ASSERT_EQ(ibv_query_gid_table(context.get(), entries, 8, 0), before + 1);
  const std::array<std::uint8_t, 16> expected{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 1, 2, 3};
  bool found = false;
  for (int i = 0; i <= before; ++i) {
    EXPECT_EQ(entries[i].gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_ROCE_V2));
    found |= std::memcmp(entries[i].gid.raw, expected.data(), expected.size()) == 0;
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(std::system(("ip address del " + address).c_str()), 0);
}

TEST(Device, MaxQpIsTheLimitInForce) {
  setenv("BRDMA_QPS_MAX", "3", 1);
  const auto context = open_first_device();
  unsetenv("BRDMA_QPS_MAX");
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(context.get(), &attributes), 0);
  EXPECT_EQ(attributes.max_qp, 3);
  ibv_pd* const pd = ibv_alloc_pd(context.get());
  ibv_cq* const cq = ibv_create_cq(context.get(), 16, nullptr, nullptr, 0);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {1, 1, 1, 1, 0};
  std::vector<ibv_qp*> made;
  for (int i = 0; i < attributes.max_qp; ++i) {
    made.push_back(ibv_create_qp(pd, &wanted));
    ASSERT_NE(made.back(), nullptr);
  }
  EXPECT_EQ(ibv_create_qp(pd, &wanted), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  for (ibv_qp* qp : made) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST(Device, AttributesAreSane) {
  const auto context = open_first_device();
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(context.get(), &attributes), 0);
  EXPECT_EQ(attributes.phys_port_cnt, 1);
  EXPECT_EQ(attributes.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_GE(attributes.max_qp_rd_atom, 16);
  EXPECT_GE(attributes.max_qp_init_rd_atom, 16);
  EXPECT_GT(attributes.max_srq, 0);
  EXPECT_GT(attributes.max_mw, 0);
  EXPECT_EQ(attributes.node_guid, ibv_get_device_guid(context->device));
  ibv_device_attr_ex extended{};
  ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &extended), 0);
  EXPECT_EQ(extended.orig_attr.max_qp_wr, attributes.max_qp_wr);
  const ibv_query_device_ex_input input{.comp_mask = 1};
  EXPECT_EQ(ibv_query_device_ex(context.get(), &input, &extended), EINVAL);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_NE(port.flags & IBV_QPF_GRH_REQUIRED, 0);
  EXPECT_NE(ibv_query_port(context.get(), 2, &port), 0);
  std::uint16_t pkey = 0;
  EXPECT_EQ(ibv_query_pkey(context.get(), 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xFFFF);
}

TEST(Memory, IsRegisteredOnlyWhereItIs) {
  const auto context = open_first_device();
  const Owned<ibv_pd> pd(ibv_alloc_pd(context.get()));
  ASSERT_NE(pd, nullptr);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* pages = ::mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(::munmap(static_cast<char*>(pages) + page, page), 0);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(pd.get(), pages, 3 * page, int{IBV_ACCESS_LOCAL_WRITE}), nullptr);
  EXPECT_EQ(errno, EFAULT);
  Owned<ibv_mr> mr(ibv_reg_mr(pd.get(), pages, page, int{IBV_ACCESS_LOCAL_WRITE}));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, pages);
  EXPECT_EQ(mr->length, page);
  EXPECT_NE(mr->lkey, 0u);
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  mr.reset();
  // Remote write requires local write.
  EXPECT_EQ(ibv_reg_mr(pd.get(), pages, page, int{IBV_ACCESS_REMOTE_WRITE}), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const int access = IBV_ACCESS_LOCAL_WRITE;  // the macro compares a constant with another enum's
  mr.reset(ibv_reg_mr_iova(pd.get(), pages, page, 0x1000, access));
  EXPECT_NE(mr, nullptr);
}

TEST(CompletionQueue, SizesAndErrors) {
  const auto context = open_first_device();
  const Owned<ibv_cq> cq(ibv_create_cq(context.get(), 10, &errno, nullptr, 0));
  ASSERT_NE(cq, nullptr);
  EXPECT_GE(cq->cqe, 10);
  EXPECT_EQ(cq->cq_context, &errno);
  ibv_wc completion{};
  EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &completion), 0);
  EXPECT_EQ(ibv_poll_cq(cq.get(), 0, &completion), 0);
  EXPECT_EQ(ibv_resize_cq(cq.get(), 100), 0);
  EXPECT_GE(cq->cqe, 100);
  EXPECT_EQ(ibv_resize_cq(cq.get(), 0), EINVAL);
  for (const auto& [entries, vector] :
       {std::pair{0, 0}, {-1, 0}, {1 << 30, 0}, {10, context->num_comp_vectors}, {10, -1}}) {
    errno = 0;
    EXPECT_EQ(ibv_create_cq(context.get(), entries, nullptr, nullptr, vector), nullptr);
    EXPECT_EQ(errno, EINVAL) << entries << ' ' << vector;
  }
}

TEST(CompletionQueue, AnyOfSeveralVectors) {
  const auto context = open_first_device();
  EXPECT_GE(context->num_comp_vectors, 8);
  for (int vector = 0; vector < context->num_comp_vectors; ++vector) {
    const Owned<ibv_cq> cq(ibv_create_cq(context.get(), 10, nullptr, nullptr, vector));
    EXPECT_NE(cq, nullptr) << vector;
  }
}

// As in hardware, which rounds up: perftest's latency tests request one entry and may leave a completion in it.
TEST(CompletionQueue, ASmallOneHasRoomForACompletionThatIsLeftBehind) {
  const auto context = open_first_device();
  const Owned<ibv_cq> cq(ibv_create_cq(context.get(), 1, nullptr, nullptr, 0));
  ASSERT_NE(cq, nullptr);
  EXPECT_GE(cq->cqe, 2);
  EXPECT_EQ(ibv_resize_cq(cq.get(), 1), 0);
  EXPECT_GE(cq->cqe, 2);
}

TEST(CompletionQueue, IsNotMadeSmallerThanWhatIsInIt) {
  Side side = Side::make();
  ASSERT_EQ(to_init(side.qp.get()), 0);
  for (std::uint64_t id = 0; id < 5; ++id) ASSERT_EQ(post_receive(side, id, 0, 64), 0);
  ibv_qp_attr broken{};
  broken.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(side.qp.get(), &broken, IBV_QP_STATE), 0);
  ASSERT_EQ(wait_completion(side.cq.get()).status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ibv_resize_cq(side.cq.get(), 3), EINVAL);
  EXPECT_EQ(ibv_resize_cq(side.cq.get(), 4), 0);
}

TEST(QueuePair, GrantsAtLeastWhatIsAsked) {
  Side side = Side::make();
  ibv_qp_init_attr wanted = usual_queue_pair(side.cq.get());
  wanted.sq_sig_all = 1;
  int marker = 0;
  wanted.qp_context = &marker;
  Owned<ibv_qp> qp(ibv_create_qp(side.pd.get(), &wanted));
  ASSERT_NE(qp, nullptr);
  EXPECT_GE(wanted.cap.max_send_wr, 64u);
  EXPECT_GE(wanted.cap.max_inline_data, 64u);
  ibv_qp_init_attr modest = usual_queue_pair(side.cq.get());
  modest.cap.max_inline_data = 0;
  const Owned<ibv_qp> other(ibv_create_qp(side.pd.get(), &modest));
  ASSERT_NE(other, nullptr);
  EXPECT_GE(modest.cap.max_inline_data, modest.cap.max_send_sge * sizeof(ibv_sge));
  EXPECT_EQ(qp->qp_context, &marker);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_GT(qp->qp_num, 1u);
  EXPECT_LT(qp->qp_num, 1u << 24);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp.get(), &attributes, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RESET);
  EXPECT_GE(attributes.cap.max_send_sge, 4u);  // for any mask
  EXPECT_EQ(init.cap.max_recv_wr, wanted.cap.max_recv_wr);
  EXPECT_EQ(init.sq_sig_all, 1);
  EXPECT_EQ(init.send_cq, side.cq.get());
  EXPECT_EQ(ibv_destroy_cq(side.cq.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(side.pd.get()), EBUSY);
}

TEST(QueuePair, WhatIsNotThereYetIsRefused) {
  Side side = Side::make();
  for (const ibv_qp_type type : {IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER}) {
    ibv_qp_init_attr wanted = usual_queue_pair(side.cq.get());
    wanted.qp_type = type;
    errno = 0;
    EXPECT_EQ(ibv_create_qp(side.pd.get(), &wanted), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP) << type;
  }
}

TEST(QueuePair, TooMuchIsRefused) {
  Side side = Side::make();
  const auto refused = [&](auto change) {
    ibv_qp_init_attr wanted = usual_queue_pair(side.cq.get());
    change(wanted.cap);
    errno = 0;
    return ibv_create_qp(side.pd.get(), &wanted) == nullptr && errno == EINVAL;
  };
  EXPECT_TRUE(refused([](ibv_qp_cap& cap) { cap.max_send_wr = 1 << 20; }));
  EXPECT_TRUE(refused([](ibv_qp_cap& cap) { cap.max_recv_wr = 1 << 20; }));
  EXPECT_TRUE(refused([](ibv_qp_cap& cap) { cap.max_send_sge = 1000; }));
  EXPECT_TRUE(refused([](ibv_qp_cap& cap) { cap.max_recv_sge = 1000; }));
  EXPECT_TRUE(refused([](ibv_qp_cap& cap) { cap.max_inline_data = 1 << 20; }));
}

TEST(QueuePair, MovesAsTheManualSays) {
  Side a = Side::make(), b = Side::make();
  EXPECT_EQ(to_rts(a.qp.get()), EINVAL);
  EXPECT_EQ(a.qp->state, IBV_QPS_RESET);
  EXPECT_EQ(to_init(a.qp.get()), 0);
  EXPECT_EQ(to_init(a.qp.get()), 0);  // INIT to INIT, as librdmacm does
  EXPECT_EQ(to_init(b.qp.get()), 0);
  EXPECT_EQ(a.qp->state, IBV_QPS_INIT);

  // The path of a RoCE queue pair.
  ibv_qp_attr path{};
  path.qp_state = IBV_QPS_RTR;
  path.path_mtu = IBV_MTU_1024;
  path.dest_qp_num = b.qp->qp_num;
  path.max_dest_rd_atomic = 1;
  path.ah_attr.port_num = 1;
  path.ah_attr.is_global = 1;
  path.ah_attr.grh.sgid_index = usual_gid_index();
  ASSERT_EQ(ibv_query_gid(b.context.get(), 1, usual_gid_index(), &path.ah_attr.grh.dgid), 0);
  constexpr int kMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  const auto refused = [&](auto change) {
    ibv_qp_attr wrong = path;
    change(wrong);
    return ibv_modify_qp(a.qp.get(), &wrong, kMask);
  };
  EXPECT_EQ(refused([](ibv_qp_attr& wrong) { wrong.ah_attr.is_global = 0; }), EINVAL);
  EXPECT_EQ(refused([](ibv_qp_attr& wrong) { wrong.ah_attr.port_num = 2; }), EINVAL);
  EXPECT_EQ(refused([](ibv_qp_attr& wrong) { wrong.ah_attr.grh.sgid_index = 200; }), EINVAL);
  EXPECT_EQ(refused([](ibv_qp_attr& wrong) { wrong.ah_attr.grh.dgid = {}; }), EINVAL);
  EXPECT_EQ(refused([](ibv_qp_attr& wrong) { wrong.ah_attr.grh.dgid.raw[0] = 0x20; }), EINVAL);  // v6 from a v4 GID
  EXPECT_EQ(refused([](ibv_qp_attr& wrong) { wrong.path_mtu = static_cast<ibv_mtu>(0); }), EINVAL);
  EXPECT_EQ(refused([](ibv_qp_attr& wrong) { wrong.path_mtu = static_cast<ibv_mtu>(6); }), EINVAL);
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &path, kMask | IBV_QP_ALT_PATH), EOPNOTSUPP);
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &path, kMask & ~IBV_QP_AV), EINVAL);
  EXPECT_EQ(a.qp->state, IBV_QPS_INIT);
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &path, kMask), 0);
  EXPECT_EQ(a.qp->state, IBV_QPS_RTR);
  EXPECT_EQ(to_rts(a.qp.get()), 0);
  EXPECT_EQ(a.qp->state, IBV_QPS_RTS);

  ibv_qp_attr now{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(a.qp.get(), &now, IBV_QP_AV, &init), 0);
  EXPECT_EQ(now.dest_qp_num, b.qp->qp_num);
  EXPECT_EQ(now.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(std::memcmp(&now.ah_attr.grh.dgid, &path.ah_attr.grh.dgid, 16), 0);
  EXPECT_EQ(now.timeout, 14);
  EXPECT_EQ(now.max_rd_atomic, 4);
  EXPECT_EQ(now.sq_psn, a.qp->qp_num);
}

}  // namespace
}  // namespace brdma::test
