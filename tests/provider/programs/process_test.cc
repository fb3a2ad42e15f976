// Programs that use processes, descriptors, signals and threads while a device is open.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

class Processes : public testing::Test {
 protected:
  Processes() : a(Side::make()), b(Side::make()) { connect(a, b); }
  void write(std::uint64_t wr_id = 1) {
    ibv_sge sge = a.sge(0, 64);
    ibv_send_wr request = write_request(sge, b);
    request.wr_id = wr_id;
    ASSERT_EQ(post_send(a, request), 0);
  }
  void expect_it_works() {
    write(7);
    const ibv_wc done = wait_completion(a.cq.get());
    EXPECT_EQ(done.status, IBV_WC_SUCCESS) << ibv_wc_status_str(done.status);
    EXPECT_EQ(done.wr_id, 7u);
  }
  void send_to_b(std::uint32_t bytes = 8) {
    ibv_sge sge = a.sge(0, bytes);
    ibv_send_wr request = send_request(sge);
    ASSERT_EQ(post_send(a, request), 0);
  }
  Side a, b;
};

int exit_code(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// In a process of its own, because it cannot be undone: from then on pages of regions do not exist in children.
TEST(ForkInit, ChildrenOfAProgramThatCallsItWork) {
  const pid_t program = ::fork();
  ASSERT_GE(program, 0);
  if (program == 0) {
    if (ibv_fork_init() != 0) ::_exit(2);
    const Owned<ibv_context> context = open_first_device();
    const Owned<ibv_pd> pd(ibv_alloc_pd(context.get()));
    constexpr std::size_t kBytes = 1 << 16;
    void* const pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ibv_mr* const mr = ibv_reg_mr(pd.get(), pages, kBytes, int{IBV_ACCESS_LOCAL_WRITE});
    if (mr == nullptr) ::_exit(3);
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/true", "true", nullptr);
      ::_exit(127);
    }
    const int code = exit_code(child);
    ::_exit(code == 0 && ibv_dereg_mr(mr) == 0 ? 0 : 4);
  }
  EXPECT_EQ(exit_code(program), 0);
}

// A child that opens a device of its own and works with it, while its parent goes on.
TEST_F(Processes, AChildOpensItsOwn) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Side c = Side::make(), d = Side::make();
    connect(c, d);
    ibv_sge sge = c.sge(0, 64);
    ibv_send_wr request = write_request(sge, d);
    const bool posted = post_send(c, request) == 0;
    ::_exit(posted && wait_completion(c.cq.get()).status == IBV_WC_SUCCESS ? 0 : 1);
  }
  for (int i = 0; i < 50; ++i) expect_it_works();
  EXPECT_EQ(exit_code(child), 0);
  expect_it_works();
}

// A child that leaves by exit() runs the library's destructors with its parent's devices in memory.
TEST_F(Processes, AChildThatEndsDoesNoHarm) {
  for (int round = 0; round < 3; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) std::exit(0);
    expect_it_works();
    EXPECT_EQ(exit_code(child), 0);
  }
  expect_it_works();
}

TEST_F(Processes, AnotherProgramIsStarted) {
  write();
  EXPECT_EQ(std::system("exec /bin/true"), 0);
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", "ls /proc/self/fd | wc -l >/dev/null", nullptr);
    ::_exit(127);
  }
  expect_it_works();
  EXPECT_EQ(exit_code(child), 0);
}

// Descriptors that a program may copy: events come on the copy, and closing it harms nobody.
TEST_F(Processes, DescriptorsAreCopied) {
  const int channel = ::dup(b.channel->fd), async = ::fcntl(b.context->async_fd, F_DUPFD_CLOEXEC, 0),
            command = ::dup(b.context->cmd_fd);
  ASSERT_GE(channel, 0);
  ASSERT_GE(async, 0);
  ASSERT_GE(command, 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  ASSERT_EQ(post_receive(b, 1, 0, 64), 0);
  send_to_b();
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  pollfd readable{channel, POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, 10'000), 1);
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(b.channel.get(), &cq, &user), 0);
  EXPECT_EQ(cq, b.cq.get());
  ibv_ack_cq_events(cq, 1);
  for (const int fd : {channel, async, command}) EXPECT_EQ(::close(fd), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  expect_it_works();
}

extern "C" void count_nothing(int) {}

// Signals, every millisecond and without SA_RESTART, while the program sleeps on a completion channel.
TEST_F(Processes, SignalsInterruptAndLoseNothing) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = count_nothing;
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const itimerval often{.it_interval = {0, 1000}, .it_value = {0, 1000}}, never{};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  int interrupted = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
    ASSERT_EQ(post_receive(b, i, 0, 64), 0);
    // Some messages come later, so that the program sleeps.
    std::thread later([&] {
      if (i % 10 == 0) ::poll(nullptr, 0, 5);
      send_to_b();
    });
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    while (ibv_get_cq_event(b.channel.get(), &cq, &user) != 0) {
      ASSERT_EQ(errno, EINTR);
      ++interrupted;
    }
    later.join();
    ibv_ack_cq_events(cq, 1);
    EXPECT_EQ(wait_completion(b.cq.get()).wr_id, i);
    EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  }
  ASSERT_EQ(::setitimer(ITIMER_REAL, &never, nullptr), 0);
  ASSERT_EQ(::sigaction(SIGALRM, &before, nullptr), 0);
  EXPECT_GT(interrupted, 0);
}

// Eight threads, each with a queue pair and a completion queue of its own, on one device.
TEST(Threads, EightOfThemUseOneDevice) {
  constexpr std::size_t kThreads = 8, kRounds = 200;
  Side a = Side::make(), b = Side::make();
  struct Lane {
    Owned<ibv_cq> cq;
    Owned<ibv_qp> qp, peer;
  };
  std::vector<Lane> lanes(kThreads);
  for (Lane& lane : lanes) {
    lane.cq.reset(ibv_create_cq(a.context.get(), 64, nullptr, nullptr, 0));
    ibv_qp_init_attr wanted = usual_queue_pair(lane.cq.get());
    lane.qp.reset(ibv_create_qp(a.pd.get(), &wanted));
    wanted = usual_queue_pair(b.cq.get());
    lane.peer.reset(ibv_create_qp(b.pd.get(), &wanted));
    for (ibv_qp* qp : {lane.qp.get(), lane.peer.get()}) ASSERT_EQ(to_init(qp), 0);
    ASSERT_EQ(to_rtr(lane.qp.get(), lane.peer.get()), 0);
    ASSERT_EQ(to_rtr(lane.peer.get(), lane.qp.get()), 0);
    for (ibv_qp* qp : {lane.qp.get(), lane.peer.get()}) ASSERT_EQ(to_rts(qp), 0);
  }
  std::atomic<std::size_t> done{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < kRounds; ++i) {
        // Objects are created and destroyed beside the work of the others.
        ibv_mr* const mr = ibv_reg_mr(a.pd.get(), a.memory.data() + t * 64, 64, int{IBV_ACCESS_LOCAL_WRITE});
        ASSERT_NE(mr, nullptr);
        a.memory[t * 64] = static_cast<std::uint8_t>(i);
        ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(mr->addr), .length = 64, .lkey = mr->lkey};
        ibv_send_wr request = write_request(sge, b);
        request.wr_id = i;
        request.wr.rdma.remote_addr += t * 64;
        ibv_send_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_send(lanes[t].qp.get(), &request, &bad), 0);
        const ibv_wc completion = wait_completion(lanes[t].cq.get());
        ASSERT_EQ(completion.status, IBV_WC_SUCCESS);
        ASSERT_EQ(completion.wr_id, i);
        ASSERT_EQ(b.memory[t * 64], static_cast<std::uint8_t>(i));
        ASSERT_EQ(ibv_dereg_mr(mr), 0);
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, kThreads * kRounds);
}

// Nobody has read them: they go with their object.
TEST_F(Processes, ObjectsGoWithUnreadEvents) {
  ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  ASSERT_EQ(post_receive(b, 1, 0, 64), 0);
  send_to_b();
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  pollfd readable{b.channel->fd, POLLIN, 0};
  ASSERT_EQ(::poll(&readable, 1, 10'000),
            1);  // a completion event, and the asynchronous one of an established connection
  b.qp.reset();
  b.cq.reset();
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
  readable = {b.context->async_fd, POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
}

}  // namespace
}  // namespace brdma::test
