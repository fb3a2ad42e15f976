// Looks at the socket that a program leaves out: behind a packet that has woken it, and while it polls for long. A
// packet is found all the same.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "io/poll/follow_up_look.h"
#include "shard_side.h"

namespace brdma::io {
namespace {

constexpr Duration kPatience = 20_s;

// `b` sleeps, and is driven by hand: there is no thread.
class LooksOfASleeper : public testing::Test {
 protected:
  LooksOfASleeper() : LooksOfASleeper(test::make_leases(2)) {}
  explicit LooksOfASleeper(std::vector<Lease> leases) : a(std::move(leases[0])), b(std::move(leases[1])) {
    a.connect(b);
    b.connect(a);
    const Instant end = monotonic_now() + kPatience;
    while ((!a.agreed() || !b.agreed()) && monotonic_now() < end) EXPECT_FALSE(a.poll() || b.poll());
    b.shard->progress_owner().set_thread(ProgressOwner::Thread::kStandingBy);
  }
  [[nodiscard]] std::uint64_t saved() const { return b.lease.statistics->get(Counter::kSleeperLooksSaved); }
  [[nodiscard]] std::uint64_t took() const { return b.lease.statistics->get(Counter::kSleeperTook); }
  [[nodiscard]] bool readable() const {
    pollfd socket{b.shard->receive_fds()[0], POLLIN, 0};
    return ::poll(&socket, 1, 0) == 1;
  }
  void arrives(std::byte token) {
    a.write(b, token);
    const Instant end = monotonic_now() + kPatience;
    while (!readable() && monotonic_now() < end) continue;
    ASSERT_TRUE(readable());
  }
  void attend() {
    const std::lock_guard held{b.shard->lock()};
    b.shard->progress_owner().attend();
    b.shard->attend(false);
    b.shard->progress_owner().left();
  }
  void arm() { b.shard->request_notify(b.cq, false); }
  // What a program does that a packet woke: an event, no further one, arm, poll until there is nothing.
  void turn(std::byte token) {
    ASSERT_NO_FATAL_FAILURE(arrives(token));
    attend();
    EXPECT_TRUE(b.got(token));
    attend();
    arm();
    EXPECT_FALSE(b.poll());
    (void)a.shard->make_progress();
    while (a.poll()) continue;
  }
  void learn() {
    for (unsigned i = 0; i < FollowUpLook::kEmptyMin; ++i) ASSERT_NO_FATAL_FAILURE(turn(std::byte{1}));
    EXPECT_EQ(saved(), 0u);
  }
  Side a, b;
};

TEST_F(LooksOfASleeper, AreLeftOutWhereNothingFollows) {
  ASSERT_NO_FATAL_FAILURE(learn());
  const std::uint64_t looks = b.shard->progress_owner().looks();
  constexpr unsigned kTurns = 100;
  for (unsigned i = 0; i < kTurns; ++i) ASSERT_NO_FATAL_FAILURE(turn(std::byte{2}));
  // A turn may lose its core between its packet and its poll, which then looks. So each turn has one look, or two.
  EXPECT_GE(b.lease.statistics->get(Counter::kSleeperLooksSaved), 2 * kTurns - kTurns / 2);
  EXPECT_EQ(b.shard->progress_owner().looks() - looks + saved(), 3 * kTurns);
}

// The second packet came before the program asked for more: it is taken when the program comes again.
TEST_F(LooksOfASleeper, AreMadeAgainWherePacketsWaited) {
  ASSERT_NO_FATAL_FAILURE(learn());
  ASSERT_NO_FATAL_FAILURE(arrives(std::byte{2}));
  attend();
  ASSERT_NO_FATAL_FAILURE(arrives(std::byte{3}));
  const std::uint64_t saved_before = saved();
  attend();
  EXPECT_EQ(saved(), saved_before + 1);
  EXPECT_TRUE(readable()) << "and it wakes the program";
  attend();
  EXPECT_TRUE(b.got(std::byte{3}));
  ASSERT_NO_FATAL_FAILURE(arrives(std::byte{4}));
  attend();
  EXPECT_EQ(saved(), saved_before + 1);
  EXPECT_TRUE(b.got(std::byte{4}));
}

// It learns that its peer has gone, and polls before it gives up.
TEST_F(LooksOfASleeper, ASecondPollLooks) {
  ASSERT_NO_FATAL_FAILURE(learn());
  ASSERT_NO_FATAL_FAILURE(arrives(std::byte{2}));
  attend();
  arm();
  ASSERT_NO_FATAL_FAILURE(arrives(std::byte{3}));
  (void)b.poll();
  (void)b.poll();
  EXPECT_TRUE(b.got(std::byte{3}));
}

// Nothing would wake it.
TEST_F(LooksOfASleeper, AreMadeWhereNothingIsArmed) {
  ASSERT_NO_FATAL_FAILURE(learn());
  b.shard->progress_owner().notified();
  const std::uint64_t before = saved();
  ASSERT_NO_FATAL_FAILURE(arrives(std::byte{2}));
  attend();
  ASSERT_NO_FATAL_FAILURE(arrives(std::byte{3}));
  (void)b.poll();
  EXPECT_EQ(saved(), before);
  EXPECT_TRUE(b.got(std::byte{3}));
}

// --- long polling ---

TEST(LooksOfAPoller, AreOneAMicrosecondAfterManyEmptyPolls) {
  constexpr unsigned kPolls = 100'000, kFirst = 300;
  auto leases = test::make_leases(1);
  Side side{std::move(leases[0])};
  for (unsigned i = 0; i < kFirst; ++i) EXPECT_FALSE(side.poll());
  const std::uint64_t before = side.shard->progress_owner().looks();
  const Instant begin = monotonic_now();
  for (unsigned i = 0; i < kPolls; ++i) EXPECT_FALSE(side.poll());
  const std::int64_t us = (monotonic_now() - begin).ns() / 1000;
  const std::uint64_t looks = side.shard->progress_owner().looks() - before;
  EXPECT_LE(looks, static_cast<std::uint64_t>(us) + 1);
  EXPECT_LT(looks, kPolls / 2);
  EXPECT_GT(looks, 100u);
}

TEST(LooksOfAPoller, FindAPacketWithinAMicrosecond) {
  auto leases = test::make_leases(2);
  Side a{std::move(leases[0])}, b{std::move(leases[1])};
  a.connect(b);
  b.connect(a);
  const Instant end = monotonic_now() + kPatience;
  while ((!a.agreed() || !b.agreed()) && monotonic_now() < end) EXPECT_FALSE(a.poll() || b.poll());
  for (unsigned i = 1; i <= 20; ++i) {
    while (!b.shard->progress_owner().polls_in_vain() && monotonic_now() < end) EXPECT_FALSE(b.poll());
    (void)b.poll();
    const auto token = static_cast<std::byte>(i);
    a.write(b, token);
    pollfd socket{b.shard->receive_fds()[0], POLLIN, 0};
    ASSERT_EQ(::poll(&socket, 1, 10'000), 1);
    const Instant arrived = monotonic_now();
    while (monotonic_now() - arrived < 1_us) continue;
    (void)b.poll();
    EXPECT_TRUE(b.got(token)) << i;
    while (a.completed < i && monotonic_now() < end) (void)a.poll();
  }
}

}  // namespace
}  // namespace brdma::io
