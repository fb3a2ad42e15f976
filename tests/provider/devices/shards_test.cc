// A device of several shards. Queue pairs and shared receive queues are in one shard, domains and regions in all, and
// completion queues where they are needed. The low 13 bits of a queue pair's number are its socket's, and so its
// shard's.
#include <gmock/gmock.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "io/daemon/daemon_client.h"
#include "io/daemon/lease_protocol.h"
#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kShards = 3;
constexpr std::uint32_t kBytes = 64;

std::uint32_t shard_of(const ibv_qp* qp) { return qp->qp_num & (io::kSlotCount - 1); }

void join(ibv_qp* a, ibv_qp* b) {
  for (ibv_qp* qp : {a, b}) ASSERT_EQ(to_init(qp), 0);
  ASSERT_EQ(to_rtr(a, b), 0);
  ASSERT_EQ(to_rtr(b, a), 0);
  for (ibv_qp* qp : {a, b}) ASSERT_EQ(to_rts(qp), 0);
}

// An open device with what all its queue pairs use.
struct Host {
  Owned<ibv_context> context;
  Owned<ibv_pd> pd;
  Owned<ibv_comp_channel> channel;
  std::vector<std::uint8_t> memory;
  Owned<ibv_mr> mr;
  std::vector<ibv_td*> threads;
  std::vector<ibv_pd*> parents;

  Host() : context(open_first_device()), pd(ibv_alloc_pd(context.get())) {
    channel.reset(ibv_create_comp_channel(context.get()));
    memory.resize(1 << 16);
    mr = region();
  }
  ~Host() {
    for (ibv_pd* parent : parents) EXPECT_EQ(ibv_dealloc_pd(parent), 0);
    for (ibv_td* td : threads) EXPECT_EQ(ibv_dealloc_td(td), 0);
  }
  Owned<ibv_mr> region() {
    return Owned<ibv_mr>(ibv_reg_mr(pd.get(), memory.data(), memory.size(),
                                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
  }
  Owned<ibv_cq> queue() { return Owned<ibv_cq>(ibv_create_cq(context.get(), 256, nullptr, channel.get(), 0)); }
  Owned<ibv_qp> queue_pair(ibv_cq* cq, ibv_pd* domain = nullptr, ibv_srq* srq = nullptr) {
    ibv_qp_init_attr wanted = usual_queue_pair(cq);
    wanted.srq = srq;
    return Owned<ibv_qp>(ibv_create_qp(domain == nullptr ? pd.get() : domain, &wanted));
  }
  // For a thread of its own.
  ibv_pd* parent() {
    ibv_td_init_attr attributes{};
    threads.push_back(ibv_alloc_td(context.get(), &attributes));
    ibv_parent_domain_init_attr wanted{};
    wanted.pd = pd.get();
    wanted.td = threads.back();
    parents.push_back(ibv_alloc_parent_domain(context.get(), &wanted));
    EXPECT_NE(parents.back(), nullptr);
    return parents.back();
  }
  [[nodiscard]] ibv_sge sge(std::size_t offset, std::uint32_t bytes = kBytes) const {
    return {.addr = reinterpret_cast<std::uintptr_t>(memory.data()) + offset, .length = bytes, .lkey = mr->lkey};
  }
  [[nodiscard]] bool has_event(std::chrono::milliseconds time) const {
    pollfd waiting{channel->fd, POLLIN, 0};
    return ::poll(&waiting, 1, static_cast<int>(time.count())) == 1;
  }
  bool take_event(ibv_cq* expected) {
    if (!has_event(10s)) return false;
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel.get(), &cq, &cq_context), 0);
    ibv_ack_cq_events(cq, 1);
    return cq == expected;
  }
};

// No socket has the port of RoCEv2 any more: the next brdmad could take it.
bool port_becomes_free() {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(4791);
  for (int tries = 0; tries < 100; ++tries, std::this_thread::sleep_for(50ms)) {
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
    ::close(fd);
    if (bound) return true;
  }
  return false;
}

class Shards : public testing::Test {
 protected:
  static void SetUpTestSuite() { ::setenv("BRDMA_SHARDS", "3", 1); }
  static void TearDownTestSuite() { ::unsetenv("BRDMA_SHARDS"); }

  static int send(Host& from, ibv_qp* qp, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_sge sge = from.sge(0);
    ibv_send_wr request = send_request(sge), *bad = nullptr;
    request.send_flags = flags;
    return ibv_post_send(qp, &request, &bad);
  }
  static int receive(Host& host, ibv_qp* qp, std::uint64_t wr_id = 0) {
    ibv_sge sge = host.sge(0);
    ibv_recv_wr request{.wr_id = wr_id, .next = nullptr, .sg_list = &sge, .num_sge = 1}, *bad = nullptr;
    return ibv_post_recv(qp, &request, &bad);
  }
  static int write(const Host& from, ibv_qp* qp, const Host& to, std::uint32_t rkey, std::size_t offset = 0) {
    ibv_sge sge = from.sge(offset);
    ibv_send_wr request = send_request(sge), *bad = nullptr;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.wr.rdma = {.remote_addr = to.sge(offset).addr, .rkey = rkey};
    return ibv_post_send(qp, &request, &bad);
  }
  Host a, b;
};

// Of b: a completion queue that queue pairs of all shards complete into, each connected with one of a.
class OneQueue : public Shards {
 protected:
  OneQueue() : cq(b.queue()) {
    for (std::size_t i = 0; i < kShards; ++i) {
      there[i] = b.queue_pair(cq.get(), b.parent());
      a_cq[i] = a.queue();
      here[i] = a.queue_pair(a_cq[i].get());
      join(here[i].get(), there[i].get());
      for (int n = 0; n < 8; ++n) EXPECT_EQ(receive(b, there[i].get(), i), 0);
    }
  }
  void send_by(std::size_t i, unsigned flags = IBV_SEND_SIGNALED) {
    ASSERT_EQ(send(a, here[i].get(), flags), 0);
    ASSERT_EQ(wait_completion(a_cq[i].get()).status, IBV_WC_SUCCESS);
  }
  void expect_completions(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(wait_completion(cq.get()).status, IBV_WC_SUCCESS);
    ibv_wc more{};
    EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &more), 0);
  }
  Owned<ibv_cq> cq;
  std::array<Owned<ibv_cq>, kShards> a_cq;
  std::array<Owned<ibv_qp>, kShards> here, there;
};

TEST_F(Shards, QueuePairsAreWhereTheirCompletionQueueIs) {
  std::map<std::uint32_t, int> used;
  std::vector<Owned<ibv_cq>> queues;
  std::vector<Owned<ibv_qp>> all;
  for (std::size_t i = 0; i < 2 * kShards; ++i) {
    queues.push_back(a.queue());
    all.push_back(a.queue_pair(queues.back().get()));
    ++used[shard_of(all.back().get())];
  }
  EXPECT_EQ(used.size(), kShards);
  for (const auto& [shard, count] : used) EXPECT_EQ(count, 2);
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const Owned<ibv_qp> second = a.queue_pair(queues[i].get());
    EXPECT_EQ(shard_of(second.get()), shard_of(all[i].get()));
  }
  all.clear();
}

TEST_F(Shards, ThreadsWithQueuePairsOfTheirOwn) {
  constexpr std::size_t kThreads = 6, kMessages = 300;
  std::array<Owned<ibv_cq>, kThreads> a_cq, b_cq;
  std::array<Owned<ibv_qp>, kThreads> a_qp, b_qp;
  for (std::size_t i = 0; i < kThreads; ++i) {
    a_cq[i] = a.queue();
    b_cq[i] = b.queue();
    a_qp[i] = a.queue_pair(a_cq[i].get());
    b_qp[i] = b.queue_pair(b_cq[i].get());
    join(a_qp[i].get(), b_qp[i].get());
  }
  const auto work = [&](std::size_t i) {
    const std::size_t offset = (i + 1) * kBytes;  // the SENDs of all go to the beginning
    for (std::size_t n = 0; n < kMessages; ++n) {
      std::fill_n(a.memory.begin() + static_cast<std::ptrdiff_t>(offset), kBytes, static_cast<std::uint8_t>(n + i));
      ASSERT_EQ(write(a, a_qp[i].get(), b, b.mr->rkey, offset), 0);
      ASSERT_EQ(wait_completion(a_cq[i].get()).status, IBV_WC_SUCCESS);
      ASSERT_EQ(b.memory[offset], static_cast<std::uint8_t>(n + i));
      ASSERT_EQ(receive(b, b_qp[i].get(), n), 0);
      ASSERT_EQ(send(a, a_qp[i].get()), 0);
      const ibv_wc came = wait_completion(b_cq[i].get());
      ASSERT_EQ(came.status, IBV_WC_SUCCESS);
      ASSERT_EQ(came.wr_id, n);
      ASSERT_EQ(wait_completion(a_cq[i].get()).status, IBV_WC_SUCCESS);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Shards, AThreadDomainIsOneShard) {
  std::set<std::uint32_t> used;
  for (std::size_t i = 0; i < kShards; ++i) {
    ibv_pd* const parent = a.parent();
    const Owned<ibv_cq> x = a.queue(), y = a.queue();
    const Owned<ibv_qp> first = a.queue_pair(x.get(), parent), second = a.queue_pair(y.get(), parent);
    EXPECT_EQ(shard_of(first.get()), shard_of(second.get()));
    used.insert(shard_of(first.get()));
    // A completion queue made in it takes its queue pairs there.
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 16;
    wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    wanted.parent_domain = parent;
    const Owned<ibv_cq> own(ibv_cq_ex_to_cq(ibv_create_cq_ex(a.context.get(), &wanted)));
    ASSERT_NE(own, nullptr);
    const Owned<ibv_qp> third = a.queue_pair(own.get());
    EXPECT_EQ(shard_of(third.get()), shard_of(first.get()));
  }
  EXPECT_EQ(used.size(), kShards);
}

TEST_F(OneQueue, IsPolledForAll) {
  std::set<std::uint32_t> used;
  for (const auto& qp : there) used.insert(shard_of(qp.get()));
  ASSERT_EQ(used.size(), kShards);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < kShards; ++i) send_by(i);
  }
  std::array<ibv_wc, 16> came{};
  std::map<std::uint32_t, int> by;
  int count = 0;
  for (int tries = 0; tries < 10'000 && count < 6; ++tries) {
    count += ibv_poll_cq(cq.get(), static_cast<int>(came.size()) - count, came.data() + count);
  }
  ASSERT_EQ(count, 6);
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(came[static_cast<std::size_t>(i)].status, IBV_WC_SUCCESS);
    ++by[came[static_cast<std::size_t>(i)].qp_num];
  }
  for (const auto& qp : there) EXPECT_EQ(by[qp->qp_num], 2);
}

TEST_F(OneQueue, NobodyWaitsForEverBehindOthers) {
  for (int n = 0; n < 4; ++n) {
    for (std::size_t i = 0; i < kShards; ++i) send_by(i);
  }
  std::set<std::uint32_t> among_the_first;
  for (std::size_t i = 0; i < kShards; ++i) among_the_first.insert(wait_completion(cq.get()).qp_num);
  EXPECT_EQ(among_the_first.size(), kShards);
  expect_completions(3 * kShards);
}

TEST_F(OneQueue, IsResizedForAll) {
  for (std::size_t i = 0; i < kShards; ++i) send_by(i);
  for (std::size_t i = 0; i < kShards; ++i) send_by(i);
  EXPECT_EQ(ibv_resize_cq(cq.get(), 5), EINVAL);  // six are in it
  EXPECT_EQ(ibv_resize_cq(cq.get(), 100), 0);
  EXPECT_EQ(cq->cqe, 100);
  expect_completions(2 * kShards);
}

TEST_F(OneQueue, OneArmingMakesOneEvent) {
  EXPECT_FALSE(b.has_event(0ms));
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
    for (std::size_t i = 0; i < kShards; ++i) send_by(i);
    EXPECT_TRUE(b.take_event(cq.get()));
    expect_completions(kShards);
    EXPECT_FALSE(b.has_event(20ms));
  }
  // Whichever comes alone.
  for (std::size_t i = 0; i < kShards; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
    send_by(i);
    EXPECT_TRUE(b.take_event(cq.get()));
    send_by((i + 1) % kShards);
    expect_completions(2);
    EXPECT_FALSE(b.has_event(20ms));
  }
}

// A program that sleeps on its completion channel in the documented way: arm, poll once more, sleep.
TEST_F(OneQueue, NoWakeUpIsLost) {
  constexpr int kMessages = 400;
  std::vector<std::thread> senders;
  for (std::size_t i = 0; i < kShards; ++i) {
    senders.emplace_back([this, i] {
      for (int n = 0; n < kMessages; ++n) send_by(i);
    });
  }
  std::size_t left = kShards * kMessages;
  const auto poll = [&] {
    std::array<ibv_wc, 4> came{};
    for (int got = 1; got > 0;) {
      got = ibv_poll_cq(cq.get(), static_cast<int>(came.size()), came.data());
      for (int i = 0; i < got; ++i) {
        const std::uint64_t by = came[static_cast<std::size_t>(i)].wr_id;
        ASSERT_EQ(came[static_cast<std::size_t>(i)].status, IBV_WC_SUCCESS);
        ASSERT_EQ(receive(b, there[by].get(), by), 0);
        --left;
      }
    }
  };
  while (left > 0) {
    ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
    poll();
    if (left == 0) break;
    ASSERT_TRUE(b.take_event(cq.get())) << left << " to come";
    poll();
  }
  for (std::thread& sender : senders) sender.join();
}

// The others were armed for any completion, and have not fired.
TEST_F(OneQueue, AnEarlierArmingIsCancelled) {
  ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
  send_by(0);
  EXPECT_TRUE(b.take_event(cq.get()));
  ASSERT_EQ(ibv_req_notify_cq(cq.get(), 1), 0);
  for (std::size_t i = 0; i < kShards; ++i) send_by(i);
  expect_completions(1 + kShards);
  EXPECT_FALSE(b.has_event(20ms));
  send_by(1, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
  EXPECT_TRUE(b.take_event(cq.get()));
  // But an arming without an event yet is only ever widened.
  ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq.get(), 1), 0);
  send_by(2);
  EXPECT_TRUE(b.take_event(cq.get()));
  expect_completions(2);
}

TEST_F(Shards, AQueueIsArmedBeforeItHasQueuePairs) {
  const Owned<ibv_cq> cq = b.queue(), a_cq = a.queue();
  ibv_wc nothing{};
  EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &nothing), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
  const Owned<ibv_qp> first = b.queue_pair(cq.get()), second = b.queue_pair(cq.get(), b.parent());
  const Owned<ibv_qp> qp = a.queue_pair(a_cq.get());
  ASSERT_NE(shard_of(first.get()), shard_of(second.get()));
  join(qp.get(), second.get());
  ASSERT_EQ(receive(b, second.get()), 0);
  ASSERT_EQ(send(a, qp.get()), 0);
  EXPECT_TRUE(b.take_event(cq.get()));
  EXPECT_EQ(wait_completion(cq.get()).status, IBV_WC_SUCCESS);
}

TEST_F(OneQueue, ARegionIsForAllAndGoneForAll) {
  for (std::size_t i = 0; i < kShards; ++i) {
    ASSERT_EQ(write(a, here[i].get(), b, b.mr->rkey), 0);
    EXPECT_EQ(wait_completion(a_cq[i].get()).status, IBV_WC_SUCCESS);
  }
  // Regions come and go in all shards alike: keys stay the same.
  for (int n = 0; n < 20; ++n) {
    Owned<ibv_mr> first = b.region(), second = b.region();
    if (n % 2 == 0) first.reset();
    EXPECT_NE(second, nullptr);
  }
  Owned<ibv_mr> mr = b.region();
  const std::uint32_t rkey = mr->rkey;
  for (std::size_t i = 0; i < kShards; ++i) {
    ASSERT_EQ(write(a, here[i].get(), b, rkey), 0);
    EXPECT_EQ(wait_completion(a_cq[i].get()).status, IBV_WC_SUCCESS);
  }
  mr.reset();
  for (std::size_t i = 0; i < kShards; ++i) {
    ASSERT_EQ(write(a, here[i].get(), b, rkey), 0);
    EXPECT_EQ(wait_completion(a_cq[i].get()).status, IBV_WC_REM_ACCESS_ERR);
  }
}

TEST_F(OneQueue, ARegionIsChangedForAll) {
  Owned<ibv_mr> mr = b.region();
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), 0);
  for (std::size_t i = 0; i < kShards; ++i) {
    ASSERT_EQ(write(a, here[i].get(), b, mr->rkey), 0);
    EXPECT_EQ(wait_completion(a_cq[i].get()).status, IBV_WC_REM_ACCESS_ERR);
  }
}

TEST_F(Shards, ASharedReceiveQueueHasItsQueuePairsWithIt) {
  ibv_srq_init_attr wanted{};
  wanted.attr = {.max_wr = 64, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(b.pd.get(), &wanted);
  ASSERT_NE(srq, nullptr);
  constexpr std::uint64_t kReceives = 2 * kShards;
  for (std::uint64_t i = 0; i < kReceives; ++i) {
    ibv_sge sge = b.sge(0);
    ibv_recv_wr request{.wr_id = i, .next = nullptr, .sg_list = &sge, .num_sge = 1}, *bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq, &request, &bad), 0);
  }
  std::set<std::uint32_t> used;
  std::set<std::uint64_t> taken;
  for (std::size_t i = 0; i < kShards; ++i) {
    const Owned<ibv_cq> cq = b.queue(), a_cq = a.queue();
    const Owned<ibv_qp> elsewhere = b.queue_pair(cq.get(), b.parent());  // the queue is in two shards then, mostly
    const Owned<ibv_qp> there = b.queue_pair(cq.get(), nullptr, srq), here = a.queue_pair(a_cq.get());
    used.insert(shard_of(there.get()));
    join(here.get(), there.get());
    for (int n = 0; n < 2; ++n) {
      ASSERT_EQ(send(a, here.get()), 0);
      const ibv_wc came = wait_completion(cq.get());
      EXPECT_EQ(came.status, IBV_WC_SUCCESS);
      taken.insert(came.wr_id);
      EXPECT_EQ(wait_completion(a_cq.get()).status, IBV_WC_SUCCESS);
    }
  }
  EXPECT_EQ(used.size(), 1u);
  EXPECT_EQ(taken.size(), kReceives);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(OneQueue, WhatIsUsedInAnyShardStays) {
  EXPECT_EQ(ibv_dealloc_pd(b.pd.get()), EBUSY);
  for (std::size_t i = 0; i < kShards; ++i) {
    EXPECT_EQ(ibv_destroy_cq(cq.get()), EBUSY);
    there[i].reset();
  }
  cq.reset();
  // A domain with a queue pair of one shard only.
  for (std::size_t i = 0; i < kShards; ++i) {
    Owned<ibv_pd> pd(ibv_alloc_pd(b.context.get()));
    Owned<ibv_cq> own = b.queue();
    Owned<ibv_qp> qp = b.queue_pair(own.get(), pd.get());
    Owned<ibv_qp> another = b.queue_pair(own.get());  // makes the next one go elsewhere
    EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
    EXPECT_EQ(ibv_destroy_cq(own.get()), EBUSY);
    qp.reset();
    another.reset();
  }
}

TEST_F(OneQueue, AChildClosesTheDeviceAndTheParentGoesOn) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(ibv_close_device(b.context.release()) == 0 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (std::size_t i = 0; i < kShards; ++i) send_by(i);
  expect_completions(kShards);
}

// A binding would have to reach all shards at once.
TEST_F(Shards, ThereAreNoMemoryWindows) {
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(a.context.get(), &attributes), 0);
  EXPECT_EQ(attributes.max_mw, 0);
  errno = 0;
  EXPECT_EQ(ibv_alloc_mw(a.pd.get(), IBV_MW_TYPE_2), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

// The sockets of all shards are closed, also of those without queue pairs, whose progress threads have not been
// started.
TEST_F(Shards, TheEndOfBrdmadIsReportedOnce) {
  const Owned<ibv_cq> cq = a.queue();
  const Owned<ibv_qp> qp = a.queue_pair(cq.get());
  ASSERT_TRUE(io::query_daemon({{"query", "shutdown"}, {"force", true}}));
  pollfd waiting{a.context->async_fd, POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 10'000), 1);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(a.context.get(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
  ibv_ack_async_event(&event);
  EXPECT_EQ(::poll(&waiting, 1, 100), 0);
  EXPECT_TRUE(port_becomes_free());
}

}  // namespace
}  // namespace brdma::test
