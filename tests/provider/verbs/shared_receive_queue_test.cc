// Shared receive queues through the real libibverbs: made, used by two queue pairs, limit events, destroyed in order.
#include <gmock/gmock.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <cerrno>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

class SharedReceiveQueue : public testing::Test {
 protected:
  SharedReceiveQueue() : a(Side::make()), b(Side::make()) {
    ibv_srq_init_attr wanted{};
    wanted.srq_context = this;
    wanted.attr = {.max_wr = 10, .max_sge = 2, .srq_limit = 0};
    srq = ibv_create_srq(b.pd.get(), &wanted);
    EXPECT_NE(srq, nullptr);
    EXPECT_GE(wanted.attr.max_wr, 10u);
    EXPECT_GE(wanted.attr.max_sge, 2u);
    b.qp.reset();
    ibv_qp_init_attr attributes = usual_queue_pair(b.cq.get());
    attributes.srq = srq;
    b.qp.reset(ibv_create_qp(b.pd.get(), &attributes));
    EXPECT_EQ(b.qp->srq, srq);
  }
  ~SharedReceiveQueue() override {
    b.qp.reset();
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
  }
  int post_shared(std::uint64_t wr_id) {
    ibv_sge sge = b.sge(wr_id * 256, 256);
    ibv_recv_wr request{.wr_id = wr_id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_srq_recv(srq, &request, &bad);
    EXPECT_EQ(bad, error == 0 ? nullptr : &request);
    return error;
  }
  void send() {
    ibv_sge sge = a.sge(0, 200);
    ibv_send_wr request = send_request(sge);
    ASSERT_EQ(post_send(a, request), 0);
    EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  }
  Side a, b;
  ibv_srq* srq = nullptr;
};

TEST_F(SharedReceiveQueue, ServesItsQueuePairAndNamesIt) {
  connect(a, b);
  for (std::uint64_t id = 0; id < 3; ++id) ASSERT_EQ(post_shared(id), 0);
  for (std::uint64_t id = 0; id < 3; ++id) {
    send();
    const ibv_wc done = wait_completion(b.cq.get());
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(done.wr_id, id);
    EXPECT_EQ(done.byte_len, 200u);
    EXPECT_EQ(done.qp_num, b.qp->qp_num);
  }
  EXPECT_EQ(post_receive(b, 1, 0, 8), EINVAL) << "a queue pair of it has no receive queue of its own";
}

TEST_F(SharedReceiveQueue, IsBusyWhileAQueuePairUsesIt) { EXPECT_EQ(ibv_destroy_srq(srq), EBUSY); }

TEST_F(SharedReceiveQueue, SaysAndChangesWhatItHas) {
  ibv_srq_attr attributes{};
  ASSERT_EQ(ibv_query_srq(srq, &attributes), 0);
  EXPECT_EQ(attributes.max_wr, 10u);
  EXPECT_EQ(attributes.max_sge, 2u);
  EXPECT_EQ(attributes.srq_limit, 0u);
  for (std::uint64_t id = 0; id < 10; ++id) ASSERT_EQ(post_shared(id), 0);
  EXPECT_EQ(post_shared(10), ENOMEM);
  attributes.max_wr = 9;
  EXPECT_EQ(ibv_modify_srq(srq, &attributes, IBV_SRQ_MAX_WR), EINVAL);
  attributes.max_wr = 12;
  EXPECT_EQ(ibv_modify_srq(srq, &attributes, IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(post_shared(10), 0);
  attributes.srq_limit = 13;
  EXPECT_EQ(ibv_modify_srq(srq, &attributes, IBV_SRQ_LIMIT), EINVAL);
  ibv_sge sges[3] = {b.sge(0, 1), b.sge(1, 1), b.sge(2, 1)};
  ibv_recv_wr request{.wr_id = 1, .next = nullptr, .sg_list = sges, .num_sge = 3};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq, &request, &bad), EINVAL);
  EXPECT_EQ(bad, &request);
}

TEST_F(SharedReceiveQueue, ReportsItsLimitOnce) {
  connect(a, b);
  for (std::uint64_t id = 0; id < 3; ++id) ASSERT_EQ(post_shared(id), 0);
  ibv_srq_attr attributes{.max_wr = 0, .max_sge = 0, .srq_limit = 3};
  ASSERT_EQ(ibv_modify_srq(srq, &attributes, IBV_SRQ_LIMIT), 0);
  send();
  expect_event(b, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
  ASSERT_EQ(ibv_query_srq(srq, &attributes), 0);
  EXPECT_EQ(attributes.srq_limit, 0u);
}

TEST_F(SharedReceiveQueue, TheLastReceiveOfAQueuePairInErrorIsReported) {
  connect(a, b);
  ASSERT_EQ(post_shared(0), 0);
  ibv_qp_attr to_error{};
  to_error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(b.qp.get(), &to_error, IBV_QP_STATE), 0);
  expect_event(b, IBV_EVENT_QP_LAST_WQE_REACHED, b.qp.get());
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(b.cq.get(), 1, &none), 0) << "what is posted to the queue stays there";
}

TEST_F(SharedReceiveQueue, UnreadEventsDoNotKeepItFromGoing) {
  ibv_srq_init_attr wanted{};
  wanted.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const other = ibv_create_srq(b.pd.get(), &wanted);
  ibv_srq_attr attributes{.max_wr = 0, .max_sge = 0, .srq_limit = 2};
  ASSERT_EQ(ibv_modify_srq(other, &attributes, IBV_SRQ_LIMIT), 0);  // below it already: event
  EXPECT_EQ(ibv_destroy_srq(other), 0);
  pollfd waiting{b.context->async_fd, POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
}

TEST_F(SharedReceiveQueue, TheBasicKindComesByTheExtendedCallTooOthersAreRefused) {
  ibv_srq_init_attr_ex wanted{};
  wanted.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  wanted.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
  wanted.pd = b.pd.get();
  wanted.srq_type = IBV_SRQT_BASIC;
  ibv_srq* const basic = ibv_create_srq_ex(b.context.get(), &wanted);
  ASSERT_NE(basic, nullptr);
  std::uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(basic, &number), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_srq(basic), 0);
  wanted.srq_type = IBV_SRQT_TM;
  EXPECT_EQ(ibv_create_srq_ex(b.context.get(), &wanted), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(SharedReceiveQueue, MoreThanTheDeviceHasIsRefused) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(b.context.get(), &device), 0);
  ibv_srq_init_attr wanted{};
  const auto wr_max = static_cast<std::uint32_t>(device.max_srq_wr),
             sge_max = static_cast<std::uint32_t>(device.max_srq_sge);
  wanted.attr = {.max_wr = wr_max + 1, .max_sge = 1, .srq_limit = 0};
  EXPECT_EQ(ibv_create_srq(b.pd.get(), &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
  wanted.attr = {.max_wr = 1, .max_sge = sge_max + 1, .srq_limit = 0};
  EXPECT_EQ(ibv_create_srq(b.pd.get(), &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
  wanted.attr = {.max_wr = wr_max, .max_sge = sge_max, .srq_limit = 0};
  ibv_srq* const most = ibv_create_srq(b.pd.get(), &wanted);
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(ibv_destroy_srq(most), 0);
}

}  // namespace
}  // namespace brdma::test
