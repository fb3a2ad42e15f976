// A shard driven by hand: its actions depend on notifications from its program and its thread, and the reverse.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/shard/clock.h"
#include "io/shard/progress_thread.h"
#include "io/shard/shard.h"
#include "shard_side.h"
#include "test_lease.h"

namespace brdma::io {
namespace {

constexpr Duration kPatience = 20_s;

class HoldingBack : public testing::Test {
 protected:
  explicit HoldingBack(Duration hold_max = Side::kAckHoldMax) {
    auto leases = test::make_leases(2);
    const auto side = [&](Lease& lease) {
      return std::make_unique<Side>(std::move(lease), Side::kTokenBytes, 4u, kRoceUdpPort, hold_max);
    };
    a = side(leases[0]);
    b = side(leases[1]);
    a->connect(*b);
    b->connect(*a);
    // In step long enough for b to know that its replies follow.
    for (int round = 0; round < 20; ++round) {
      a->write(*b, token());
      wait_for([&] { return b->got(last_); }, *b, a.get());
      b->write(*a, token());
      wait_for([&] { return a->got(last_) && a->completed > static_cast<unsigned>(round); }, *a, b.get());
    }
  }
  std::byte token() {
    last_ = static_cast<std::byte>(std::to_integer<unsigned>(last_) + 1);
    return last_;
  }
  template <class Condition>
  void wait_for(Condition condition, Side& poller, Side* other = nullptr) {
    const Instant end = monotonic_now() + kPatience;
    while (!condition() && monotonic_now() < end) {
      (void)poller.poll();
      if (other != nullptr && !condition()) (void)other->poll();
    }
    ASSERT_TRUE(condition());
  }
  // The packet lies in b's socket: its next poll receives it.
  void arrived_at_b() {
    pollfd readable{b->shard->receive_fds()[0], POLLIN, 0};
    ASSERT_EQ(::poll(&readable, 1, 20'000), 1);
  }

  std::unique_ptr<Side> a, b;
  std::byte last_{0};
};

TEST_F(HoldingBack, AProgramThatPollsAgainWhileItsThreadIsStillBlocked) {
  b->shard->progress_owner().take_charge();
  b->shard->progress_owner().set_thread(ProgressOwner::Thread::kBlocked);
  for (int i = 0; i < 16; ++i) (void)b->poll();
  ASSERT_TRUE(b->shard->progress_owner().application_spins());
  const std::uint64_t before = b->acks();
  a->write(*b, token());
  wait_for([&] { return b->got(last_); }, *b);
  EXPECT_EQ(b->acks(), before) << "waits for the reply";
  b->write(*a, token());
  EXPECT_EQ(b->acks(), before + 1) << "and leaves with it";
}

TEST_F(HoldingBack, NotWhereABlockedThreadWouldHaveToBeWokenForIt) {
  b->shard->progress_owner().take_charge();
  b->shard->progress_owner().set_thread(ProgressOwner::Thread::kBlocked);
  const std::uint64_t before = b->acks();
  a->write(*b, token());
  arrived_at_b();
  (void)b->poll();
  ASSERT_TRUE(b->got(last_));
  EXPECT_EQ(b->acks(), before + 1);
}

// A poll that has its completion, and only the acknowledgement to hold back, ends with that, before it looks at the
// engine's deadlines. Whatever the program does next, the acknowledgement leaves.
class LeavingForTheReply : public HoldingBack {
 protected:
  // Much longer than the steps below last on a busy machine, much shorter than the last two tests wait.
  LeavingForTheReply() : HoldingBack(3_s) {
    b->shard->progress_owner().set_thread(ProgressOwner::Thread::kParked);
    before = b->acks();
    const unsigned completed = b->completed;
    b->write(*a, token());
    wait_for([&] { return a->got(last_); }, *a);
    before = b->acks();
    a->write(*b, token());
    arrived_at_b();
    EXPECT_TRUE(b->poll());
    EXPECT_EQ(b->completed, completed + 1);
    EXPECT_TRUE(b->got(last_));
    EXPECT_TRUE(b->shard->awaits_reply());
    EXPECT_EQ(b->shard->engine().transmit_interest().level, TransmitInterest::kDeferrable);
    EXPECT_EQ(b->acks(), before);
  }
  std::uint64_t before = 0;
};

TEST_F(LeavingForTheReply, ItLeavesWithTheReply) {
  b->write(*a, token());
  EXPECT_EQ(b->acks(), before + 1);
  EXPECT_FALSE(b->shard->awaits_reply());
  wait_for([&] { return a->got(last_); }, *a);
}

TEST_F(LeavingForTheReply, ItLeavesInTimeWhereTheProgramOnlyPollsOn) {
  wait_for([&] { return b->acks() == before + 1; }, *b);
  EXPECT_FALSE(b->shard->awaits_reply());
}

TEST_F(LeavingForTheReply, TheThreadSendsItWhereTheProgramStops) {
  const Instant end = monotonic_now() + kPatience;
  while (b->acks() == before && monotonic_now() < end) (void)b->shard->make_progress();
  EXPECT_EQ(b->acks(), before + 1);
}

// How often the progress thread of this process has gone to sleep; it has but one.
std::uint64_t looks_of_thread() {
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/task"}) {
    std::ifstream file{entry.path() / "status"};
    std::string word;
    file >> word >> word;
    if (word != "brdma-progress") continue;
    while (file >> word && word != "voluntary_ctxt_switches:") {
    }
    std::uint64_t count = 0;
    file >> count;
    return count;
  }
  return 0;
}

// A call that posts 256 KiB takes longer than the thread's shortest interval. A thread that took its program for absent
// would wait for the lock, which makes each of the two sleep and wake in turn from then on.
TEST(ParkedThread, LeavesAProgramAloneThatIsInACall) {
  constexpr int kLooks = 10, kTries = 20;
  auto leases = test::make_leases(1);
  Side side{std::move(leases[0])};
  ProgressThread thread{*side.shard, {}};
  ASSERT_TRUE(thread.start());
  ProgressOwner& progress_owner = side.shard->progress_owner();
  const Instant end = monotonic_now() + kPatience;
  bool left_alone = false;
  // More than once: between two calls we may lose our core, and the thread is right to come.
  for (int i = 0; i < kTries && !left_alone; ++i) {
    std::unique_lock held{side.shard->lock()};
    while (progress_owner.thread() != ProgressOwner::Thread::kParked && monotonic_now() < end) {
      (void)side.poll();
      progress_owner.left();
      held.unlock();
      if (progress_owner.thread() == ProgressOwner::Thread::kBlocked)
        progress_owner.wake();  // no packet comes that would
      held.lock();
    }
    progress_owner.called();
    const std::uint64_t before = looks_of_thread();
    while (!left_alone && !side.shard->lock().contended() && monotonic_now() < end)
      left_alone = looks_of_thread() >= before + kLooks;
    progress_owner.left();
  }
  EXPECT_TRUE(left_alone);
}

// Packets wake the program; there are none here.
class StandingBy : public testing::Test {
 protected:
  StandingBy() : side{std::move(test::make_leases(1)[0])}, thread{*side.shard, {}} { EXPECT_TRUE(thread.start()); }
  void attend() {
    const std::lock_guard held{side.shard->lock()};
    side.shard->progress_owner().attend();
    side.shard->attend(false);
    side.shard->progress_owner().left();
  }
  // A thread that sleeps on the sockets is notified by a packet, or as here.
  void attend_until(ProgressOwner::Thread state) {
    ProgressOwner& progress_owner = side.shard->progress_owner();
    const Instant end = monotonic_now() + kPatience;
    while (progress_owner.thread() != state && monotonic_now() < end) {
      attend();
      progress_owner.wake();
    }
    ASSERT_EQ(progress_owner.thread(), state);
  }
  void ask_for_help() {
    const std::lock_guard held{side.shard->lock()};
    side.shard->progress_owner().request_help();
    side.shard->progress_owner().wake();
  }
  void wait_for(ProgressOwner::Thread state) {
    const Instant end = monotonic_now() + kPatience;
    while (side.shard->progress_owner().thread() != state && monotonic_now() < end) sched_yield();
    ASSERT_EQ(side.shard->progress_owner().thread(), state);
  }
  Side side;
  ProgressThread thread;
};

TEST_F(StandingBy, EndsOnARequestForHelpAndBeginsAgain) {
  for (int round = 0; round < 3; ++round) {
    attend_until(ProgressOwner::Thread::kStandingBy);
    ask_for_help();
    wait_for(ProgressOwner::Thread::kBlocked);
    ask_for_help();  // asked of a thread that is the progress owner
    ask_for_help();
  }
  attend_until(ProgressOwner::Thread::kStandingBy);
}

// Packets in the socket, counted from outside.
std::size_t packets_in(int fd) {
  std::array<std::byte, 2048> bytes;
  std::size_t count = 0;
  while (::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT) >= 0) ++count;
  return count;
}

// In bitmap mode. Neither has a thread yet.
void connect(Side& a, Side& b) {
  a.connect(b);
  b.connect(a);
  const Instant end = monotonic_now() + kPatience;
  while ((!a.agreed() || !b.agreed()) && monotonic_now() < end) EXPECT_FALSE(a.poll() || b.poll());
  ASSERT_TRUE(a.agreed() && b.agreed());
}

// Packets wake a program that sleeps. But one that polls, finds nothing and learns next that its peer has gone does not
// sleep, and polls no more: also its first polls after a wake-up must look at the socket.
TEST(PollOfASleeper, FindsWhatIsInTheSocket) {
  constexpr int kPolls = 4;
  auto leases = test::make_leases(2);
  Side a{std::move(leases[0])}, b{std::move(leases[1])};
  ASSERT_NO_FATAL_FAILURE(connect(a, b));
  a.shard->progress_owner().set_thread(ProgressOwner::Thread::kStandingBy);
  const Instant end = monotonic_now() + kPatience;
  for (int poll = 0; poll < kPolls; ++poll) {
    a.shard->request_notify(a.cq, false);
    const std::uint64_t before = b.acks();
    a.write(b, std::byte{1});
    while (b.acks() == before && monotonic_now() < end) (void)b.shard->make_progress();
    ASSERT_TRUE(a.shard->progress_owner().driver().sleeps);
    EXPECT_TRUE(a.poll()) << "the acknowledgement is in the socket, " << poll;
  }
}

// A packet wakes the thread just before a deadline, and the application takes it: the deadline must not be lost. The
// peer is silent, so the next packet to it shows the deadline.
TEST(StandingByForAPeer, KeepsTheDeadlineThatFallsIntoAMomentForTheApplication) {
  constexpr int kRounds = 16;
  auto leases = test::make_leases(2);
  Side a{std::move(leases[0])}, b{std::move(leases[1])};
  ASSERT_NO_FATAL_FAILURE(connect(a, b));
  ProgressOwner& progress_owner = a.shard->progress_owner();
  const auto attend = [&] {
    const std::lock_guard held{a.shard->lock()};
    progress_owner.attend();
    a.shard->attend(false);
    progress_owner.left();
    return a.shard->next_deadline();
  };
  std::array<std::uint8_t, 16> to_a{};  // BTH's queue pair number selects the owner; there is no such queue pair
  to_a[7] = static_cast<std::uint8_t>(a.lease.slot);
  sockaddr_in port{};
  port.sin_family = AF_INET;
  port.sin_port = htons(4791);
  port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int stranger = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(stranger, 0);
  ProgressThread thread{*a.shard, {}};
  ASSERT_TRUE(thread.start());
  const int at_b = b.shard->receive_fds()[0];
  {
    const std::lock_guard held{a.shard->lock()};
    a.write(b, std::byte{1});
  }
  for (int round = 0; round < kRounds; ++round) {
    const Instant end = monotonic_now() + kPatience;
    while (progress_owner.thread() != ProgressOwner::Thread::kStandingBy && monotonic_now() < end) {
      (void)attend();
      progress_owner.wake();
    }
    const auto deadline = attend();
    ASSERT_TRUE(deadline.has_value());
    (void)packets_in(at_b);
    const Instant due = std::max(*deadline, monotonic_now() + 200_us);
    // The wakeup time of the thread is the machine's; it waits for the application for 50 us then.
    while (monotonic_now() < due - 60_us - 10_us * round) continue;
    ASSERT_EQ(::sendto(stranger, to_a.data(), to_a.size(), 0, reinterpret_cast<const sockaddr*>(&port), sizeof port),
              16);
    while (monotonic_now() < due - 15_us) continue;
    (void)attend();
    pollfd readable{at_b, POLLIN, 0};
    ASSERT_EQ(::poll(&readable, 1, 10'000), 1) << "round " << round << ": the deadline was forgotten";
  }
  ::close(stranger);
}

// A program that sleeps, and replies: once that has been observed its acknowledgement is piggybacked on the reply. If
// it goes to sleep without one the acknowledgement leaves then.
TEST(StandingByForAPeer, AcknowledgesWithTheReplyOrBeforeItSleeps) {
  auto leases = test::make_leases(2);
  Side a{std::move(leases[0])}, b{std::move(leases[1])};
  ASSERT_NO_FATAL_FAILURE(connect(a, b));
  const Instant end = monotonic_now() + kPatience;
  ProgressThread thread{*b.shard, {}};
  ASSERT_TRUE(thread.start());
  ProgressOwner& progress_owner = b.shard->progress_owner();
  const auto attend = [&](bool then_sleeps) {
    const std::lock_guard held{b.shard->lock()};
    progress_owner.attend();
    b.shard->attend(false, then_sleeps);
    progress_owner.left();
  };
  const auto readable = [](const Side& side) {
    pollfd socket{side.shard->receive_fds()[0], POLLIN, 0};
    return ::poll(&socket, 1, 0) == 1;
  };
  // A request, which `b` takes; then its action. Returns whether the acknowledgement had left by itself before.
  const auto turn = [&](const auto& then) {
    for (; progress_owner.thread() != ProgressOwner::Thread::kStandingBy && monotonic_now() < end;
         progress_owner.wake())
      attend(false);
    while (readable(a)) (void)a.poll();
    a.write(b, std::byte{1});
    while (!readable(b) && monotonic_now() < end) continue;
    attend(false);
    const bool alone = readable(a);
    then();
    EXPECT_TRUE(readable(a));
    return alone;
  };
  const auto reply = [&] {
    const std::lock_guard held{b.shard->lock()};
    (void)b.poll();  // the one before
    b.write(a, std::byte{2});
  };
  // A host without a core for a moment may use up the waiting time.
  int with_the_reply = 0, at_the_end = 0;
  for (int i = 0; i < 40; ++i) with_the_reply += turn(reply) ? 0 : 1;
  for (int i = 0; i < 10; ++i) {
    at_the_end += turn([&] { attend(true); }) ? 0 : 1;
    for (int back = 0; back < 8; ++back) (void)turn(reply);
  }
  EXPECT_GE(with_the_reply, 20);
  EXPECT_GE(at_the_end, 5);
}

// A program that its packets wake takes each of them, and is counted for it; if it does not come, the thread takes all
// waiting ones, once.
TEST(StandingByForAPeer, CountsWhoTookTheMessages) {
  auto leases = test::make_leases(2);
  Side a{std::move(leases[0])}, b{std::move(leases[1])};
  ASSERT_NO_FATAL_FAILURE(connect(a, b));
  const Instant end = monotonic_now() + kPatience;
  const auto count = [&b](Counter counter) { return b.lease.statistics->get(counter); };
  const auto attend = [&b] {
    const std::lock_guard held{b.shard->lock()};
    b.shard->progress_owner().attend();
    b.shard->attend(false);
    b.shard->progress_owner().left();
  };
  a.write(b, std::byte{1});
  pollfd readable{b.shard->receive_fds()[0], POLLIN, 0};
  ASSERT_EQ(::poll(&readable, 1, 20'000), 1);
  EXPECT_EQ(count(Counter::kSleeperTook), 0u);
  attend();
  EXPECT_TRUE(b.got(std::byte{1}));
  EXPECT_EQ(count(Counter::kSleeperTook), 1u);
  EXPECT_EQ(count(Counter::kSleeperHelped), 0u);

  ProgressThread thread{*b.shard, {}};
  ASSERT_TRUE(thread.start());
  ProgressOwner& progress_owner = b.shard->progress_owner();
  for (; progress_owner.thread() != ProgressOwner::Thread::kStandingBy && monotonic_now() < end; progress_owner.wake())
    attend();
  const std::uint64_t took = count(Counter::kSleeperTook);
  a.write(b, std::byte{2});
  while (!b.got(std::byte{2}) && monotonic_now() < end) sched_yield();
  EXPECT_TRUE(b.got(std::byte{2}));
  EXPECT_EQ(count(Counter::kSleeperHelped), 1u);
  EXPECT_EQ(count(Counter::kSleeperTook), took);
}

// Each datagram that found no room, and no other.
TEST(SocketOverflow, IsCountedByTheShard) {
  constexpr unsigned kSent = 200;
  auto leases = test::make_leases(1);
  Side side{std::move(leases[0])};
  const int bytes = 10'000;
  ASSERT_EQ(::setsockopt(side.shard->receive_fds()[0], SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
  TransmitSocket sender = TransmitSocket::open({}).value();
  std::array<std::byte, 1044> packet{};  // BTH's queue pair number selects the owner; there is no such queue pair
  packet[7] = static_cast<std::byte>(side.lease.slot);
  const Slice slice{packet.data(), packet.size()};
  Transmit batch;
  batch.source = batch.destination = IpAddress::v4(127, 0, 0, 1);
  batch.segments = 1;
  batch.segment_bytes = static_cast<std::uint16_t>(packet.size());
  batch.bytes = static_cast<std::uint32_t>(packet.size());
  batch.slices = {&slice, 1};
  const auto count = [&side](Counter counter) { return side.lease.statistics->get(counter); };
  for (unsigned i = 0; i < kSent; ++i) ASSERT_EQ(sender.send(batch).refused, 0u);
  const Instant end = monotonic_now() + kPatience;
  const auto take = [&] {
    const std::uint64_t before = count(Counter::kReceivedPackets);
    while (count(Counter::kReceivedPackets) == before && monotonic_now() < end) (void)side.poll();
    for (int i = 0; i < 100; ++i) (void)side.poll();
  };
  take();
  ASSERT_EQ(sender.send(batch).refused, 0u);  // with this one the kernel reports its drops
  take();
  EXPECT_GT(count(Counter::kSocketOverflow), 0u);
  EXPECT_EQ(count(Counter::kSocketOverflow) + count(Counter::kReceivedPackets), kSent + 1u);
}

// Over IPv6 the next send reports that the last packet found no listener; that send has not left then, and is repeated
// at once. `b` receives on a port of its own, which nobody else listens on.
TEST(Unreachable, IsCountedForEachSendThatSaysSo) {
  const int listener = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(listener, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  auto leases = test::make_leases(2);
  ASSERT_GE(::dup2(listener, leases[1].socket_fd), 0);
  constexpr IpAddress kLoopback6{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  Side a{std::move(leases[0]), Side::kTokenBytes, 64, ntohs(address.sin6_port)}, b{std::move(leases[1])};
  a.connect(b, kLoopback6);
  b.connect(a, kLoopback6);
  const Instant end = monotonic_now() + kPatience;
  while ((!a.agreed() || !b.agreed()) && monotonic_now() < end) EXPECT_FALSE(a.poll() || b.poll());
  for (unsigned i = 1; i <= 40; ++i) {  // as many as it takes to make a's socket a connected one
    a.write(b, std::byte{1});
    while (a.completed < i && monotonic_now() < end) (void)b.poll(), (void)a.poll();
  }
  const auto count = [&a](Counter counter) { return a.lease.statistics->get(counter); };
  EXPECT_EQ(count(Counter::kPeerUnreachable), 0u);
  ASSERT_GE(::dup2(a.lease.socket_fd, b.lease.socket_fd), 0);
  ::close(listener);
  a.write(b, std::byte{1});  // it has left; the answer comes with the next
  EXPECT_EQ(count(Counter::kPeerUnreachable), 0u);
  a.write(b, std::byte{1});
  EXPECT_EQ(count(Counter::kPeerUnreachable), 1u);
  EXPECT_EQ(count(Counter::kSendFailed), 0u);
}

TEST_F(StandingBy, CostsNothingWhileNothingHappens) {
  attend_until(ProgressOwner::Thread::kStandingBy);
  const Instant end = monotonic_now() + kPatience;
  std::uint64_t looks = 0, before = 1;
  while (looks != before && monotonic_now() < end) {  // it has found several times that all is idle
    before = looks_of_thread();
    std::this_thread::sleep_for(std::chrono::milliseconds{50});  // time itself is under test
    looks = looks_of_thread();
  }
  EXPECT_EQ(looks, before);
}

}  // namespace
}  // namespace brdma::io
