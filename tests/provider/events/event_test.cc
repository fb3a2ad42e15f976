// Completion channels and asynchronous events: one event for each arming, none lost, and destruction that waits only
// for events that the program has read.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <thread>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

using namespace std::chrono_literals;

class Events : public testing::Test {
 protected:
  Events() : a(Side::make()), b(Side::make()) { connect(a, b); }

  void send(unsigned flags = IBV_SEND_SIGNALED) {
    ibv_sge sge = a.sge(0, 8);
    ibv_send_wr request{};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = flags;
    ASSERT_EQ(post_send(a, request), 0);
  }
  static bool readable(int fd, std::chrono::milliseconds time) {
    pollfd poll_fd{fd, POLLIN, 0};
    return ::poll(&poll_fd, 1, static_cast<int>(time.count())) == 1;
  }
  // An event of `side` is read and acknowledged; false: none came.
  static bool take_event(Side& side, std::chrono::milliseconds time = 10s) {
    if (!readable(side.channel->fd, time)) return false;
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(side.channel.get(), &cq, &cq_context), 0);
    EXPECT_EQ(cq, side.cq.get());
    ibv_ack_cq_events(cq, 1);
    return true;
  }
  Side a, b;
};

// Nobody polls: the progress thread receives and wakes the program.
TEST_F(Events, EachArmingBringsOneEvent) {
  for (int i = 0; i < 3; ++i) ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
    send();
    EXPECT_TRUE(take_event(b));
    EXPECT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);
    EXPECT_FALSE(readable(b.channel->fd, 0ms));
  }
  wait_completion(a.cq.get());
}

TEST_F(Events, WithoutArmingThereIsNone) {
  ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
  send();
  EXPECT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_FALSE(readable(b.channel->fd, 0ms));
}

TEST_F(Events, SolicitedOnlyWaitsForASolicitedOne) {
  for (int i = 0; i < 2; ++i) ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 1), 0);
  send();
  EXPECT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_FALSE(readable(b.channel->fd, 0ms));
  send(IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
  EXPECT_TRUE(take_event(b));
}

// As with adapters that arm with a consumer index: a program that polls, arms and sleeps loses nothing in between. One
// that arms when it is woken, and polls then, is not woken for the same completion again (perftest relies on it).
TEST_F(Events, ArmingWithAnUnpolledCompletionBringsOneAtOnce) {
  ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
  send();
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);  // so b's has been made
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 1), 0);
  EXPECT_FALSE(readable(b.channel->fd, 0ms)) << "it was not solicited";
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  EXPECT_TRUE(take_event(b, 0ms));
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  EXPECT_FALSE(readable(b.channel->fd, 0ms));
  EXPECT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  EXPECT_FALSE(readable(b.channel->fd, 0ms));
}

TEST_F(Events, ArmingWithAnUnpolledSolicitedOneBringsOneAtOnce) {
  ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
  send(IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 1), 0);
  EXPECT_TRUE(take_event(b, 0ms));
}

class Moderation : public Events {
 protected:
  static int moderate(Side& side, std::uint16_t count, std::uint16_t period_us) {
    ibv_modify_cq_attr wanted{.attr_mask = IBV_CQ_ATTR_MODERATE,
                              .moderate = {.cq_count = count, .cq_period = period_us}};
    return ibv_modify_cq(side.cq.get(), &wanted);
  }
  // Messages of a, each complete in b.
  void send_several(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
      send();
      ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
    }
  }
  static constexpr std::uint16_t kLongest = UINT16_MAX;  // 65 ms
};

TEST_F(Moderation, OneEventComesForSeveralCompletions) {
  ASSERT_EQ(moderate(b, 4, kLongest), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  const auto before = std::chrono::steady_clock::now();
  send_several(4);
  EXPECT_TRUE(take_event(b));
  EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_FALSE(readable(b.channel->fd, 0ms));
}

TEST_F(Moderation, TheEventOfTooFewComesAfterThePeriod) {
  ASSERT_EQ(moderate(b, 1000, kLongest), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  const auto before = std::chrono::steady_clock::now();
  send_several(1);
  EXPECT_TRUE(take_event(b));
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::microseconds(kLongest));
}

TEST_F(Moderation, CompletionsBeforeTheArmingCountToo) {
  ASSERT_EQ(moderate(b, 3, kLongest), 0);
  send_several(3);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  EXPECT_TRUE(take_event(b, 0ms));
}

TEST_F(Moderation, SwitchedOffItKeepsNothingBack) {
  ASSERT_EQ(moderate(b, 1000, kLongest), 0);
  send_several(1);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  ASSERT_EQ(moderate(b, 0, 0), 0);
  EXPECT_TRUE(take_event(b, 1s));
  ASSERT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  send_several(1);
  EXPECT_TRUE(take_event(b));
}

TEST_F(Moderation, OfNothingOrOfMoreThanThereIsIsRefused) {
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(b.context.get(), nullptr, &attributes), 0);
  EXPECT_EQ(attributes.cq_mod_caps.max_cq_count, UINT16_MAX);
  EXPECT_EQ(attributes.cq_mod_caps.max_cq_period, UINT16_MAX);
  ibv_modify_cq_attr wanted{.attr_mask = 0, .moderate = {.cq_count = 8, .cq_period = 8}};
  EXPECT_EQ(ibv_modify_cq(b.cq.get(), &wanted), EINVAL);
  wanted.attr_mask = IBV_CQ_ATTR_MODERATE | 2;
  EXPECT_EQ(ibv_modify_cq(b.cq.get(), &wanted), EOPNOTSUPP);
}

TEST_F(Events, FlushFiresAnArmedQueue) {
  ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(b.qp.get(), &error, IBV_QP_STATE), 0);
  EXPECT_TRUE(take_event(b));
}

TEST_F(Events, ChannelWorksWithEpollAndNonblocking) {
  ASSERT_EQ(::fcntl(b.channel->fd, F_SETFL, ::fcntl(b.channel->fd, F_GETFL) | O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(b.channel.get(), &cq, &cq_context), -1);
  EXPECT_EQ(errno, EAGAIN);
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event interest{.events = EPOLLIN, .data = {.fd = b.channel->fd}};
  ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, b.channel->fd, &interest), 0);
  ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  send();
  epoll_event ready{};
  EXPECT_EQ(::epoll_wait(epoll, &ready, 1, 10'000), 1);
  EXPECT_TRUE(take_event(b));
  ::close(epoll);
}

// Events that nobody has read are taken back; others' on the same channel stay.
TEST_F(Events, DestroyTakesBackUnreadEvents) {
  ibv_cq* other = ibv_create_cq(b.context.get(), 16, nullptr, b.channel.get(), 0);
  ibv_qp_init_attr wanted = usual_queue_pair(other);
  ibv_qp* qp = ibv_create_qp(b.pd.get(), &wanted);
  ASSERT_EQ(to_init(qp), 0);
  ibv_sge sge = b.sge(0, 8);
  ibv_recv_wr request{.wr_id = 9, .next = nullptr, .sg_list = &sge, .num_sge = 1}, *bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &request, &bad), 0);
  ASSERT_EQ(ibv_req_notify_cq(other, 0), 0);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);  // the flush is an event of `other`

  ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  send();
  EXPECT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);  // and this one of b.cq

  auto destroyed = std::async(std::launch::async, [&] { return ibv_destroy_qp(qp) + ibv_destroy_cq(other); });
  ASSERT_EQ(destroyed.wait_for(10s), std::future_status::ready) << "waits for an event that nobody has read";
  EXPECT_EQ(destroyed.get(), 0);
  EXPECT_TRUE(take_event(b));  // not the destroyed one's
  EXPECT_FALSE(readable(b.channel->fd, 0ms));
}

TEST_F(Events, DestroyWaitsForWhatWasRead) {
  ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  send();
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(b.channel.get(), &cq, &cq_context), 0);
  b.qp.reset();
  ibv_cq* doomed = b.cq.release();
  std::atomic<bool> acknowledged{false};
  auto destroyed = std::async(std::launch::async, [&] {
    const int result = ibv_destroy_cq(doomed);
    EXPECT_TRUE(acknowledged);
    return result;
  });
  EXPECT_EQ(destroyed.wait_for(50ms), std::future_status::timeout);
  acknowledged = true;
  ibv_ack_cq_events(doomed, 1);
  ASSERT_EQ(destroyed.wait_for(10s), std::future_status::ready);
  EXPECT_EQ(destroyed.get(), 0);
}

// Events of a destroyed queue pair are gone with it and cannot be read.
TEST_F(Events, UnreadAsyncEventsOfAQueuePairGoWithIt) {
  ibv_sge sge = a.sge(0, 8);
  ibv_send_wr write{};
  write.sg_list = &sge;
  write.num_sge = 1;
  write.opcode = IBV_WR_RDMA_WRITE;
  write.send_flags = IBV_SEND_SIGNALED;
  write.wr.rdma = {.remote_addr = 0, .rkey = 12345};
  ASSERT_EQ(post_send(a, write), 0);
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(readable(b.context->async_fd, 10s));
  auto destroyed = std::async(std::launch::async, [&] { b.qp.reset(); });
  ASSERT_EQ(destroyed.wait_for(10s), std::future_status::ready);
  EXPECT_FALSE(readable(b.context->async_fd, 0ms));
}

TEST_F(Events, ReadAsyncEventIsWaitedFor) {
  ibv_sge sge = a.sge(0, 8);
  ibv_send_wr write{};
  write.sg_list = &sge;
  write.num_sge = 1;
  write.opcode = IBV_WR_RDMA_WRITE;
  write.wr.rdma = {.remote_addr = 0, .rkey = 12345};
  ASSERT_EQ(post_send(a, write), 0);
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_REM_ACCESS_ERR);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(b.context.get(), &event), 0);
  auto destroyed = std::async(std::launch::async, [&] { b.qp.reset(); });
  EXPECT_EQ(destroyed.wait_for(50ms), std::future_status::timeout);
  ibv_ack_async_event(&event);
  ASSERT_EQ(destroyed.wait_for(10s), std::future_status::ready);
}

}  // namespace
}  // namespace brdma::test
