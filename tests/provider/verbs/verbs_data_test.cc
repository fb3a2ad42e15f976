// Data through the real libibverbs, on connected queue pairs: every operation, posting lists, errors, a process that
// ends.
#include <gmock/gmock.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

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

// A list of more than one batch, with a bad one in the middle: earlier ones are executed, the bad one is named.
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

// A program that sees its last completion may end at once, without closing anything: the peer still gets its
// acknowledgement. In a ping-pong acknowledgements wait for the reply, which here never comes.
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
