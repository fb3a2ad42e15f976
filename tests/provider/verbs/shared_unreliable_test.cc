// Shared receive queues with UD and UC queue pairs, through the real libibverbs: receives in the order of arrival for
// any queue pair, the limit, events of a queue pair in error, and receives that stay.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kQkey = 0x1111'1111, kGrh = 40, kRoom = 256;

int to_ready(ibv_qp* qp, const ibv_qp* peer) {
  const bool datagrams = qp->qp_type == IBV_QPT_UD;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qkey = kQkey;
  const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (ibv_modify_qp(qp, &attributes, init | (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) != 0) return 1;
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer->qp_num;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.hop_limit = 1;
  if (ibv_query_gid(qp->context, 1, 0, &attributes.ah_attr.grh.dgid) != 0) return 2;
  const int path = datagrams ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (ibv_modify_qp(qp, &attributes, IBV_QP_STATE | path) != 0) return 3;
  attributes.qp_state = IBV_QPS_RTS;
  return ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

class SharedUnreliable : public testing::TestWithParam<ibv_qp_type> {
 protected:
  SharedUnreliable() : a(Side::make()), b(Side::make()) {
    ibv_srq_init_attr wanted{};
    wanted.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
    srq = ibv_create_srq(b.pd.get(), &wanted);
    EXPECT_NE(srq, nullptr);
    b.qp.reset();
    for (int i = 0; i < 2; ++i) {
      ibv_qp_init_attr attributes = usual_queue_pair(b.cq.get());
      attributes.qp_type = GetParam();
      attributes.srq = srq;
      receivers[i].reset(ibv_create_qp(b.pd.get(), &attributes));
      attributes = usual_queue_pair(a.cq.get());
      attributes.qp_type = GetParam();
      senders[i].reset(ibv_create_qp(a.pd.get(), &attributes));
      EXPECT_EQ(to_ready(receivers[i].get(), senders[i].get()), 0);
      EXPECT_EQ(to_ready(senders[i].get(), receivers[i].get()), 0);
    }
    ibv_ah_attr path{};
    path.is_global = 1;
    path.port_num = 1;
    path.grh.hop_limit = 1;
    EXPECT_EQ(ibv_query_gid(a.context.get(), 1, 0, &path.grh.dgid), 0);
    ah = ibv_create_ah(a.pd.get(), &path);
    EXPECT_NE(ah, nullptr);
  }
  ~SharedUnreliable() override {
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    for (auto& qp : receivers) qp.reset();
    for (auto& qp : senders) qp.reset();
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
  }
  [[nodiscard]] static std::uint32_t header() { return GetParam() == IBV_QPT_UD ? kGrh : 0; }
  void post(std::uint64_t wr_id) {
    ibv_sge sge = b.sge(wr_id * kRoom, kRoom);
    ibv_recv_wr request{.wr_id = wr_id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq, &request, &bad), 0);
  }
  void send(int to, std::uint32_t bytes) {
    ibv_sge sge = a.sge(0, bytes);
    ibv_send_wr request = send_request(sge);
    if (GetParam() == IBV_QPT_UD) {
      request.wr.ud = {.ah = ah, .remote_qpn = receivers[to]->qp_num, .remote_qkey = kQkey};
    }
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(senders[to].get(), &request, &bad), 0);
    EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  }
  void expect_received(std::uint64_t wr_id, int by, std::uint32_t bytes) {
    const ibv_wc done = wait_completion(b.cq.get());
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(done.wr_id, wr_id);
    EXPECT_EQ(done.qp_num, receivers[by]->qp_num);
    EXPECT_EQ(done.byte_len, bytes + header());
    EXPECT_EQ(std::memcmp(b.memory.data() + wr_id * kRoom + header(), a.memory.data(), bytes), 0);
  }
  Side a, b;
  ibv_srq* srq = nullptr;
  ibv_ah* ah = nullptr;
  Owned<ibv_qp> receivers[2], senders[2];
};
INSTANTIATE_TEST_SUITE_P(Types, SharedUnreliable, testing::Values(IBV_QPT_UD, IBV_QPT_UC),
                         [](const auto& type) { return type.param == IBV_QPT_UD ? "Ud" : "Uc"; });

TEST_P(SharedUnreliable, ReceivesAreTakenInTheOrderOfArrival) {
  std::memset(a.memory.data(), 0x5A, a.memory.size());
  for (std::uint64_t i = 0; i < 6; ++i) post(i);
  for (std::uint64_t i = 0; i < 6; ++i) {
    const int to = i % 3 == 0 ? 0 : 1;
    send(to, static_cast<std::uint32_t>(10 + i));
    expect_received(i, to, static_cast<std::uint32_t>(10 + i));
  }
  send(0, 8);  // nothing is posted: it is lost, and takes no receive that is posted later
  post(7);
  send(1, 9);
  const ibv_wc done = wait_completion(b.cq.get());
  EXPECT_EQ(done.wr_id, 7u);
}

TEST_P(SharedUnreliable, TheLimitIsReported) {
  for (std::uint64_t i = 0; i < 3; ++i) post(i);
  ibv_srq_attr limit{.max_wr = 0, .max_sge = 0, .srq_limit = 2};
  ASSERT_EQ(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
  send(0, 8);
  expect_received(0, 0, 8);
  send(1, 8);
  expect_received(1, 1, 8);
  expect_event(b, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
}

TEST_P(SharedUnreliable, AQueuePairInErrorLeavesTheReceivesToTheOther) {
  for (std::uint64_t i = 0; i < 3; ++i) post(i);
  send(0, 8);
  expect_received(0, 0, 8);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(receivers[0].get(), &error, IBV_QP_STATE), 0);
  expect_event(b, IBV_EVENT_QP_LAST_WQE_REACHED, receivers[0].get());
  ibv_wc completion{};
  EXPECT_EQ(ibv_poll_cq(b.cq.get(), 1, &completion), 0);  // none was flushed
  send(1, 12);
  expect_received(1, 1, 12);
}

}  // namespace
}  // namespace brdma::test
