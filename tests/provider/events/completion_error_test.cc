// Each error that a completion can report, made through verbs: the cause, and the completions of both sides.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <cstring>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

class CompletionErrors : public testing::Test {
 protected:
  CompletionErrors() : a(Side::make()), b(Side::make()) {}
  void join() { connect(a, b); }

  ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge& sge) const {
    ibv_send_wr out{};
    out.wr_id = 42;
    out.sg_list = &sge;
    out.num_sge = 1;
    out.opcode = opcode;
    out.send_flags = IBV_SEND_SIGNALED;
    const auto address = reinterpret_cast<std::uintptr_t>(b.memory.data());
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      out.wr.atomic = {.remote_addr = address, .compare_add = 1, .swap = 0, .rkey = b.mr->rkey};
    } else {
      out.wr.rdma = {.remote_addr = address, .rkey = b.mr->rkey};
    }
    return out;
  }
  // The send fails so, with all members that a program may read; later requests are flushed, in both directions.
  void expect_send_error(ibv_wc_status status) {
    const ibv_wc completion = wait_completion(a.cq.get());
    EXPECT_EQ(completion.status, status) << ibv_wc_status_str(completion.status);
    EXPECT_EQ(completion.wr_id, 42u);
    EXPECT_EQ(completion.qp_num, a.qp->qp_num);
    ibv_sge sge = a.sge(0, 8);
    ibv_send_wr next = request(IBV_WR_RDMA_WRITE, sge);
    next.wr_id = 43;
    next.send_flags = 0;  // errors complete without a request, too
    ASSERT_EQ(post_send(a, next), 0);
    const ibv_wc flushed = wait_completion(a.cq.get());
    EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(flushed.wr_id, 43u);
    ASSERT_EQ(post_receive(a, 44, 0, 8), 0);
    EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_WR_FLUSH_ERR);
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(a.qp.get(), &now, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(now.qp_state, IBV_QPS_ERR);
  }
  void expect_receive_error(ibv_wc_status status) {
    const ibv_wc completion = wait_completion(b.cq.get());
    EXPECT_EQ(completion.status, status) << ibv_wc_status_str(completion.status);
    EXPECT_EQ(completion.wr_id, 7u);
    EXPECT_EQ(completion.qp_num, b.qp->qp_num);
  }
  // With times and counts that a test can wait for.
  void join_impatiently(std::uint8_t retry_count, std::uint8_t rnr_retry) {
    for (Side* side : {&a, &b}) ASSERT_EQ(to_init(side->qp.get()), 0);
    ASSERT_EQ(to_rtr(a.qp.get(), b.qp.get()), 0);
    ASSERT_EQ(to_rtr(b.qp.get(), a.qp.get()), 0);
    ASSERT_EQ(to_rts(b.qp.get()), 0);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = a.qp->qp_num & 0xFFFFFF;
    attributes.timeout = 8;  // a millisecond
    attributes.retry_cnt = retry_count;
    attributes.rnr_retry = rnr_retry;
    attributes.max_rd_atomic = 4;
    ASSERT_EQ(ibv_modify_qp(a.qp.get(), &attributes,
                            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }
  Side a, b;
};

TEST_F(CompletionErrors, AReceiveThatIsTooSmall) {
  join();
  ASSERT_EQ(post_receive(b, 7, 0, 8), 0);
  ibv_sge sge = a.sge(0, 100);
  ASSERT_EQ(post_send(a, request(IBV_WR_SEND, sge)), 0);
  expect_receive_error(IBV_WC_LOC_LEN_ERR);
  expect_send_error(IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(CompletionErrors, AReceiveWhoseMemoryIsNotRegistered) {
  join();
  ibv_sge wrong = b.sge(0, 64);
  wrong.lkey ^= 1;
  ibv_recv_wr receive{.wr_id = 7, .next = nullptr, .sg_list = &wrong, .num_sge = 1}, *bad = nullptr;
  ASSERT_EQ(ibv_post_recv(b.qp.get(), &receive, &bad), 0);
  ibv_sge sge = a.sge(0, 8);
  ASSERT_EQ(post_send(a, request(IBV_WR_SEND, sge)), 0);
  expect_receive_error(IBV_WC_LOC_PROT_ERR);
  expect_send_error(IBV_WC_REM_OP_ERR);
}

TEST_F(CompletionErrors, SendingMemoryThatIsNotRegistered) {
  join();
  ibv_sge wrong = a.sge(0, 8);
  wrong.lkey ^= 1;
  ASSERT_EQ(post_send(a, request(IBV_WR_RDMA_WRITE, wrong)), 0);
  expect_send_error(IBV_WC_LOC_PROT_ERR);
}

TEST_F(CompletionErrors, ReadingIntoMemoryThatIsTooShort) {
  join();
  ibv_sge beyond = a.sge(a.memory.size() - 4, 8);
  ASSERT_EQ(post_send(a, request(IBV_WR_RDMA_READ, beyond)), 0);
  expect_send_error(IBV_WC_LOC_PROT_ERR);
}

TEST_F(CompletionErrors, KeysAndRangesOfThePeer) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    SCOPED_TRACE(opcode);
    ibv_qp_init_attr wanted = usual_queue_pair(a.cq.get());
    a.qp.reset(ibv_create_qp(a.pd.get(), &wanted));
    wanted = usual_queue_pair(b.cq.get());
    b.qp.reset(ibv_create_qp(b.pd.get(), &wanted));
    join();
    ibv_sge sge = a.sge(0, 8);
    ibv_send_wr wrong = request(opcode, sge);
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wrong.wr.atomic.rkey ^= 1;
    } else {
      wrong.wr.rdma.remote_addr += b.memory.size() - 4;
    }
    ASSERT_EQ(post_send(a, wrong), 0);
    expect_send_error(IBV_WC_REM_ACCESS_ERR);
  }
}

TEST_F(CompletionErrors, WhatTheQueuePairDoesNotAllow) {
  join();
  ibv_qp_attr closed{};  // no flag: no remote access
  ASSERT_EQ(ibv_modify_qp(b.qp.get(), &closed, IBV_QP_ACCESS_FLAGS), 0);
  ibv_sge sge = a.sge(0, 8);
  ASSERT_EQ(post_send(a, request(IBV_WR_RDMA_WRITE, sge)), 0);
  const ibv_wc completion = wait_completion(a.cq.get());
  // IBTA 9.7.4.1.5: an invalid request; peers of other makes may see an access error in it.
  EXPECT_TRUE(completion.status == IBV_WC_REM_ACCESS_ERR || completion.status == IBV_WC_REM_INV_REQ_ERR)
      << ibv_wc_status_str(completion.status);
}

TEST_F(CompletionErrors, AnAtomicThatIsNotAligned) {
  join();
  ibv_sge sge = a.sge(0, 8);
  ibv_send_wr wrong = request(IBV_WR_ATOMIC_FETCH_AND_ADD, sge);
  wrong.wr.atomic.remote_addr += 4;
  ASSERT_EQ(post_send(a, wrong), 0);
  expect_send_error(IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(CompletionErrors, APeerThatIsNotThere) {
  join_impatiently(/*retry_count=*/1, /*rnr_retry=*/7);
  b.qp.reset();
  ibv_sge sge = a.sge(0, 8);
  ASSERT_EQ(post_send(a, request(IBV_WR_RDMA_WRITE, sge)), 0);
  expect_send_error(IBV_WC_RETRY_EXC_ERR);
}

TEST_F(CompletionErrors, APeerThatPostsNoReceive) {
  join_impatiently(/*retry_count=*/7, /*rnr_retry=*/1);
  ibv_sge sge = a.sge(0, 8);
  ASSERT_EQ(post_send(a, request(IBV_WR_SEND, sge)), 0);
  expect_send_error(IBV_WC_RNR_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace brdma::test
