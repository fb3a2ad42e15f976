// A forked child's view of its parent's devices. With queue pairs at the fork: an error from each call, and an event or
// the end of file wherever it waits; it never hangs. Without: a usable device, for the first process that makes queue
// pairs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr int kPatienceMs = 10'000;

// 0: no failure in it.
int in_a_child(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

short waited(int fd) {
  pollfd asked{fd, POLLIN, 0};
  return ::poll(&asked, 1, kPatienceMs) == 1 ? asked.revents : short{0};
}

void expect_fatal_and_the_end(ibv_context* context) {
  ibv_async_event event{};
  ASSERT_NE(waited(context->async_fd) & POLLIN, 0);
  ASSERT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
  ibv_ack_async_event(&event);
  EXPECT_EQ(ibv_get_async_event(context, &event), -1) << "and it does not wait";
}

void expect_an_event_and_the_end(ibv_comp_channel* channel, ibv_cq* expected) {
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  ASSERT_NE(waited(channel->fd) & POLLIN, 0);
  ASSERT_EQ(ibv_get_cq_event(channel, &cq, &user), 0);
  EXPECT_EQ(cq, expected);
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(ibv_get_cq_event(channel, &cq, &user), -1) << "and it does not wait";
}

class Forks : public testing::Test {
 protected:
  Forks() : a(Side::make()), b(Side::make()) { connect(a, b); }
  [[nodiscard]] ibv_send_wr write(ibv_sge& sge) const {
    sge = a.sge(0, 64);
    return write_request(sge, b);
  }
  void expect_it_works() {
    ibv_sge sge;
    ASSERT_EQ(ibv_req_notify_cq(a.cq.get(), 0), 0);
    ASSERT_EQ(post_send(a, write(sge)), 0);
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    ASSERT_NE(waited(a.channel->fd) & POLLIN, 0);
    ASSERT_EQ(ibv_get_cq_event(a.channel.get(), &cq, &user), 0);
    ibv_ack_cq_events(cq, 1);
    EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  }
  Side a, b;
};

TEST_F(Forks, EveryCallOfAChildFailsAtOnce) {
  ibv_cq_init_attr_ex cq_wanted{};
  cq_wanted.cqe = 16;
  ibv_cq_ex* const cq_ex = ibv_create_cq_ex(a.context.get(), &cq_wanted);
  ASSERT_NE(cq_ex, nullptr);
  ibv_qp_init_attr_ex qp_wanted{};
  qp_wanted.send_cq = qp_wanted.recv_cq = a.cq.get();
  qp_wanted.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  qp_wanted.qp_type = IBV_QPT_RC;
  qp_wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  qp_wanted.pd = a.pd.get();
  qp_wanted.send_ops_flags = IBV_QP_EX_WITH_SEND;
  ibv_qp* const qp = ibv_create_qp_ex(a.context.get(), &qp_wanted);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(in_a_child([&] {
              ibv_sge sge;
              ibv_wc completion{};
              EXPECT_EQ(post_send(a, write(sge)), EIO);
              EXPECT_EQ(post_receive(b, 1, 0, 64), EIO);
              EXPECT_LT(ibv_poll_cq(a.cq.get(), 1, &completion), 0);
              EXPECT_EQ(ibv_req_notify_cq(a.cq.get(), 0), EIO);
              ibv_poll_cq_attr from_first{};
              EXPECT_EQ(ibv_start_poll(cq_ex, &from_first), EIO);
              ibv_qp_ex* const ex = ibv_qp_to_qp_ex(qp);
              ibv_wr_start(ex);
              ibv_wr_send(ex);
              ibv_wr_set_sge(ex, sge.lkey, sge.addr, 64);
              EXPECT_EQ(ibv_wr_complete(ex), EIO);
              ibv_wr_start(ex);
              ibv_wr_abort(ex);
              EXPECT_EQ(ibv_create_cq(a.context.get(), 1, nullptr, nullptr, 0), nullptr);
              EXPECT_EQ(errno, EIO);
              EXPECT_EQ(ibv_reg_mr(a.pd.get(), a.memory.data(), 64, 0), nullptr);
              ibv_qp_init_attr wanted = usual_queue_pair(a.cq.get());
              EXPECT_EQ(ibv_create_qp(a.pd.get(), &wanted), nullptr);
              ibv_device_attr attributes{};
              EXPECT_NE(ibv_query_device(a.context.get(), &attributes), 0);
            }),
            0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), 0);
  expect_it_works();
}

// It may release everything it inherits, including events that its parent has read and not acknowledged.
TEST_F(Forks, AChildDestroysWhatItInherits) {
  ASSERT_EQ(ibv_req_notify_cq(a.cq.get(), 0), 0);
  ibv_sge sge;
  ASSERT_EQ(post_send(a, write(sge)), 0);
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(a.channel.get(), &cq, &user), 0);
  EXPECT_EQ(in_a_child([&] {
              for (Side* side : {&a, &b}) {
                side->qp.reset();
                side->mr.reset();
                side->cq.reset();
                side->channel.reset();
                side->pd.reset();
                side->context.reset();
              }
            }),
            0);
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  expect_it_works();
}

TEST_F(Forks, AWaitingChildIsNotified) {
  EXPECT_EQ(in_a_child([&] {
              expect_an_event_and_the_end(a.channel.get(), a.cq.get());
              expect_an_event_and_the_end(b.channel.get(), b.cq.get());
              expect_fatal_and_the_end(a.context.get());
            }),
            0);
  expect_it_works();  // none of its events was the child's
}

// Opens its device, arms its queue, becomes a daemon (the parent ends), and waits: by poll(), and by an epoll set that
// is older than the fork.
TEST(Daemons, AreNotifiedThatTheirDeviceIsGone) {
  std::array<int, 2> result{};
  ASSERT_EQ(::pipe2(result.data(), O_CLOEXEC), 0);
  std::fflush(nullptr);
  const pid_t program = ::fork();
  if (program == 0) {
    ::alarm(30);
    Side a = Side::make(), b = Side::make();
    connect(a, b);
    EXPECT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
    EXPECT_EQ(post_receive(b, 1, 0, 64), 0);
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    epoll_event interest{.events = EPOLLIN, .data = {.u64 = 7}};
    EXPECT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, b.channel->fd, &interest), 0);
    if (::fork() != 0) ::_exit(0);
    epoll_event ready{};
    EXPECT_EQ(::epoll_wait(epoll, &ready, 1, kPatienceMs), 1);
    EXPECT_EQ(ready.data.u64, 7u);
    expect_an_event_and_the_end(b.channel.get(), b.cq.get());
    ibv_wc completion{};
    EXPECT_LT(ibv_poll_cq(b.cq.get(), 1, &completion), 0);
    expect_fatal_and_the_end(b.context.get());
    const char good = testing::Test::HasFailure() ? 'n' : 'y';
    ::_exit(::write(result[1], &good, 1) == 1 ? 0 : 1);
  }
  ::close(result[1]);
  char good = 0;
  EXPECT_EQ(::read(result[0], &good, 1), 1);
  EXPECT_EQ(good, 'y');
  ::close(result[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(program, &status, 0), program);
}

// Opened before the fork, and the queue pairs made in the child: a daemon may do so.
TEST(Daemons, MayOpenTheirDeviceBefore) {
  const Owned<ibv_context> context = open_first_device();
  const Owned<ibv_pd> pd(ibv_alloc_pd(context.get()));
  const Owned<ibv_comp_channel> channel(ibv_create_comp_channel(context.get()));
  const Owned<ibv_cq> cq(ibv_create_cq(context.get(), 16, nullptr, channel.get(), 0));
  std::array<std::uint8_t, 8192> memory{};
  const Owned<ibv_mr> mr(
      ibv_reg_mr(pd.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  ibv_qp_init_attr wanted = usual_queue_pair(cq.get());
  EXPECT_EQ(in_a_child([&] {
              const Owned<ibv_qp> qp(ibv_create_qp(pd.get(), &wanted)), peer(ibv_create_qp(pd.get(), &wanted));
              ASSERT_TRUE(qp != nullptr && peer != nullptr);
              for (ibv_qp* each : {qp.get(), peer.get()}) ASSERT_EQ(to_init(each), 0);
              ASSERT_EQ(to_rtr(qp.get(), peer.get()), 0);
              ASSERT_EQ(to_rtr(peer.get(), qp.get()), 0);
              for (ibv_qp* each : {qp.get(), peer.get()}) ASSERT_EQ(to_rts(each), 0);
              for (int i = 0; i < 3; ++i) {
                ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
                ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(memory.data()), .length = 64, .lkey = mr->lkey};
                ibv_send_wr request = send_request(sge), *bad = nullptr;
                request.opcode = IBV_WR_RDMA_WRITE;
                request.wr.rdma = {.remote_addr = sge.addr + 4096, .rkey = mr->rkey};
                ASSERT_EQ(ibv_post_send(qp.get(), &request, &bad), 0);
                ibv_cq* event_cq = nullptr;
                void* user = nullptr;
                ASSERT_NE(waited(channel->fd) & POLLIN, 0) << "the child has a progress thread";
                ASSERT_EQ(ibv_get_cq_event(channel.get(), &event_cq, &user), 0);
                ibv_ack_cq_events(event_cq, 1);
                EXPECT_EQ(wait_completion(cq.get()).status, IBV_WC_SUCCESS);
              }
            }),
            0);
  EXPECT_EQ(ibv_create_qp(pd.get(), &wanted), nullptr) << "the child has made some";
  EXPECT_EQ(errno, EBUSY);
}

TEST(RdmaCm, AChildGetsAnErrorFromItsParentsChannel) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(in_a_child([&] {
              EXPECT_NE(waited(channel->fd) & POLLIN, 0);
              rdma_cm_event* event = nullptr;
              EXPECT_EQ(rdma_get_cm_event(channel, &event), -1);
              EXPECT_EQ(errno, EBADF);
            }),
            0);
  pollfd asked{channel->fd, POLLIN, 0};
  EXPECT_EQ(::poll(&asked, 1, 0), 0) << "the parent's own has nothing to read";
  rdma_destroy_event_channel(channel);
}

}  // namespace
}  // namespace brdma::test
