// Notification of WRITEs in a program's view (bitmaprdma/write_events.h): contents and time of an event, its order,
// dropped and counted ones; refusals, threads, forked children. tests design RR-9
#include "bitmaprdma/write_events.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr int kPatienceMs = 10'000;
constexpr std::size_t kMemory = 1 << 20;

struct DestroyChannel {
  void operator()(brdma_write_channel* channel) const { EXPECT_EQ(brdma_destroy_write_channel(channel), 0); }
};
using OwnedChannel = std::unique_ptr<brdma_write_channel, DestroyChannel>;

OwnedChannel make_channel(ibv_context* context, std::uint32_t events_max = 0) {
  OwnedChannel channel(brdma_create_write_channel(context, events_max));
  EXPECT_NE(channel, nullptr) << std::strerror(errno);
  return channel;
}

bool readable(int fd, int timeout_ms = 0) {
  pollfd asked{fd, POLLIN, 0};
  return ::poll(&asked, 1, timeout_ms) == 1 && (asked.revents & POLLIN) != 0;
}

// The next `count`, or fewer if they do not come.
std::vector<brdma_write_event> take(brdma_write_channel* channel, std::size_t count) {
  std::vector<brdma_write_event> events;
  while (events.size() < count && readable(channel->fd, kPatienceMs)) {
    std::array<brdma_write_event, 7> some;
    const int wanted = static_cast<int>(std::min(some.size(), count - events.size()));
    const int got = brdma_get_write_events(channel, some.data(), wanted);
    EXPECT_GT(got, 0) << std::strerror(errno);
    if (got <= 0) break;
    events.insert(events.end(), some.begin(), some.begin() + got);
  }
  return events;
}

// WRITEs of `a` into the memory of `b`, whose region a channel watches.
class WriteEvents : public testing::Test {
 protected:
  WriteEvents() : a(Side::make(kMemory)), b(Side::make(kMemory)) {
    connect(a, b);
    channel = make_channel(b.context.get());
  }
  // Posts one, to the same offset there. Not signalled: write() waits for a completion.
  void post(std::size_t offset, std::uint32_t bytes, unsigned flags = 0) {
    ibv_sge sge = a.sge(offset, bytes);
    ibv_send_wr request = write_request(sge, b);
    request.wr.rdma.remote_addr += offset;
    request.send_flags = flags;
    ASSERT_EQ(post_send(a, request), 0);
  }
  void write(std::size_t offset, std::uint32_t bytes) {
    post(offset, bytes, IBV_SEND_SIGNALED);
    ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  }
  void watch(std::uint64_t user = 1) { ASSERT_EQ(brdma_watch_writes(channel.get(), b.mr.get(), user), 0); }
  [[nodiscard]] std::uint64_t address_of(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(b.memory.data()) + offset;
  }
  Side a, b;
  OwnedChannel channel;
};

TEST_F(WriteEvents, AnEventSaysWhatHasArrived) {
  watch(0x0123'4567'89AB'CDEF);
  const std::array<std::pair<std::size_t, std::uint32_t>, 6> writes{
      {{0, 1}, {8, 64}, {100, 1024}, {3000, 1025}, {70'001, 60'000}, {0, kMemory}}};
  for (const auto& [offset, bytes] : writes) {
    EXPECT_FALSE(readable(channel->fd));
    std::fill_n(a.memory.begin() + static_cast<std::ptrdiff_t>(offset), bytes, static_cast<std::uint8_t>(bytes));
    write(offset, bytes);
    const auto events = take(channel.get(), 1);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].user, 0x0123'4567'89AB'CDEFu);
    EXPECT_EQ(events[0].address, address_of(offset));
    EXPECT_EQ(events[0].length, bytes);
    EXPECT_EQ(events[0].qp_num, b.qp->qp_num);
  }
  EXPECT_FALSE(readable(channel->fd)) << "one for each";
  EXPECT_EQ(brdma_lost_write_events(channel.get()), 0u);
}

TEST_F(WriteEvents, ComeInOrderAndWhenAllBytesAreInMemory) {
  watch();
  constexpr std::size_t kWrites = 400, kSlot = kMemory / kWrites;
  std::thread receiver([&] {  // blocks in the call
    for (std::size_t i = 0; i < kWrites; ++i) {
      brdma_write_event event{};
      ASSERT_EQ(brdma_get_write_events(channel.get(), &event, 1), 1);
      ASSERT_EQ(event.address, address_of(i * kSlot)) << "in order";
      const auto* const bytes = b.memory.data() + i * kSlot;
      ASSERT_EQ(std::count(bytes, bytes + event.length, static_cast<std::uint8_t>(i % 251 + 1)), event.length);
    }
  });
  for (std::size_t i = 0; i < kWrites; ++i) {
    const auto bytes = static_cast<std::uint32_t>(i % 3 == 0 ? kSlot : 1 + i % 64);
    std::fill_n(a.memory.begin() + static_cast<std::ptrdiff_t>(i * kSlot), bytes,
                static_cast<std::uint8_t>(i % 251 + 1));
    const bool signalled = i % 32 == 31 || i + 1 == kWrites;
    post(i * kSlot, bytes, signalled ? unsigned{IBV_SEND_SIGNALED} : 0u);
    if (signalled) {
      ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
    }
  }
  receiver.join();
}

TEST_F(WriteEvents, OfWritesWithImmediateTooAndOfNothingElse) {
  watch();
  ASSERT_EQ(post_receive(b, 1, 0, 64), 0);
  ASSERT_EQ(post_receive(b, 2, 0, 64), 0);
  ibv_sge sge = a.sge(0, 64);
  ASSERT_EQ(post_send(a, send_request(sge)), 0);
  ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  ibv_send_wr read = write_request(sge, b);
  read.opcode = IBV_WR_RDMA_READ;
  ASSERT_EQ(post_send(a, read), 0);
  ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  ibv_send_wr immediate = write_request(sge, b);
  immediate.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  ASSERT_EQ(post_send(a, immediate), 0);
  ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  const auto events = take(channel.get(), 1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].length, 64u);
  EXPECT_FALSE(readable(channel->fd));
}

TEST_F(WriteEvents, NoneAfterARegionIsNoLongerWatched) {
  write(0, 64);
  EXPECT_FALSE(readable(channel->fd)) << "not watched yet";
  watch(1);
  write(0, 64);
  write(64, 64);
  ASSERT_TRUE(readable(channel->fd, kPatienceMs));
  ASSERT_EQ(brdma_unwatch_writes(channel.get(), b.mr.get()), 0);
  EXPECT_FALSE(readable(channel->fd)) << "those that wait are dropped";
  write(0, 64);
  EXPECT_FALSE(readable(channel->fd));
  watch(2);
  write(0, 64);
  const auto events = take(channel.get(), 1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].user, 2u);
  write(0, 64);
  ASSERT_TRUE(readable(channel->fd, kPatienceMs));
  b.mr.reset();
  EXPECT_FALSE(readable(channel->fd)) << "nor of one that is deregistered";
  EXPECT_EQ(brdma_lost_write_events(channel.get()), 0u);
}

TEST_F(WriteEvents, ThoseThatFindNoRoomAreCounted) {
  OwnedChannel small = make_channel(b.context.get(), 4);
  ASSERT_EQ(brdma_watch_writes(small.get(), b.mr.get(), 0), 0);
  for (std::size_t i = 0; i < 10; ++i) write(i * 64, 64);
  ASSERT_TRUE(readable(small->fd, kPatienceMs));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (brdma_lost_write_events(small.get()) < 6 && std::chrono::steady_clock::now() < until) ::usleep(1000);
  EXPECT_EQ(brdma_lost_write_events(small.get()), 6u);
  EXPECT_EQ(brdma_lost_write_events(channel.get()), 0u) << "another's";
  const auto events = take(small.get(), 4);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[3].address, address_of(3 * 64)) << "the oldest are kept";
  write(0, 64);
  EXPECT_EQ(take(small.get(), 1).size(), 1u);
  EXPECT_EQ(brdma_lost_write_events(small.get()), 6u);
}

TEST_F(WriteEvents, EachRegionHasItsChannel) {
  OwnedChannel second = make_channel(b.context.get());
  std::vector<std::uint8_t> more(4096);
  Owned<ibv_mr> region(
      ibv_reg_mr(b.pd.get(), more.data(), more.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  watch(1);
  ASSERT_EQ(brdma_watch_writes(second.get(), region.get(), 2), 0);
  ibv_sge sge = a.sge(0, 100);
  ibv_send_wr request = write_request(sge, b);
  request.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(more.data()), .rkey = region->rkey};
  ASSERT_EQ(post_send(a, request), 0);
  ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  const auto there = take(second.get(), 1);
  ASSERT_EQ(there.size(), 1u);
  EXPECT_EQ(there[0].user, 2u);
  EXPECT_FALSE(readable(channel->fd));
  second.reset();
  write(0, 64);
  EXPECT_EQ(take(channel.get(), 1).size(), 1u);
  EXPECT_EQ(brdma_watch_writes(channel.get(), region.get(), 3), 0) << "free when its channel is gone";
}

TEST_F(WriteEvents, MistakesAreRefused) {
  brdma_write_event event{};
  EXPECT_EQ(brdma_create_write_channel(nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(brdma_create_write_channel(b.context.get(), (1u << 20) + 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(brdma_destroy_write_channel(nullptr), EINVAL);
  EXPECT_EQ(brdma_watch_writes(nullptr, b.mr.get(), 0), EINVAL);
  EXPECT_EQ(brdma_watch_writes(channel.get(), nullptr, 0), EINVAL);
  EXPECT_EQ(brdma_watch_writes(channel.get(), a.mr.get(), 0), EINVAL) << "another context's";
  EXPECT_EQ(brdma_unwatch_writes(channel.get(), nullptr), EINVAL);
  EXPECT_EQ(brdma_unwatch_writes(channel.get(), a.mr.get()), EINVAL);
  EXPECT_EQ(brdma_unwatch_writes(channel.get(), b.mr.get()), ENOENT);
  EXPECT_EQ(brdma_get_write_events(nullptr, &event, 1), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(brdma_get_write_events(channel.get(), nullptr, 1), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(brdma_get_write_events(channel.get(), &event, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(brdma_lost_write_events(nullptr), 0u);
  watch(1);
  OwnedChannel second = make_channel(b.context.get());
  EXPECT_EQ(brdma_watch_writes(channel.get(), b.mr.get(), 2), EBUSY);
  EXPECT_EQ(brdma_watch_writes(second.get(), b.mr.get(), 2), EBUSY);
  EXPECT_EQ(brdma_unwatch_writes(second.get(), b.mr.get()), ENOENT) << "watched by another";
  write(0, 64);
  const auto events = take(channel.get(), 1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].user, 1u) << "nothing has changed";
}

// Of another provider's context only the members of every ibv_context are read: it ends where memory ends.
TEST_F(WriteEvents, AnotherProvidersContextIsRefused) {
  const long page = ::sysconf(_SC_PAGESIZE);
  auto* const memory = static_cast<std::byte*>(
      ::mmap(nullptr, static_cast<std::size_t>(2 * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(::munmap(memory + page, static_cast<std::size_t>(page)), 0);
  auto* const foreign = reinterpret_cast<ibv_context*>(memory + page - sizeof(ibv_context));
  foreign->ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return 0; };
  EXPECT_EQ(brdma_create_write_channel(foreign, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ::munmap(memory, static_cast<std::size_t>(page));
}

TEST_F(WriteEvents, WithoutDescriptorsThereIsNoChannel) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(brdma_create_write_channel(b.context.get(), 0), nullptr);
  const int error = errno;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(error, EMFILE);
  watch();
  write(0, 64);
  EXPECT_EQ(take(channel.get(), 1).size(), 1u);
}

TEST_F(WriteEvents, ACallWaitsOrNotAsTheDescriptorSays) {
  watch();
  brdma_write_event event{};
  ASSERT_EQ(::fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(brdma_get_write_events(channel.get(), &event, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  write(0, 64);
  ASSERT_TRUE(readable(channel->fd, kPatienceMs));
  EXPECT_EQ(brdma_get_write_events(channel.get(), &event, 1), 1);
  ASSERT_EQ(::fcntl(channel->fd, F_SETFL, 0), 0);
  struct sigaction quiet {};
  quiet.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &quiet, nullptr), 0);
  std::atomic<int> result = 0;
  std::thread waiting([&] { result = brdma_get_write_events(channel.get(), &event, 1) == -1 ? errno : -1; });
  while (result == 0) {
    ::pthread_kill(waiting.native_handle(), SIGUSR1);
    ::usleep(1000);
  }
  waiting.join();
  EXPECT_EQ(result, EINTR);
}

TEST_F(WriteEvents, DestroyingAChannelEndsACallThatWaits) {
  watch();
  std::atomic<int> error = 0;
  brdma_write_channel* const raw = channel.get();
  std::thread waiting([&, raw] {
    brdma_write_event event{};
    error = brdma_get_write_events(raw, &event, 1) == -1 ? errno : -1;
  });
  ::usleep(50'000);  // most likely it waits by then
  EXPECT_EQ(error, 0);
  channel.reset();
  waiting.join();
  EXPECT_EQ(error, EBADF);
  channel = make_channel(b.context.get());
  watch();
}

TEST_F(WriteEvents, ChannelsAndRegionsGoWhileWritesArrive) {
  std::atomic<bool> done = false;
  std::thread sender([&] {
    while (!done) {
      for (int i = 0; i < 31; ++i) post(static_cast<std::size_t>(i) * 2048, i % 4 == 0 ? 2048 : 16);
      write(0, 64);
    }
  });
  for (int i = 0; i < 300; ++i) {
    OwnedChannel passing = make_channel(b.context.get(), 8);
    ASSERT_EQ(brdma_watch_writes(passing.get(), b.mr.get(), static_cast<std::uint64_t>(i)), 0);
    if (i % 2 == 0) {
      const auto events = take(passing.get(), 3);
      ASSERT_EQ(events.size(), 3u);
      for (const auto& each : events) EXPECT_EQ(each.user, static_cast<std::uint64_t>(i)) << "of an earlier watch";
    }
    if (i % 3 == 0) {
      EXPECT_EQ(brdma_unwatch_writes(passing.get(), b.mr.get()), 0);
    }
    std::thread destroyer([&] { passing.reset(); });
    destroyer.join();
  }
  done = true;
  sender.join();
}

TEST_F(WriteEvents, AContextThatIsClosedEndsItsChannels) {
  ibv_context* const context = open_first_device().release();
  brdma_write_channel* const left = brdma_create_write_channel(context, 0);
  ASSERT_NE(left, nullptr);
  ASSERT_EQ(ibv_close_device(context), 0);
  brdma_write_event event{};
  EXPECT_TRUE(readable(left->fd));
  EXPECT_EQ(brdma_get_write_events(left, &event, 1), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(brdma_watch_writes(left, b.mr.get(), 0), EBADF);
  EXPECT_EQ(brdma_lost_write_events(left), 0u);
  EXPECT_EQ(brdma_destroy_write_channel(left), 0);
}

// 0: no failure in it.
int in_a_child(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_F(WriteEvents, EveryCallOfAChildFailsAtOnce) {
  watch();
  write(0, 64);
  ASSERT_TRUE(readable(channel->fd, kPatienceMs));
  EXPECT_EQ(in_a_child([&] {
              brdma_write_event event{};
              EXPECT_TRUE(readable(channel->fd));
              EXPECT_EQ(brdma_get_write_events(channel.get(), &event, 1), -1);
              EXPECT_EQ(errno, EIO);
              EXPECT_EQ(brdma_watch_writes(channel.get(), b.mr.get(), 1), EIO);
              EXPECT_EQ(brdma_unwatch_writes(channel.get(), b.mr.get()), EIO);
              EXPECT_EQ(brdma_create_write_channel(b.context.get(), 0), nullptr);
              EXPECT_EQ(errno, EIO);
              b.mr.reset();
              channel.reset();
            }),
            0);
  EXPECT_EQ(take(channel.get(), 1).size(), 1u) << "the parent's is still there";
  write(0, 64);
  EXPECT_EQ(take(channel.get(), 1).size(), 1u);
}

TEST(WriteEventsInAChild, ADeviceWithoutQueuePairsIsGoneOnWithAndTheParentSeesNothing) {
  Owned<ibv_context> context = open_first_device();
  Owned<ibv_pd> pd(ibv_alloc_pd(context.get()));
  std::vector<std::uint8_t> memory(4096);
  Owned<ibv_mr> mr(
      ibv_reg_mr(pd.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  OwnedChannel channel = make_channel(context.get());
  ASSERT_EQ(brdma_watch_writes(channel.get(), mr.get(), 5), 0);
  EXPECT_EQ(in_a_child([&] {
              Owned<ibv_cq> cq(ibv_create_cq(context.get(), 16, nullptr, nullptr, 0));
              ibv_qp_init_attr wanted = usual_queue_pair(cq.get());
              Owned<ibv_qp> from(ibv_create_qp(pd.get(), &wanted)), to(ibv_create_qp(pd.get(), &wanted));
              ASSERT_NE(to, nullptr);
              for (ibv_qp* qp : {from.get(), to.get()}) ASSERT_EQ(to_init(qp), 0);
              ASSERT_EQ(to_rtr(from.get(), to.get()), 0);
              ASSERT_EQ(to_rtr(to.get(), from.get()), 0);
              for (ibv_qp* qp : {from.get(), to.get()}) ASSERT_EQ(to_rts(qp), 0);
              ibv_sge sge{.addr = mr->addr == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(memory.data()),
                          .length = 64,
                          .lkey = mr->lkey};
              ibv_send_wr request = send_request(sge);
              request.opcode = IBV_WR_RDMA_WRITE;
              request.wr.rdma = {.remote_addr = sge.addr + 64, .rkey = mr->rkey};
              ibv_send_wr* bad = nullptr;
              ASSERT_EQ(ibv_post_send(from.get(), &request, &bad), 0);
              EXPECT_EQ(wait_completion(cq.get()).status, IBV_WC_SUCCESS);
              ASSERT_TRUE(readable(channel->fd, kPatienceMs));
              ::usleep(20'000);  // the parent may look meanwhile
              const auto events = take(channel.get(), 1);
              ASSERT_EQ(events.size(), 1u);
              EXPECT_EQ(events[0].user, 5u);
              EXPECT_EQ(events[0].qp_num, to->qp_num);
            }),
            0);
  EXPECT_FALSE(readable(channel->fd)) << "of the child's";
}

// A sender in another process, which exchanges numbers by pipes.
TEST_F(WriteEvents, OfAnotherProcessesWrites) {
  Side receiver = Side::make(kMemory);
  OwnedChannel there = make_channel(receiver.context.get());
  ASSERT_EQ(brdma_watch_writes(there.get(), receiver.mr.get(), 9), 0);
  std::array<int, 2> up{}, down{};
  ASSERT_EQ(::pipe(up.data()), 0);
  ASSERT_EQ(::pipe(down.data()), 0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    [&] {
      Side sender = Side::make(kMemory);
      std::uint32_t numbers[2]{};
      ASSERT_EQ(::write(up[1], &sender.qp->qp_num, sizeof sender.qp->qp_num), 4);
      ASSERT_EQ(::read(down[0], numbers, sizeof numbers), 8);
      ibv_qp peer{};
      peer.context = sender.context.get();
      peer.qp_num = numbers[0];
      ASSERT_EQ(to_init(sender.qp.get()), 0);
      ASSERT_EQ(to_rtr(sender.qp.get(), &peer), 0);
      ASSERT_EQ(to_rts(sender.qp.get()), 0);
      for (const std::uint32_t bytes : {16u, 4096u, static_cast<std::uint32_t>(kMemory)}) {
        std::fill(sender.memory.begin(), sender.memory.end(), static_cast<std::uint8_t>(bytes >> 4));
        ibv_sge sge = sender.sge(0, bytes);
        ibv_send_wr request = send_request(sge);
        request.opcode = IBV_WR_RDMA_WRITE;
        request.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(receiver.memory.data()), .rkey = numbers[1]};
        ASSERT_EQ(post_send(sender, request), 0);
        ASSERT_EQ(wait_completion(sender.cq.get()).status, IBV_WC_SUCCESS);
      }
    }();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  ibv_qp peer{};
  peer.context = receiver.context.get();
  ASSERT_EQ(::read(up[0], &peer.qp_num, sizeof peer.qp_num), 4);
  ASSERT_EQ(to_init(receiver.qp.get()), 0);
  ASSERT_EQ(to_rtr(receiver.qp.get(), &peer), 0);
  ASSERT_EQ(to_rts(receiver.qp.get()), 0);
  const std::uint32_t numbers[2]{receiver.qp->qp_num, receiver.mr->rkey};
  ASSERT_EQ(::write(down[1], numbers, sizeof numbers), 8);
  const auto events = take(there.get(), 3);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].length, 16u);
  EXPECT_EQ(events[1].length, 4096u);
  EXPECT_EQ(events[2].length, kMemory);
  for (const auto& each : events) {
    EXPECT_EQ(each.user, 9u);
    EXPECT_EQ(each.qp_num, receiver.qp->qp_num);
  }
  EXPECT_EQ(std::count(receiver.memory.begin(), receiver.memory.end(), static_cast<std::uint8_t>(kMemory >> 4)),
            static_cast<std::ptrdiff_t>(kMemory));
  EXPECT_FALSE(readable(channel->fd));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int fd : {up[0], up[1], down[0], down[1]}) ::close(fd);
}

}  // namespace
}  // namespace brdma::test
