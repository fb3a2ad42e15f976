// UD and UC through the real libibverbs: address handles, also those that libibverbs makes of a completion and its GRH,
// and the ibv_wr_* functions. On lo, over every GID that it has.
#include <gmock/gmock.h>

#include <cerrno>
#include <cstring>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kQkey = 0x1111'1111, kGrh = 40;

struct AhDeleter {
  void operator()(ibv_ah* ah) const { EXPECT_EQ(ibv_destroy_ah(ah), 0); }
};
using OwnedAh = std::unique_ptr<ibv_ah, AhDeleter>;

void to_datagrams(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qkey = kQkey;
  ASSERT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
  attributes.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE), 0);
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

Side make_datagram_side() {
  Side side = Side::make();
  ibv_qp_init_attr wanted = usual_queue_pair(side.cq.get());
  wanted.qp_type = IBV_QPT_UD;
  side.qp.reset(ibv_create_qp(side.pd.get(), &wanted));
  EXPECT_NE(side.qp, nullptr);
  return side;
}

ibv_ah_attr path_to(ibv_context* context, std::uint8_t gid_index) {
  ibv_ah_attr path{};
  path.is_global = 1;
  path.port_num = 1;
  path.grh.sgid_index = gid_index;
  path.grh.hop_limit = 64;
  EXPECT_EQ(ibv_query_gid(context, 1, gid_index, &path.grh.dgid), 0);
  return path;
}

// Number of used entries: all at the table's beginning here.
int gid_count(ibv_context* context) {
  ibv_gid_entry entries[16];
  return static_cast<int>(ibv_query_gid_table(context, entries, 16, 0));
}

ibv_send_wr datagram_to(ibv_ah* ah, std::uint32_t qpn, ibv_sge* sge) {
  ibv_send_wr request{};
  request.wr_id = 1;
  request.sg_list = sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud.ah = ah;
  request.wr.ud.remote_qpn = qpn;
  request.wr.ud.remote_qkey = kQkey;
  return request;
}

// There, and back by an address handle made from the completion.
TEST(Datagrams, AReplyIsAddressedByTheCompletionAlone) {
  Side a = make_datagram_side(), b = make_datagram_side();
  to_datagrams(a.qp.get());
  to_datagrams(b.qp.get());
  for (int gid = 0; gid < gid_count(a.context.get()); ++gid) {
    SCOPED_TRACE(testing::Message() << "GID " << gid);
    ibv_ah_attr path = path_to(a.context.get(), static_cast<std::uint8_t>(gid));
    const OwnedAh ah{ibv_create_ah(a.pd.get(), &path)};
    ASSERT_NE(ah, nullptr);
    std::strcpy(reinterpret_cast<char*>(a.memory.data()), "there");
    ASSERT_EQ(post_receive(b, 2, 4096, 2048), 0);
    ASSERT_EQ(post_receive(a, 3, 8192, 2048), 0);
    ibv_sge sge = a.sge(0, 6);
    ASSERT_EQ(post_send(a, datagram_to(ah.get(), b.qp->qp_num, &sge)), 0);
    EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
    ibv_wc received = wait_completion(b.cq.get());
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.wr_id, 2u);
    EXPECT_EQ(received.byte_len, kGrh + 6);
    EXPECT_EQ(received.src_qp, a.qp->qp_num);
    EXPECT_NE(received.wc_flags & IBV_WC_GRH, 0u);
    EXPECT_STREQ(reinterpret_cast<char*>(b.memory.data()) + 4096 + kGrh, "there");

    auto* const grh = reinterpret_cast<ibv_grh*>(b.memory.data() + 4096);
    ibv_ah_attr back{};
    ASSERT_EQ(ibv_init_ah_from_wc(b.context.get(), 1, &received, grh, &back), 0);
    EXPECT_EQ(back.grh.sgid_index, gid);
    EXPECT_EQ(std::memcmp(&back.grh.dgid, &path.grh.dgid, sizeof back.grh.dgid), 0);
    const OwnedAh answer{ibv_create_ah_from_wc(b.pd.get(), &received, grh, 1)};
    ASSERT_NE(answer, nullptr);
    sge = b.sge(4096 + kGrh, 6);
    ASSERT_EQ(post_send(b, datagram_to(answer.get(), received.src_qp, &sge)), 0);
    EXPECT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait_completion(a.cq.get()).wr_id, 3u);
    EXPECT_STREQ(reinterpret_cast<char*>(a.memory.data()) + 8192 + kGrh, "there");
  }
}

TEST(Datagrams, AddressHandlesThatLeadNowhereAreRefused) {
  const Side side = make_datagram_side();
  const auto refused = [&](auto change) {
    ibv_ah_attr path = path_to(side.context.get(), 0);
    change(path);
    errno = 0;
    return ibv_create_ah(side.pd.get(), &path) == nullptr && errno == EINVAL;
  };
  EXPECT_TRUE(refused([](ibv_ah_attr& path) { path.port_num = 2; }));
  EXPECT_TRUE(refused([](ibv_ah_attr& path) { path.grh.sgid_index = 200; }));
  EXPECT_TRUE(refused([](ibv_ah_attr& path) { path.grh.sgid_index = 15; })) << "a hole";
  EXPECT_TRUE(refused([](ibv_ah_attr& path) { path.grh.dgid = {}; }));
  EXPECT_TRUE(refused([](ibv_ah_attr& path) { path.is_global = 0; })) << "LID 0";
  EXPECT_FALSE(refused([](ibv_ah_attr& path) { path.sl = 0xA; })) << "service levels mean nothing here";
}

// Dropped and reported: later messages arrive, and the port counts one violation.
TEST(Datagrams, AWrongQkeyIsCounted) {
  Side a = make_datagram_side(), b = make_datagram_side();
  to_datagrams(a.qp.get());
  to_datagrams(b.qp.get());
  const auto violations = [](const Side& side) {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(side.context.get(), 1, &port), 0);
    return port.qkey_viol_cntr;
  };
  EXPECT_EQ(violations(b), 0u);
  ibv_ah_attr path = path_to(a.context.get(), 0);
  const OwnedAh ah{ibv_create_ah(a.pd.get(), &path)};
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(post_receive(b, 2, 4096, 2048), 0);
  ibv_sge wrong = a.sge(0, 6), right = a.sge(0, 7);
  ibv_send_wr request = datagram_to(ah.get(), b.qp->qp_num, &wrong);
  request.wr.ud.remote_qkey = kQkey + 1;
  ASSERT_EQ(post_send(a, request), 0);
  ASSERT_EQ(post_send(a, datagram_to(ah.get(), b.qp->qp_num, &right)), 0);
  EXPECT_EQ(wait_completion(b.cq.get()).byte_len, kGrh + 7);
  EXPECT_EQ(violations(b), 1u);
  EXPECT_EQ(violations(a), 1u) << "the port's, seen by each context of the process";
}

TEST(Datagrams, PostingWithoutAnAddressOrWithAnotherOpcodeIsRefused) {
  Side side = make_datagram_side();
  to_datagrams(side.qp.get());
  ibv_sge sge = side.sge(0, 8);
  EXPECT_EQ(post_send(side, datagram_to(nullptr, side.qp->qp_num, &sge)), EINVAL);
  ibv_ah_attr path = path_to(side.context.get(), 0);
  const OwnedAh ah{ibv_create_ah(side.pd.get(), &path)};
  ibv_send_wr write = datagram_to(ah.get(), side.qp->qp_num, &sge);
  write.opcode = IBV_WR_RDMA_WRITE;
  EXPECT_EQ(post_send(side, write), EINVAL);
}

TEST(Datagrams, TheExtendedFunctionsSendThem) {
  Side a = Side::make(), b = make_datagram_side();
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = a.cq.get();
  wanted.cap = usual_queue_pair(a.cq.get()).cap;
  wanted.qp_type = IBV_QPT_UD;
  wanted.pd = a.pd.get();
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  errno = 0;
  EXPECT_EQ(ibv_create_qp_ex(a.context.get(), &wanted), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP) << "no WRITEs with UD";
  wanted.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  a.qp.reset(ibv_create_qp_ex(a.context.get(), &wanted));
  ASSERT_NE(a.qp, nullptr);
  to_datagrams(a.qp.get());
  to_datagrams(b.qp.get());
  ibv_ah_attr path = path_to(a.context.get(), 0);
  const OwnedAh ah{ibv_create_ah(a.pd.get(), &path)};
  ASSERT_EQ(post_receive(b, 2, 0, 2048), 0);
  ASSERT_EQ(post_receive(b, 3, 2048, 2048), 0);
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.qp.get());
  ibv_wr_start(qp);
  qp->wr_id = 7;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(qp);
  ibv_wr_set_ud_addr(qp, ah.get(), b.qp->qp_num, kQkey);
  ibv_wr_set_sge(qp, a.mr->lkey, reinterpret_cast<std::uintptr_t>(a.memory.data()), 16);
  ibv_wr_send_imm(qp, 0xABCD);
  ibv_wr_set_ud_addr(qp, ah.get(), b.qp->qp_num, kQkey);
  ibv_wr_set_inline_data(qp, a.memory.data(), 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(wait_completion(b.cq.get()).byte_len, kGrh + 16);
  const ibv_wc second = wait_completion(b.cq.get());
  EXPECT_EQ(second.byte_len, kGrh + 8);
  EXPECT_EQ(second.imm_data, 0xABCDu);
}

// UC: its own attributes, and a SEND and a WRITE that arrive.
TEST(UnreliableConnections, SendAndWrite) {
  Side sides[2] = {Side::make(), Side::make()};
  for (Side& side : sides) {
    ibv_qp_init_attr wanted = usual_queue_pair(side.cq.get());
    wanted.qp_type = IBV_QPT_UC;
    side.qp.reset(ibv_create_qp(side.pd.get(), &wanted));
    ASSERT_NE(side.qp, nullptr);
    ASSERT_EQ(to_init(side.qp.get()), 0);
  }
  for (int i = 0; i < 2; ++i) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = sides[1 - i].qp->qp_num;
    attributes.ah_attr = path_to(sides[i].context.get(), 0);
    ASSERT_EQ(ibv_modify_qp(sides[i].qp.get(), &attributes,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
              0);
    attributes.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(sides[i].qp.get(), &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  std::fill(sides[0].memory.begin(), sides[0].memory.begin() + 8192, std::uint8_t{0x5A});
  ASSERT_EQ(post_receive(sides[1], 2, 16384, 8192), 0);
  ibv_sge sge = sides[0].sge(0, 3000);
  ibv_send_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(sides[1].memory.data());
  request.wr.rdma.rkey = sides[1].mr->rkey;
  ASSERT_EQ(post_send(sides[0], request), 0);
  request.opcode = IBV_WR_SEND;
  ASSERT_EQ(post_send(sides[0], request), 0);
  EXPECT_EQ(wait_completion(sides[0].cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(wait_completion(sides[0].cq.get()).status, IBV_WC_SUCCESS);
  const ibv_wc received = wait_completion(sides[1].cq.get());
  EXPECT_EQ(received.byte_len, 3000u);
  EXPECT_EQ(received.wc_flags, 0u);
  EXPECT_EQ(std::memcmp(sides[0].memory.data(), sides[1].memory.data() + 16384, 3000), 0);
  EXPECT_EQ(std::memcmp(sides[0].memory.data(), sides[1].memory.data(), 3000), 0) << "what came before it is there";
  request.opcode = IBV_WR_RDMA_READ;
  EXPECT_EQ(post_send(sides[0], request), EINVAL);
}

}  // namespace
}  // namespace brdma::test
