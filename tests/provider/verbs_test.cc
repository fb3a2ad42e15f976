// Verbs through the real libibverbs: objects, attributes, errors as the manual names them, and data on every operation.
#include <gmock/gmock.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "verbs_fixture.h"

namespace brdma::test {
namespace {

TEST(Device, IsFoundByEachCallAndStaysTheSame) {
  int count = 0;
  ibv_device** first = ibv_get_device_list(&count);
  ASSERT_EQ(count, 1);
  EXPECT_STREQ(ibv_get_device_name(first[0]), "brdma_lo");
  EXPECT_NE(ibv_get_device_guid(first[0]), 0u);
  ibv_device** second = ibv_get_device_list(&count);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(first[0], second[0]);
  ibv_free_device_list(first);
  ibv_free_device_list(second);
}

TEST(Device, FollowsTheAddressesOfItsInterface) {
  const auto context = open_first_device();
  ibv_device* const device = context->device;
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
  const int before = port.gid_tbl_len;
  ASSERT_EQ(std::system("ip address add 10.1.2.3/32 dev lo"), 0);
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);  // looks again
  ASSERT_EQ(count, 1);
  EXPECT_EQ(list[0], device);
  ibv_free_device_list(list);
  ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
  EXPECT_EQ(port.gid_tbl_len, before + 1);
  ibv_gid_entry entries[8];
  ASSERT_EQ(ibv_query_gid_table(context.get(), entries, 8, 0), before + 1);
  const std::array<std::uint8_t, 16> expected{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 1, 2, 3};
  bool found = false;
  for (int i = 0; i <= before; ++i) {
    EXPECT_EQ(entries[i].gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_ROCE_V2));
    found |= std::memcmp(entries[i].gid.raw, expected.data(), expected.size()) == 0;
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(std::system("ip address del 10.1.2.3/32 dev lo"), 0);
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
  EXPECT_EQ(attributes.max_srq, 0);
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
  EXPECT_EQ(ibv_reg_mr(pd.get(), pages, 3 * page, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
  Owned<ibv_mr> mr(ibv_reg_mr(pd.get(), pages, page, IBV_ACCESS_LOCAL_WRITE));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, pages);
  EXPECT_EQ(mr->length, page);
  EXPECT_NE(mr->lkey, 0u);
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  mr.reset();
  // Remote write without local write makes no sense.
  EXPECT_EQ(ibv_reg_mr(pd.get(), pages, page, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  mr.reset(ibv_reg_mr_iova(pd.get(), pages, page, 0x1000, IBV_ACCESS_LOCAL_WRITE));
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
  for (const auto& [entries, vector] : {std::pair{0, 0}, {-1, 0}, {1 << 30, 0}, {10, 1}, {10, -1}}) {
    errno = 0;
    EXPECT_EQ(ibv_create_cq(context.get(), entries, nullptr, nullptr, vector), nullptr);
    EXPECT_EQ(errno, EINVAL) << entries << ' ' << vector;
  }
}

// As behind hardware, which rounds up: perftest's latency tests ask for one entry and may leave a completion in it.
TEST(CompletionQueue, ASmallOneHasRoomForACompletionThatIsLeftBehind) {
  const auto context = open_first_device();
  const Owned<ibv_cq> cq(ibv_create_cq(context.get(), 1, nullptr, nullptr, 0));
  ASSERT_NE(cq, nullptr);
  EXPECT_GE(cq->cqe, 2);
  EXPECT_EQ(ibv_resize_cq(cq.get(), 1), 0);
  EXPECT_GE(cq->cqe, 2);
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
  EXPECT_EQ(qp->qp_context, &marker);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_GT(qp->qp_num, 1u);
  EXPECT_LT(qp->qp_num, 1u << 24);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp.get(), &attributes, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RESET);
  EXPECT_GE(attributes.cap.max_send_sge, 4u);  // whatever the mask
  EXPECT_EQ(init.cap.max_recv_wr, wanted.cap.max_recv_wr);
  EXPECT_EQ(init.sq_sig_all, 1);
  EXPECT_EQ(init.send_cq, side.cq.get());
  EXPECT_EQ(ibv_destroy_cq(side.cq.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(side.pd.get()), EBUSY);
}

TEST(QueuePair, WhatIsNotThereYetIsRefused) {
  Side side = Side::make();
  for (const ibv_qp_type type : {IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET}) {
    ibv_qp_init_attr wanted = usual_queue_pair(side.cq.get());
    wanted.qp_type = type;
    errno = 0;
    EXPECT_EQ(ibv_create_qp(side.pd.get(), &wanted), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP) << type;
  }
  ibv_srq_init_attr srq{.srq_context = nullptr, .attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0}};
  errno = 0;
  EXPECT_EQ(ibv_create_srq(side.pd.get(), &srq), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_ah_attr path{};
  errno = 0;
  EXPECT_EQ(ibv_create_ah(side.pd.get(), &path), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  // The ibv_wr_* functions; programs then post in the old way.
  ibv_qp_init_attr_ex extended{};
  extended.send_cq = extended.recv_cq = side.cq.get();
  extended.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  extended.qp_type = IBV_QPT_RC;
  extended.pd = side.pd.get();
  extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  extended.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  errno = 0;
  EXPECT_EQ(ibv_create_qp_ex(side.context.get(), &extended), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  const Owned<ibv_qp> plain(ibv_create_qp_ex(side.context.get(), &extended));
  EXPECT_NE(plain, nullptr);
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
  ASSERT_EQ(ibv_query_gid(b.context.get(), 1, 0, &path.ah_attr.grh.dgid), 0);
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

class Connected : public testing::Test {
 protected:
  Connected() : a(Side::make()), b(Side::make()) { connect(a, b); }

  ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge& sge) {
    ibv_send_wr out{};
    out.wr_id = 42;
    out.sg_list = &sge;
    out.num_sge = 1;
    out.opcode = opcode;
    out.send_flags = IBV_SEND_SIGNALED;
    out.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(b.memory.data());
    out.wr.rdma.rkey = b.mr->rkey;
    return out;
  }
  void expect_done(ibv_cq* cq, std::uint64_t wr_id, ibv_wc_opcode opcode, std::uint32_t bytes) {
    const ibv_wc completion = wait_completion(cq);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
    EXPECT_EQ(completion.wr_id, wr_id);
    EXPECT_EQ(completion.opcode, opcode);
    if ((opcode & IBV_WC_RECV) != 0) {
      EXPECT_EQ(completion.byte_len, bytes);
    }
  }
  Side a, b;
};

TEST_F(Connected, EachOperationMovesItsBytes) {
  constexpr std::uint32_t kBytes = 5000;  // five packets
  std::iota(a.memory.begin(), a.memory.begin() + kBytes, std::uint8_t{1});
  const auto arrived = [&](std::size_t offset) {
    const bool equal = std::memcmp(a.memory.data(), b.memory.data() + offset, kBytes) == 0;
    std::fill(b.memory.begin(), b.memory.end(), std::uint8_t{0});
    return equal;
  };
  ibv_sge sge = a.sge(0, kBytes);

  ASSERT_EQ(post_receive(b, 7, 8192, kBytes), 0);
  ASSERT_EQ(post_send(a, request(IBV_WR_SEND, sge)), 0);
  expect_done(b.cq.get(), 7, IBV_WC_RECV, kBytes);
  expect_done(a.cq.get(), 42, IBV_WC_SEND, kBytes);
  EXPECT_TRUE(arrived(8192));

  ASSERT_EQ(post_send(a, request(IBV_WR_RDMA_WRITE, sge)), 0);
  expect_done(a.cq.get(), 42, IBV_WC_RDMA_WRITE, kBytes);
  EXPECT_TRUE(arrived(0));

  ASSERT_EQ(post_receive(b, 8, 8192, 0), 0);
  ibv_send_wr with_immediate = request(IBV_WR_RDMA_WRITE_WITH_IMM, sge);
  with_immediate.imm_data = 0x12345678;
  ASSERT_EQ(post_send(a, with_immediate), 0);
  const ibv_wc immediate = wait_completion(b.cq.get());
  EXPECT_EQ(immediate.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(immediate.imm_data, 0x12345678u);
  EXPECT_NE(immediate.wc_flags & IBV_WC_WITH_IMM, 0u);
  EXPECT_EQ(immediate.qp_num, b.qp->qp_num);
  expect_done(a.cq.get(), 42, IBV_WC_RDMA_WRITE, kBytes);
  EXPECT_TRUE(arrived(0));

  std::iota(b.memory.begin(), b.memory.begin() + kBytes, std::uint8_t{9});
  ASSERT_EQ(post_send(a, request(IBV_WR_RDMA_READ, sge)), 0);
  expect_done(a.cq.get(), 42, IBV_WC_RDMA_READ, kBytes);
  EXPECT_TRUE(arrived(0));

  std::uint64_t counter = 1000, old = 0;
  std::memcpy(b.memory.data(), &counter, sizeof counter);
  ibv_sge result = a.sge(64, 8);
  ibv_send_wr add = request(IBV_WR_ATOMIC_FETCH_AND_ADD, result);
  add.wr.atomic = {.remote_addr = reinterpret_cast<std::uintptr_t>(b.memory.data()),
                   .compare_add = 5,
                   .swap = 0,
                   .rkey = b.mr->rkey};
  ASSERT_EQ(post_send(a, add), 0);
  expect_done(a.cq.get(), 42, IBV_WC_FETCH_ADD, 8);
  std::memcpy(&old, a.memory.data() + 64, sizeof old);
  EXPECT_EQ(old, 1000u);
  ibv_send_wr swap = request(IBV_WR_ATOMIC_CMP_AND_SWP, result);
  swap.wr.atomic = {.remote_addr = reinterpret_cast<std::uintptr_t>(b.memory.data()),
                    .compare_add = 1005,
                    .swap = 77,
                    .rkey = b.mr->rkey};
  ASSERT_EQ(post_send(a, swap), 0);
  expect_done(a.cq.get(), 42, IBV_WC_COMP_SWAP, 8);
  std::memcpy(&counter, b.memory.data(), sizeof counter);
  EXPECT_EQ(counter, 77u);
}

TEST_F(Connected, InlineDataIsTakenAtOnce) {
  std::array<char, 32> text{"not registered, gone at once"};
  ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(text.data()), .length = text.size(), .lkey = 0};
  ASSERT_EQ(post_receive(b, 1, 0, 64), 0);
  ibv_send_wr send = request(IBV_WR_SEND, sge);
  send.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(post_send(a, send), 0);
  text.fill('x');
  expect_done(b.cq.get(), 1, IBV_WC_RECV, 32);
  EXPECT_STREQ(reinterpret_cast<const char*>(b.memory.data()), "not registered, gone at once");
}

// A list of more than one batch, with a bad one in the middle: those in front of it are done, it is named.
TEST_F(Connected, ListsStopAtTheBadRequest) {
  constexpr std::size_t kCount = 50, kBad = 40;
  ibv_sge sge = a.sge(0, 8);
  std::array<ibv_send_wr, kCount> list;
  for (std::size_t i = 0; i < kCount; ++i) {
    list[i] = request(IBV_WR_RDMA_WRITE, sge);
    list[i].wr_id = i;
    list[i].next = i + 1 < kCount ? &list[i + 1] : nullptr;
  }
  for (const auto& [spoil, error] :
       {std::pair<void (*)(ibv_send_wr&), int>{[](ibv_send_wr& wr) { wr.num_sge = 1000; }, EINVAL},
        {[](ibv_send_wr& wr) { wr.num_sge = -1; }, EINVAL},
        {[](ibv_send_wr& wr) { wr.opcode = IBV_WR_DRIVER1; }, EINVAL}}) {
    const ibv_send_wr good = list[kBad];
    spoil(list[kBad]);
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(a.qp.get(), list.data(), &bad), error);
    EXPECT_EQ(bad, &list[kBad]);
    list[kBad] = good;
    for (std::size_t i = 0; i < kBad; ++i) expect_done(a.cq.get(), i, IBV_WC_RDMA_WRITE, 0);
  }
}

TEST_F(Connected, QueuesHaveTheirLimits) {
  for (std::uint64_t i = 0;; ++i) {
    const int error = post_receive(b, i, 0, 8);
    if (error == 0) continue;
    EXPECT_EQ(error, ENOMEM);
    EXPECT_GE(i, 64u);
    break;
  }
}

// Whoever sees its last completion may end at once, without closing anything: the peer gets its acknowledgement all the
// same. In a ping-pong acknowledgements wait for the reply, which here never comes.
TEST(Exit, LastAcknowledgementLeavesBeforeTheProcess) {
  struct Address {
    std::uint32_t qpn;
    ibv_gid gid;
  };
  constexpr std::uint64_t kRounds = 20;
  int to_child[2], to_parent[2];
  ASSERT_EQ(::pipe(to_child) + ::pipe(to_parent), 0);
  const pid_t child = ::fork();  // before anything is open
  const int out = child == 0 ? to_parent[1] : to_child[1], in = child == 0 ? to_child[0] : to_parent[0];
  Side side = Side::make();
  Address mine{.qpn = side.qp->qp_num, .gid = {}}, peer{};
  ASSERT_EQ(ibv_query_gid(side.context.get(), 1, 0, &mine.gid), 0);
  ASSERT_EQ(to_init(side.qp.get()), 0);
  for (std::uint64_t i = 0; i < kRounds; ++i) ASSERT_EQ(post_receive(side, i, 0, 64), 0);
  ASSERT_EQ(::write(out, &mine, sizeof mine), static_cast<ssize_t>(sizeof mine));
  ASSERT_EQ(::read(in, &peer, sizeof peer), static_cast<ssize_t>(sizeof peer));
  ibv_qp other{};  // as to_rtr() wants it
  other.qp_num = peer.qpn;
  other.context = side.context.get();
  ASSERT_EQ(to_rtr(side.qp.get(), &other), 0);
  ASSERT_EQ(to_rts(side.qp.get()), 0);
  ibv_sge sge = side.sge(0, 64);
  ibv_send_wr send{};
  send.sg_list = &sge;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  unsigned sent = 0, received = 0;
  const auto poll = [&] {
    const ibv_wc completion = wait_completion(side.cq.get());
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
    ++((completion.opcode & IBV_WC_RECV) != 0 ? received : sent);
    return completion.status == IBV_WC_SUCCESS;
  };
  for (unsigned round = 0; round < kRounds; ++round) {
    if (child != 0) {
      ASSERT_EQ(post_send(side, send), 0);
    }
    if (child != 0 && round + 1 == kRounds) break;
    while (received <= round) {
      ASSERT_TRUE(poll());
    }
    if (child == 0 && round + 1 == kRounds) std::exit(0);
    if (child == 0) {
      ASSERT_EQ(post_send(side, send), 0);
    }
  }
  while (sent < kRounds) {
    ASSERT_TRUE(poll());
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Unconnected, PostsAreRefused) {
  Side side = Side::make();
  ibv_sge sge = side.sge(0, 8);
  ibv_send_wr send{};
  send.sg_list = &sge;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(side.qp.get(), &send, &bad), EINVAL);
  EXPECT_EQ(bad, &send);
  EXPECT_EQ(post_receive(side, 1, 0, 8), EINVAL);
  ASSERT_EQ(to_init(side.qp.get()), 0);
  EXPECT_EQ(post_receive(side, 1, 0, 8), 0);
}

TEST_F(Connected, ErrorStateFlushesInOrder) {
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(post_receive(b, i, 0, 8), 0);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(b.qp.get(), &error, IBV_QP_STATE), 0);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const ibv_wc completion = wait_completion(b.cq.get());
    EXPECT_EQ(completion.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(completion.wr_id, i);
  }
}

TEST_F(Connected, WrongKeyIsARemoteAccessError) {
  ibv_sge sge = a.sge(0, 8);
  ibv_send_wr write = request(IBV_WR_RDMA_WRITE, sge);
  write.wr.rdma.rkey ^= 1;
  ASSERT_EQ(post_send(a, write), 0);
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_REM_ACCESS_ERR);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(b.context.get(), &event), 0);
  while (event.event_type == IBV_EVENT_COMM_EST) {
    ibv_ack_async_event(&event);
    ASSERT_EQ(ibv_get_async_event(b.context.get(), &event), 0);
  }
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR) << ibv_event_type_str(event.event_type);
  EXPECT_EQ(event.element.qp, b.qp.get());
  ibv_ack_async_event(&event);
}

}  // namespace
}  // namespace brdma::test
