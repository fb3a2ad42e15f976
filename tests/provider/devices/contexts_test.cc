// Many ibv_contexts in one process: one lease of brdmad's behind them, and nothing else in common.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/daemon/daemon_client.h"
#include "io/daemon/lease.h"
#include "io/daemon/lease_protocol.h"
#include "io/private_network.h"
#include "io/test_network.h"
#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

using namespace std::chrono_literals;

// The processes that have leases, each as often as it has some.
std::multiset<pid_t> lessees() {
  std::multiset<pid_t> pids;
  const auto answer = io::query_daemon({{"query", "leases"}});
  if (!answer) return pids;
  for (const auto& lease : answer.value()["leases"]) pids.insert(lease["pid"].get<pid_t>());
  return pids;
}

std::size_t leases_a_context() {
  const char* const shards = std::getenv("BRDMA_SHARDS");
  return shards == nullptr ? 1 : static_cast<std::size_t>(std::atoi(shards));
}

// brdmad detects an end by the connection.
bool becomes_lessees(std::size_t count) {
  for (int tries = 0; tries < 500; ++tries, std::this_thread::sleep_for(10ms)) {
    if (lessees().size() == count) return true;
  }
  return false;
}

bool has_async_event(const Side& side) {
  pollfd waiting{side.context->async_fd, POLLIN, 0};
  return ::poll(&waiting, 1, 0) == 1;
}

ibv_wc write_to(Side& from, const Side& to) {
  ibv_sge sge = from.sge(0, 64);
  EXPECT_EQ(post_send(from, write_request(sge, to)), 0);
  return wait_completion(from.cq.get());
}

void expect_they_work(Side& a, Side& b) {
  for (Side* side : {&a, &b}) {
    const ibv_wc done = write_to(*side, side == &a ? b : a);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS) << ibv_wc_status_str(done.status);
    EXPECT_EQ(done.qp_num, side->qp->qp_num);
  }
}

// In the order in which a program destroys its objects.
void end(Side& side) { const Side ended(std::move(side)); }

int exit_code(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(Contexts, HundredsInOneProcessHaveOneLease) {
  constexpr std::size_t kContexts = 400;
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  std::vector<Owned<ibv_context>> contexts;
  for (std::size_t i = 0; i < kContexts; ++i) {
    contexts.push_back(open_first_device());
    ASSERT_NE(contexts.back(), nullptr) << i;
  }
  EXPECT_EQ(lessees().size(), leases_a_context());
  Side a = Side::make(), b = Side::make();
  connect(a, b);
  expect_they_work(a, b);
  EXPECT_NE(a.qp->qp_num, b.qp->qp_num);
  contexts.clear();
  expect_they_work(a, b);
  EXPECT_EQ(lessees().size(), leases_a_context());
  end(a);
  end(b);
  EXPECT_TRUE(becomes_lessees(0));
}

TEST(Contexts, EventsGoWhereTheyBelong) {
  Side a = Side::make(), b = Side::make();
  connect(a, b);
  for (Side* side : {&a, &b}) ASSERT_EQ(ibv_req_notify_cq(side->cq.get(), 1), 0);
  ASSERT_EQ(post_receive(b, 1, 0, 64), 0);
  ibv_sge sge = a.sge(0, 8);
  ibv_send_wr request = send_request(sge);
  request.send_flags |= IBV_SEND_SOLICITED;
  ASSERT_EQ(post_send(a, request), 0);
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);
  std::array channels{pollfd{a.channel->fd, POLLIN, 0}, pollfd{b.channel->fd, POLLIN, 0}};
  EXPECT_EQ(::poll(channels.data(), channels.size(), 10'000), 1);
  EXPECT_EQ(channels[0].revents, 0);
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(b.channel.get(), &cq, &user), 0);
  EXPECT_EQ(cq, b.cq.get());
  ibv_ack_cq_events(cq, 1);
  request = write_request(sge, b);
  ++request.wr.rdma.rkey;
  ASSERT_EQ(post_send(a, request), 0);
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_REM_ACCESS_ERR);
  expect_event(b, IBV_EVENT_QP_ACCESS_ERR, b.qp.get());
  EXPECT_FALSE(has_async_event(a));
}

TEST(Contexts, PortEventsGoToAll) {
  ASSERT_TRUE(ip("link add contexts0 type veth peer name contexts1"));
  for (const char* const name : {"contexts0", "contexts1"}) ASSERT_TRUE(ip(std::string("link set up ") + name));
  ASSERT_TRUE(wait_until_running("contexts0"));
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  std::vector<Side> sides(3);
  for (int i = 0; i < count; ++i) {
    if (std::string(ibv_get_device_name(list[i])) != "brdma_contexts0") continue;
    for (Side& side : sides) side.context.reset(ibv_open_device(list[i]));
  }
  ibv_free_device_list(list);
  sides.pop_back();  // one that is closed gets none
  ASSERT_TRUE(ip("link set down contexts0"));
  for (Side& side : sides) {
    ASSERT_NE(side.context, nullptr);
    pollfd waiting{side.context->async_fd, POLLIN, 0};
    ibv_async_event event{};
    do {
      ASSERT_EQ(::poll(&waiting, 1, 10'000), 1);
      ASSERT_EQ(ibv_get_async_event(side.context.get(), &event), 0);
      ibv_ack_async_event(&event);
    } while (event.event_type == IBV_EVENT_GID_CHANGE);
    EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
  }
  sides.clear();
  ASSERT_TRUE(ip("link del contexts0"));
}

// In one process and one engine, but separate contexts: domains are separate.
TEST(Contexts, KeysOfAnotherContextAreRefused) {
  Side a = Side::make(), b = Side::make(), c = Side::make(), d = Side::make();
  connect(a, b);
  connect(c, d);
  EXPECT_EQ(write_to(a, d).status, IBV_WC_REM_ACCESS_ERR);
  ibv_sge sge = a.sge(0, 64);
  ASSERT_EQ(post_send(c, write_request(sge, d)), 0);
  EXPECT_EQ(wait_completion(c.cq.get()).status, IBV_WC_LOC_PROT_ERR);
  ibv_qp_init_attr wanted = usual_queue_pair(b.cq.get());
  EXPECT_EQ(ibv_create_qp(a.pd.get(), &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Contexts, AreClosedInAnyOrder) {
  for (const bool first_goes_first : {true, false}) {
    Side a = Side::make(), b = Side::make(), c = Side::make(), d = Side::make();
    connect(b, c);
    expect_they_work(b, c);
    end(first_goes_first ? a : d);
    expect_they_work(b, c);
    end(first_goes_first ? d : a);
    expect_they_work(b, c);
    EXPECT_EQ(lessees().size(), leases_a_context());
  }
  EXPECT_TRUE(becomes_lessees(0));
}

// Objects left in a closed context are gone, as if the program had destroyed them.
TEST(Contexts, ObjectsGoWithTheirContext) {
  Side a = Side::make(), b = Side::make(), c = Side::make(), d = Side::make();
  connect(a, b);
  connect(c, d);
  expect_they_work(a, b);
  a.memory[0] = 1;
  EXPECT_EQ(write_to(a, b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(b.memory[0], 1);
  ibv_srq_init_attr shared{.srq_context = nullptr, .attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0}};
  ASSERT_NE(ibv_create_srq(b.pd.get(), &shared), nullptr);
  ibv_parent_domain_init_attr parent{};
  parent.pd = b.pd.get();
  ASSERT_NE(ibv_alloc_parent_domain(b.context.get(), &parent), nullptr);
  const std::uint32_t key = b.mr->rkey;
  (void)b.qp.release();
  (void)b.mr.release();
  (void)b.cq.release();
  (void)b.pd.release();
  (void)b.channel.release();
  EXPECT_EQ(ibv_close_device(b.context.release()), 0);
  a.memory[0] = 2;
  ibv_sge sge = a.sge(0, 64);
  ibv_send_wr request = write_request(sge, c);
  request.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(b.memory.data()), .rkey = key};
  ASSERT_EQ(post_send(a, request), 0);
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(b.memory[0], 1);
  expect_they_work(c, d);
}

// Where hundreds of other processes have a lease: here one that has hundreds.
TEST(Contexts, WorkInAnySlot) {
  constexpr int kLeases = 300;
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  DeviceInfo device;
  device.name = std::string("brdma_") + test_interface();
  device.netdev = test_interface();
  std::vector<io::Lease> leases;
  for (int i = 0; i < kLeases; ++i) {
    auto lease = io::acquire_lease(device);
    ASSERT_TRUE(lease.ok()) << i << ": " << lease.reason().message;
    leases.push_back(std::move(lease).value());
  }
  Side a = Side::make(), b = Side::make();
  EXPECT_GT(a.qp->qp_num & (io::kSlotCount - 1), 254u);
  connect(a, b);
  expect_they_work(a, b);
}

// Two contexts here, two in another process, each connected with one there.
TEST(Contexts, TalkToAnotherProcess) {
  constexpr std::size_t kPairs = 2;
  using Numbers = std::array<std::uint32_t, kPairs>;
  std::array<int, 2> to_child{}, to_parent{};
  ASSERT_EQ(::pipe(to_child.data()), 0);
  ASSERT_EQ(::pipe(to_parent.data()), 0);
  const auto meet = [](int out, int in, std::vector<Side>& sides) {
    Numbers numbers{};
    for (std::size_t i = 0; i < kPairs; ++i) {
      sides.push_back(Side::make());
      numbers[i] = sides[i].qp->qp_num;
    }
    EXPECT_EQ(::write(out, &numbers, sizeof numbers), static_cast<ssize_t>(sizeof numbers));
    EXPECT_EQ(::read(in, &numbers, sizeof numbers), static_cast<ssize_t>(sizeof numbers));
    for (std::size_t i = 0; i < kPairs; ++i) {
      ibv_qp peer{};
      peer.context = sides[i].context.get();  // on the same interface
      peer.qp_num = numbers[i];
      EXPECT_EQ(to_init(sides[i].qp.get()), 0);
      EXPECT_EQ(post_receive(sides[i], i, 0, 64), 0);
      EXPECT_EQ(to_rtr(sides[i].qp.get(), &peer), 0);
      EXPECT_EQ(to_rts(sides[i].qp.get()), 0);
    }
    char ready = 0;
    EXPECT_EQ(::write(out, &ready, 1), 1);
    EXPECT_EQ(::read(in, &ready, 1), 1);
    for (Side& side : sides) {
      ibv_sge sge = side.sge(64, 8);
      EXPECT_EQ(post_send(side, send_request(sge)), 0);
    }
    for (Side& side : sides) {
      for (int completions = 0; completions < 2; ++completions)
        EXPECT_EQ(wait_completion(side.cq.get()).status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(::write(out, &ready, 1), 1);
    EXPECT_EQ(::read(in, &ready, 1), 1);
  };
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  std::vector<Side> sides;
  if (child == 0) {
    meet(to_parent[1], to_child[0], sides);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  meet(to_child[1], to_parent[0], sides);
  EXPECT_EQ(exit_code(child), 0);
  for (const auto& ends : {to_child, to_parent}) {
    for (const int fd : ends) ::close(fd);
  }
}

// The child's contexts are on a lease of its own; closing those that it has inherited ends nothing.
TEST(Contexts, AChildSharesNoLease) {
  Side a = Side::make(), b = Side::make();
  connect(a, b);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (ibv_close_device(a.context.release()) != 0) ::_exit(2);
    Side c = Side::make(), d = Side::make();
    connect(c, d);
    expect_they_work(c, d);
    const std::multiset<pid_t> all = lessees();
    if (all.count(::getpid()) != leases_a_context() || all.count(::getppid()) != leases_a_context()) ::_exit(3);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  expect_they_work(a, b);
  EXPECT_EQ(exit_code(child), 0);
  expect_they_work(a, b);
  EXPECT_TRUE(becomes_lessees(leases_a_context()));
}

// Opening beside the last close: each finds a device that works.
TEST(Contexts, ThreadsOpenAndClose) {
  constexpr int kThreads = 8, kRounds = 20;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < kRounds; ++i) {
        Side a = Side::make(4096);
        if (i % 4 != t % 4) continue;
        Side b = Side::make(4096);
        connect(a, b);
        expect_they_work(a, b);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(becomes_lessees(0));
}

// A context opened after a lease has ended gets another one, though the contexts of the first are still there.
TEST(Contexts, ALeaseThatHasEndedIsNotShared) {
  Side a = Side::make(), b = Side::make();
  connect(a, b);
  ASSERT_TRUE(static_cast<bool>(io::query_daemon({{"query", "shutdown"}, {"force", true}})));
  expect_event(a, IBV_EVENT_DEVICE_FATAL, nullptr);
  expect_event(b, IBV_EVENT_DEVICE_FATAL, nullptr);
  Side c = Side::make(), d = Side::make();
  connect(c, d);
  expect_they_work(c, d);
  EXPECT_FALSE(has_async_event(c));
  end(a);
  end(b);
  expect_they_work(c, d);
  EXPECT_EQ(lessees().size(), leases_a_context());
}

}  // namespace
}  // namespace brdma::test
