// Programs that sleep on a completion channel are woken by their packets, and take them themselves. If they do not
// return, or sleep in another way, the progress thread takes them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "io/daemon/daemon_client.h"
#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

using namespace std::chrono_literals;

constexpr int kRounds = 500;
constexpr int kPatienceMs = 10'000;

std::uint64_t counted(const char* counter) {
  const auto answer = io::query_daemon({{"query", "statistics"}});
  std::uint64_t sum = 0;
  if (!answer) return sum;
  for (const auto& row : answer.value()["devices"]) sum += row["counters"][counter].get<std::uint64_t>();
  return sum;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

class Sleeper : public testing::Test {
 protected:
  Sleeper() : a(Side::make()), b(Side::make()) {
    connect(a, b);
    EXPECT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
  }

  void send() {
    ibv_sge sge = a.sge(0, 8);
    ibv_send_wr request = send_request(sge);
    ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
    ASSERT_EQ(post_send(a, request), 0);
  }
  static bool get_event(Side& side) {
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    if (ibv_get_cq_event(side.channel.get(), &cq, &user) != 0) return false;
    ibv_ack_cq_events(cq, 1);
    return true;
  }
  void arm_and_poll() {
    ASSERT_EQ(ibv_req_notify_cq(b.cq.get(), 0), 0);
    ASSERT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);
    ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  }
  // Sends, sleeps in ibv_get_cq_event().
  void blocking_rounds(int count) {
    for (int i = 0; i < count; ++i) {
      send();
      ASSERT_TRUE(get_event(b));
      arm_and_poll();
    }
  }
  int watch(std::uint32_t events) {
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = events;
    event.data.u64 = 7;
    EXPECT_EQ(fcntl(b.channel->fd, F_SETFL, O_NONBLOCK), 0);
    EXPECT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, b.channel->fd, &event), 0);
    return epoll;
  }
  // Until there is an event, which may be after some wake-ups.
  void epoll_round(int epoll) {
    send();
    for (bool got = false; !got;) {
      epoll_event event{};
      ASSERT_EQ(epoll_wait(epoll, &event, 1, kPatienceMs), 1);
      EXPECT_EQ(event.data.u64, 7u);
      while (get_event(b)) got = true;
      ASSERT_EQ(errno, EAGAIN);
    }
    arm_and_poll();
  }
  Side a, b;
};

TEST_F(Sleeper, TakesItsPacketsInABlockingCall) {
  blocking_rounds(kRounds);
  EXPECT_GT(counted("sleeper_took"), static_cast<std::uint64_t>(kRounds / 2));
}

TEST_F(Sleeper, TakesItsPacketsInAnEpollSet) {
  const std::uint64_t before = counted("sleeper_took");
  const int epoll = watch(EPOLLIN);
  for (int i = 0; i < kRounds; ++i) ASSERT_NO_FATAL_FAILURE(epoll_round(epoll));
  EXPECT_GT(counted("sleeper_took") - before, static_cast<std::uint64_t>(kRounds / 2));
  close(epoll);
}

TEST_F(Sleeper, IsWokenByNewPacketsOnly) {
  const int epoll = watch(EPOLLIN | EPOLLET);
  for (int i = 0; i < kRounds; ++i) ASSERT_NO_FATAL_FAILURE(epoll_round(epoll));
  close(epoll);
}

// The descriptor was removed: packets do not wake it.
TEST_F(Sleeper, AnEpollSetForgetsTheChannel) {
  const int epoll = watch(EPOLLIN);
  ASSERT_NO_FATAL_FAILURE(epoll_round(epoll));
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_DEL, b.channel->fd, nullptr), 0);
  send();
  epoll_event event{};
  EXPECT_EQ(epoll_wait(epoll, &event, 1, 50), 0);
  arm_and_poll();
  while (!get_event(b)) ASSERT_EQ(errno, EAGAIN);
  close(epoll);
}

// The program closes its set and makes another, which has the same number.
TEST_F(Sleeper, AClosedEpollSetIsReplaced) {
  const int first = watch(EPOLLIN), kept = dup(first);
  ASSERT_NO_FATAL_FAILURE(epoll_round(first));
  ASSERT_EQ(syscall(SYS_close, first), 0);
  const int second = watch(EPOLLIN);
  EXPECT_EQ(second, first);
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(epoll_round(second));
  for (const int each : {second, kept}) close(each);
}

// The channel has no queue any more: packets do not wake the program.
TEST_F(Sleeper, AnEpollSetOutlivesTheQueue) {
  const int epoll = watch(EPOLLIN);
  ASSERT_NO_FATAL_FAILURE(epoll_round(epoll));
  b.qp.reset();
  b.cq.reset();
  Side c = Side::make(), d = Side::make();
  connect(c, d);
  ibv_sge sge = c.sge(0, 8);
  ASSERT_EQ(post_receive(d, 1, 0, 8), 0);
  ASSERT_EQ(post_send(c, send_request(sge)), 0);
  epoll_event event{};
  EXPECT_EQ(epoll_wait(epoll, &event, 1, 20), 0);
  for (Side* const each : {&c, &d}) EXPECT_EQ(wait_completion(each->cq.get()).status, IBV_WC_SUCCESS);
  close(epoll);
}

// From here on the program is woken by new packets only.
TEST_F(Sleeper, AnEpollSetIsChanged) {
  const int epoll = watch(EPOLLIN);
  ASSERT_NO_FATAL_FAILURE(epoll_round(epoll));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = 7;
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_MOD, b.channel->fd, &event), 0);
  for (int i = 0; i < kRounds; ++i) ASSERT_NO_FATAL_FAILURE(epoll_round(epoll));
  close(epoll);
}

// For asynchronous events, for example.
TEST_F(Sleeper, AQueueWantsACompletionChannel) {
  ibv_comp_channel other = *b.channel;
  other.fd = b.context->async_fd;
  EXPECT_EQ(ibv_create_cq(b.context.get(), 1, nullptr, &other, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Sleeper, AnEpollSetOfOneShotIsLeftToTheThread) {
  const int epoll = watch(EPOLLIN | EPOLLONESHOT);
  send();
  epoll_event event{};
  ASSERT_EQ(epoll_wait(epoll, &event, 1, kPatienceMs), 1);
  EXPECT_TRUE(get_event(b));
  arm_and_poll();
  close(epoll);
}

// Each thread sleeps on its own channel; packets are one device's.
TEST_F(Sleeper, SeveralChannelsAreServedByTheThread) {
  Side c = Side::make(), d = Side::make();
  connect(c, d);
  ASSERT_EQ(ibv_req_notify_cq(d.cq.get(), 0), 0);
  auto other = std::async(std::launch::async, [&d] { return get_event(d); });
  blocking_rounds(20);
  ibv_sge sge = c.sge(0, 8);
  ASSERT_EQ(post_receive(d, 1, 0, 8), 0);
  ASSERT_EQ(post_send(c, send_request(sge)), 0);
  EXPECT_TRUE(other.get());
  blocking_rounds(20);
}

// It was the progress owner so far, and now computes: data from its peer arrives nevertheless.
TEST_F(Sleeper, IsHelpedWhileItComputes) {
  blocking_rounds(50);
  for (int i = 1; i <= 5; ++i) {
    a.memory[0] = static_cast<std::uint8_t>(i);
    ibv_sge sge = a.sge(0, 1);
    ASSERT_EQ(post_send(a, write_request(sge, b)), 0);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    const volatile std::uint8_t& last = b.memory[0];
    while (last != i && std::chrono::steady_clock::now() < until) continue;
    ASSERT_EQ(last, i);
    ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  }
  blocking_rounds(50);
}

// --- the descriptor is the program's: it may be closed, copied or changed by calls that no hook sees ---

// Bypasses our hooks, as a program's own system calls do.
void becomes(int fd, int other) { ASSERT_EQ(syscall(SYS_dup3, other, fd, O_CLOEXEC), fd); }
void set_flags(int fd, int flags) { ASSERT_EQ(syscall(SYS_fcntl, fd, F_SETFL, flags), 0); }

// A pipe with a text in it takes the channel's number while a packet waits: read() returns the text.
void expect_another_file(int fd, const std::function<void()>& send) {
  std::array<int, 2> other{};
  std::array<char, sizeof(void*)> text{'n', 'o', ' ', 'e', 'v', 'e', 'n', 't'}, got{};
  ASSERT_EQ(pipe2(other.data(), O_CLOEXEC), 0);
  ASSERT_EQ(write(other[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  const int kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  becomes(fd, other[0]);
  send();
  EXPECT_EQ(read(fd, got.data(), got.size()), static_cast<ssize_t>(got.size()));
  EXPECT_EQ(got, text);
  becomes(fd, kept);
  for (const int each : {kept, other[0], other[1]}) close(each);
}

TEST_F(Sleeper, ADescriptorThatIsAnotherFileIsReadAsThat) {
  blocking_rounds(3);
  expect_another_file(b.channel->fd, [this] { send(); });
  EXPECT_TRUE(get_event(b));
  arm_and_poll();
  blocking_rounds(3);
}

TEST_F(Sleeper, ADescriptorInAnEpollSetThatIsAnotherFileIsReadAsThat) {
  const int epoll = watch(EPOLLIN);
  ASSERT_NO_FATAL_FAILURE(epoll_round(epoll));
  expect_another_file(b.channel->fd, [this] { send(); });
  arm_and_poll();
  while (!get_event(b)) ASSERT_EQ(errno, EAGAIN);
  close(epoll);
}

TEST_F(Sleeper, AClosedDescriptorIsNone) {
  blocking_rounds(3);
  const int fd = b.channel->fd, kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  ASSERT_EQ(syscall(SYS_close, fd), 0);
  EXPECT_FALSE(get_event(b));
  EXPECT_EQ(errno, EBADF);
  becomes(fd, kept);
  close(kept);
  blocking_rounds(3);
}

TEST_F(Sleeper, ReadsACopyOfItsDescriptor) {
  blocking_rounds(3);
  for (const int copy : {dup(b.channel->fd), fcntl(b.channel->fd, F_DUPFD_CLOEXEC, 0)}) {
    send();
    const void* record = nullptr;
    ASSERT_EQ(read(copy, &record, sizeof(record)), static_cast<ssize_t>(sizeof(record)));
    EXPECT_EQ(record, b.cq.get());
    ibv_ack_cq_events(b.cq.get(), 1);
    arm_and_poll();
    close(copy);
  }
  blocking_rounds(3);
}

// A call that must not wait returns at once, one that may wait gets the next event.
void expect_both(Side& side, int epoll, const std::function<bool()>& get, const std::function<void()>& send) {
  set_flags(side.channel->fd, O_NONBLOCK);
  EXPECT_FALSE(get());
  EXPECT_EQ(errno, EAGAIN);
  set_flags(side.channel->fd, 0);
  auto waits = std::async(std::launch::async, get);
  EXPECT_EQ(waits.wait_for(30ms), std::future_status::timeout) << (epoll >= 0 ? "in an epoll set" : "");
  send();
  EXPECT_TRUE(waits.get());
}

TEST_F(Sleeper, MayChangeAnyTimeWhetherACallWaits) {
  blocking_rounds(3);
  for (int i = 0; i < 3; ++i) {
    expect_both(
        b, -1, [this] { return get_event(b); }, [this] { send(); });
    arm_and_poll();
    blocking_rounds(1);
  }
  const int epoll = watch(EPOLLIN);
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(epoll_round(epoll));
    expect_both(
        b, epoll, [this] { return get_event(b); }, [this] { send(); });
    arm_and_poll();
    set_flags(b.channel->fd, O_NONBLOCK);
  }
  close(epoll);
}

// The child has an event of each queue, then the end; the parent goes on.
TEST_F(Sleeper, AChildOfASleeperReadsNoPackets) {
  blocking_rounds(3);
  send();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const bool event = get_event(b), another = event && get_event(b);
    _exit(event && !another ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(get_event(b));
  arm_and_poll();
  blocking_rounds(3);
}

// --- waits that end otherwise ---

void ignore(int) {}

// Sends a signal to a thread that sleeps in ibv_get_cq_event(); returns its result, or the cause of a later wakeup.
void expect_wait_ends(Side& side, int flags, bool by_signal, const std::function<void()>& send) {
  struct sigaction action {
  }, before{};
  action.sa_handler = ignore;
  action.sa_flags = flags;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> over = false;
  int result = 0, error = 0;
  std::thread waiter([&] {
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    result = ibv_get_cq_event(side.channel.get(), &cq, &user);
    error = errno;
    if (result == 0) ibv_ack_cq_events(cq, 1);
    over = true;
  });
  for (int i = 0; i < 20 && !over; ++i) {  // it may not sleep yet when the first comes
    pthread_kill(waiter.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(over, by_signal);
  if (!over) send();
  waiter.join();
  EXPECT_EQ(result, by_signal ? -1 : 0);
  if (by_signal) {
    EXPECT_EQ(error, EINTR);
  }
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST_F(Sleeper, ASignalEndsItsCall) {
  blocking_rounds(3);
  expect_wait_ends(b, 0, true, [] {});
}

TEST_F(Sleeper, ASignalThatRestartsCallsDoesNot) {
  blocking_rounds(3);
  expect_wait_ends(b, SA_RESTART, false, [this] { send(); });
}

TEST_F(Sleeper, CanBeCancelled) {
  blocking_rounds(3);
  std::thread waiter([this] { (void)get_event(b); });
  std::this_thread::sleep_for(20ms);  // asleep or not yet: it ends either way
  ASSERT_EQ(pthread_cancel(waiter.native_handle()), 0);
  waiter.join();
  blocking_rounds(3);
}

TEST_F(Sleeper, AChannelLeavesNoDescriptor) {
  blocking_rounds(32);  // a socket connected to the peer is opened after 16 batches (io/udp/peer_sockets.h)
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 3; ++i) {
    Side c = Side::make(), d = Side::make();
    connect(c, d);
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN;
    ASSERT_EQ(fcntl(d.channel->fd, F_SETFL, O_NONBLOCK), 0);
    ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, d.channel->fd, &event), 0);
    close(epoll);
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace brdma::test
