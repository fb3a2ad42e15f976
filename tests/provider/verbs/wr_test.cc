// The ibv_wr_* functions, through the real libibverbs: every operation and every way to give it its data, batches that
// are posted whole or not at all, several threads.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr std::uint64_t kOperations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                                      IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

ibv_qp_init_attr_ex usual_extended(const Side& side, std::uint64_t operations) {
  const ibv_qp_init_attr usual = usual_queue_pair(side.cq.get());
  ibv_qp_init_attr_ex out{};
  out.send_cq = usual.send_cq;
  out.recv_cq = usual.recv_cq;
  out.cap = usual.cap;
  out.qp_type = usual.qp_type;
  out.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  out.pd = side.pd.get();
  out.send_ops_flags = operations;
  return out;
}

Side make_extended(std::uint64_t operations) {
  Side side = Side::make();
  ibv_qp_init_attr_ex wanted = usual_extended(side, operations);
  side.qp.reset(ibv_create_qp_ex(side.context.get(), &wanted));
  EXPECT_NE(side.qp, nullptr);
  return side;
}

class WorkRequests : public testing::Test {
 protected:
  WorkRequests() : a(make_extended(kOperations)), b(Side::make()), qp(ibv_qp_to_qp_ex(a.qp.get())) {
    connect(a, b);
    qp->wr_flags = IBV_SEND_SIGNALED;
  }
  [[nodiscard]] std::uint64_t target(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(b.memory.data()) + offset;
  }
  void set_sge(std::size_t offset, std::uint32_t bytes) {
    ibv_wr_set_sge(qp, a.mr->lkey, reinterpret_cast<std::uintptr_t>(a.memory.data()) + offset, bytes);
  }
  void write(std::uint64_t wr_id, std::uint32_t bytes = 8) {
    qp->wr_id = wr_id;
    ibv_wr_rdma_write(qp, b.mr->rkey, target());
    set_sge(0, bytes);
  }
  void expect_done(std::uint64_t wr_id, ibv_wc_opcode opcode) {
    const ibv_wc completion = wait_completion(a.cq.get());
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
    EXPECT_EQ(completion.wr_id, wr_id);
    EXPECT_EQ(completion.opcode, opcode);
  }
  // Nothing of the refused batch has been posted, and the next batch works.
  void expect_nothing_posted() {
    ibv_wr_start(qp);
    write(777);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    expect_done(777, IBV_WC_RDMA_WRITE);
    ibv_wc completion{};
    EXPECT_EQ(ibv_poll_cq(a.cq.get(), 1, &completion), 0);
  }
  Side a, b;
  ibv_qp_ex* qp;
};

TEST_F(WorkRequests, EachOperationMovesItsBytes) {
  constexpr std::uint32_t kBytes = 5000;
  std::iota(a.memory.begin(), a.memory.begin() + kBytes, std::uint8_t{1});
  const auto arrived = [&](std::size_t offset) {
    const bool equal = std::memcmp(a.memory.data(), b.memory.data() + offset, kBytes) == 0;
    std::fill(b.memory.begin(), b.memory.end(), std::uint8_t{0});
    return equal;
  };
  const auto run = [&](std::uint64_t wr_id, ibv_wc_opcode opcode, auto build) {
    qp->wr_id = wr_id;
    ibv_wr_start(qp);
    build();
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    expect_done(wr_id, opcode);
  };
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(post_receive(b, i, 8192, kBytes), 0);
  run(1, IBV_WC_SEND, [&] { ibv_wr_send(qp), set_sge(0, kBytes); });
  EXPECT_EQ(wait_completion(b.cq.get()).byte_len, kBytes);
  EXPECT_TRUE(arrived(8192));
  run(2, IBV_WC_SEND, [&] { ibv_wr_send_imm(qp, 0x12345678), set_sge(0, kBytes); });
  EXPECT_EQ(wait_completion(b.cq.get()).imm_data, 0x12345678u);
  EXPECT_TRUE(arrived(8192));
  run(3, IBV_WC_RDMA_WRITE, [&] { ibv_wr_rdma_write(qp, b.mr->rkey, target()), set_sge(0, kBytes); });
  EXPECT_TRUE(arrived(0));
  run(4, IBV_WC_RDMA_WRITE, [&] { ibv_wr_rdma_write_imm(qp, b.mr->rkey, target(), 7), set_sge(0, kBytes); });
  const ibv_wc immediate = wait_completion(b.cq.get());
  EXPECT_EQ(immediate.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(immediate.imm_data, 7u);
  EXPECT_TRUE(arrived(0));
  std::iota(b.memory.begin(), b.memory.begin() + kBytes, std::uint8_t{9});
  run(5, IBV_WC_RDMA_READ, [&] { ibv_wr_rdma_read(qp, b.mr->rkey, target()), set_sge(0, kBytes); });
  EXPECT_TRUE(arrived(0));

  std::uint64_t counter = 1000, old = 0;
  std::memcpy(b.memory.data(), &counter, sizeof counter);
  run(6, IBV_WC_FETCH_ADD, [&] { ibv_wr_atomic_fetch_add(qp, b.mr->rkey, target(), 5), set_sge(64, 8); });
  std::memcpy(&old, a.memory.data() + 64, sizeof old);
  EXPECT_EQ(old, 1000u);
  run(7, IBV_WC_COMP_SWAP, [&] { ibv_wr_atomic_cmp_swp(qp, b.mr->rkey, target(), 1005, 77), set_sge(64, 8); });
  std::memcpy(&counter, b.memory.data(), sizeof counter);
  EXPECT_EQ(counter, 77u);
}

// A batch of mixed kinds of data, larger than the initial room; buffers of inline data are gone before anything is
// posted.
TEST_F(WorkRequests, DataIsGivenInFourForms) {
  std::iota(a.memory.begin(), a.memory.end(), std::uint8_t{0});
  constexpr std::uint64_t kGroups = 12;
  ibv_wr_start(qp);
  for (std::uint64_t i = 0; i < kGroups; ++i) {
    qp->wr_flags = i + 1 == kGroups ? IBV_SEND_SIGNALED : 0;
    qp->wr_id = i;
    ibv_wr_rdma_write(qp, b.mr->rkey, target(i * 64));
    set_sge(i, 16);
    ibv_wr_rdma_write(qp, b.mr->rkey, target(i * 64 + 16));
    const std::array list{a.sge(16 + i, 5), a.sge(21 + i, 11)};
    ibv_wr_set_sge_list(qp, list.size(), list.data());
    std::array<std::uint8_t, 16> buffer{};
    std::iota(buffer.begin(), buffer.end(), static_cast<std::uint8_t>(32 + i));
    ibv_wr_rdma_write(qp, b.mr->rkey, target(i * 64 + 32));
    ibv_wr_set_inline_data(qp, buffer.data(), buffer.size());
    std::iota(buffer.begin(), buffer.end(), static_cast<std::uint8_t>(48 + i));
    const std::array<ibv_data_buf, 3> pieces{{{buffer.data(), 7}, {nullptr, 0}, {buffer.data() + 7, 9}}};
    ibv_wr_rdma_write(qp, b.mr->rkey, target(i * 64 + 48));
    ibv_wr_set_inline_data_list(qp, pieces.size(), pieces.data());
    buffer.fill(0xFF);
  }
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  expect_done(kGroups - 1, IBV_WC_RDMA_WRITE);
  for (std::size_t i = 0; i < kGroups; ++i) {
    EXPECT_EQ(std::memcmp(b.memory.data() + i * 64, a.memory.data() + i, 64), 0) << i;
  }
}

TEST_F(WorkRequests, ABatchIsPostedWholeOrNotAtAll) {
  std::array<ibv_sge, 40> many;
  many.fill(a.sge(0, 8));
  std::array<std::uint8_t, 4096> bytes{};
  const std::vector<std::function<void()>> mistakes{
      [&] { ibv_wr_send(qp), ibv_wr_set_sge_list(qp, many.size(), many.data()); },
      [&] { ibv_wr_send(qp), ibv_wr_set_inline_data(qp, bytes.data(), bytes.size()); },
      [&] { ibv_wr_rdma_read(qp, b.mr->rkey, target()), ibv_wr_set_inline_data(qp, bytes.data(), 8); },
      [&] { write(1), set_sge(0, 8); },                               // data twice
      [&] { ibv_wr_atomic_fetch_add(qp, b.mr->rkey, target(), 1); },  // no place for its answer
      [&] { ibv_wr_send_inv(qp, 1), set_sge(0, 8); },                 // not among those requested at creation
      [&] { ibv_wr_local_inv(qp, 1); },
      [&] {
        qp->wr_flags = 1u << 20;
        write(1);
        qp->wr_flags = IBV_SEND_SIGNALED;
      },
  };
  for (std::size_t i = 0; i < mistakes.size(); ++i) {
    SCOPED_TRACE(i);
    ibv_wr_start(qp);
    write(1);
    mistakes[i]();
    write(2);  // later calls do not repair it
    EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
    expect_nothing_posted();
  }
}

TEST_F(WorkRequests, ABatchThatIsLongerThanTheRoomIsNotPosted) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(a.qp.get(), &attributes, IBV_QP_CAP, &init), 0);
  const std::uint64_t room = init.cap.max_send_wr;
  const auto post = [&](std::uint64_t count) {
    ibv_wr_start(qp);
    for (std::uint64_t i = 0; i < count; ++i) write(i);
    return ibv_wr_complete(qp);
  };
  EXPECT_EQ(post(room + 1), ENOMEM);
  expect_nothing_posted();
  EXPECT_EQ(post(room), 0);
  for (std::uint64_t i = 0; i < room; ++i) expect_done(i, IBV_WC_RDMA_WRITE);
  // A part of the room is taken: a peer without receives holds the queue.
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  set_sge(0, 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(post(room), ENOMEM);
  EXPECT_EQ(post(room - 1), 0);
  ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
  EXPECT_EQ(wait_completion(a.cq.get()).opcode, IBV_WC_SEND);
  for (std::uint64_t i = 0; i + 1 < room; ++i) expect_done(i, IBV_WC_RDMA_WRITE);
}

TEST_F(WorkRequests, AbortedAndEmptyBatchesPostNothing) {
  ibv_wr_start(qp);
  write(1);
  ibv_wr_abort(qp);
  ibv_wr_start(qp);
  EXPECT_EQ(ibv_wr_complete(qp), 0);
  ibv_wr_start(qp);
  set_sge(0, 8);  // no request that it could belong to
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  expect_nothing_posted();
}

TEST_F(WorkRequests, MixWithPostSend) {
  ibv_sge sge = a.sge(0, 8);
  ibv_send_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {.remote_addr = target(), .rkey = b.mr->rkey};
  for (std::uint64_t i = 0; i < 6; i += 2) {
    ibv_wr_start(qp);
    write(i);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    request.wr_id = i + 1;
    ASSERT_EQ(post_send(a, request), 0);
  }
  for (std::uint64_t i = 0; i < 6; ++i) expect_done(i, IBV_WC_RDMA_WRITE);
}

// Batches of two threads do not mix: each arrives in one piece, none is lost.
TEST_F(WorkRequests, ThreadsTakeTurns) {
  constexpr std::uint64_t kBatches = 200, kThreads = 2, kBatch = 4;
  // Room for all of them: this thread may be kept from polling for as long as the others post.
  ASSERT_EQ(ibv_resize_cq(a.cq.get(), kBatches * kThreads * kBatch), 0);
  const auto work = [&](std::uint64_t thread) {
    for (std::uint64_t batch = 0; batch < kBatches;) {
      ibv_wr_start(qp);
      for (std::uint64_t i = 0; i < kBatch; ++i) write(thread << 32 | (batch * kBatch + i));
      const int error = ibv_wr_complete(qp);
      ASSERT_TRUE(error == 0 || error == ENOMEM) << error;
      if (error == 0) ++batch;
    }
  };
  std::array<std::thread, kThreads> threads;
  for (std::uint64_t i = 0; i < kThreads; ++i) threads[i] = std::thread(work, i);
  std::array<std::uint64_t, kThreads> next{};
  for (std::uint64_t done = 0; done < kBatches * kThreads * kBatch;) {
    const ibv_wc first = wait_completion(a.cq.get());
    ASSERT_EQ(first.status, IBV_WC_SUCCESS);
    const std::uint64_t thread = first.wr_id >> 32;
    ASSERT_LT(thread, kThreads);
    EXPECT_EQ(first.wr_id & 0xFFFFFFFF, next[thread]++);
    for (std::uint64_t i = 1; i < kBatch; ++i) {
      EXPECT_EQ(wait_completion(a.cq.get()).wr_id, thread << 32 | next[thread]++);
    }
    done += kBatch;
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(WorkRequestsUnconnected, AreRefused) {
  const Side side = make_extended(kOperations);
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(side.qp.get());
  for (const int count : {1, 2}) {
    ibv_wr_start(qp);
    for (int i = 0; i < count; ++i) {
      ibv_wr_send(qp);
      ibv_wr_set_sge(qp, side.mr->lkey, reinterpret_cast<std::uintptr_t>(side.memory.data()), 8);
    }
    EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  }
}

TEST(ExtendedQueuePair, WhatItCannotDoIsRefused) {
  const Side side = Side::make();
  EXPECT_EQ(ibv_qp_to_qp_ex(side.qp.get()), nullptr);
  const auto refused = [&](int error, auto change) {
    ibv_qp_init_attr_ex wanted = usual_extended(side, kOperations);
    change(wanted);
    errno = 0;
    return ibv_create_qp_ex(side.context.get(), &wanted) == nullptr && errno == error;
  };
  using Attributes = ibv_qp_init_attr_ex;
  EXPECT_TRUE(refused(EOPNOTSUPP, [](Attributes& wanted) { wanted.send_ops_flags |= IBV_QP_EX_WITH_TSO; }));
  EXPECT_TRUE(refused(EOPNOTSUPP, [](Attributes& wanted) { wanted.send_ops_flags |= 1ull << 40; }));
  EXPECT_TRUE(refused(EINVAL, [](Attributes& wanted) { wanted.comp_mask |= IBV_QP_INIT_ATTR_XRCD; }));
  EXPECT_TRUE(refused(EOPNOTSUPP, [](Attributes& wanted) { wanted.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH; }));
  EXPECT_TRUE(refused(EOPNOTSUPP, [](Attributes& wanted) {
    wanted.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
    wanted.create_flags = IBV_QP_CREATE_SCATTER_FCS;
  }));
  EXPECT_TRUE(refused(EINVAL, [](Attributes& wanted) { wanted.comp_mask &= ~IBV_QP_INIT_ATTR_PD; }));
  EXPECT_TRUE(refused(EINVAL, [](Attributes& wanted) { wanted.cap.max_send_wr = 1 << 20; }));
  ibv_qp_init_attr_ex wanted = usual_extended(side, IBV_QP_EX_WITH_SEND);
  const Owned<ibv_qp> qp(ibv_create_qp_ex(side.context.get(), &wanted));
  ASSERT_NE(qp, nullptr);
  EXPECT_NE(ibv_qp_to_qp_ex(qp.get()), nullptr);
  EXPECT_GE(wanted.cap.max_inline_data, 64u);
}

}  // namespace
}  // namespace brdma::test
