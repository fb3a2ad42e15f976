// io's decisions without the system: credit figures, splitting batches, who makes progress. What may wait, and how long
// a poll stays: tests/unit/io.
#include <gmock/gmock.h>
#include <sys/timerfd.h>

#include <array>
#include <string>
#include <vector>

#include "io/poll/park_interval.h"
#include "io/poll/progress_owner.h"
#include "io/shard/arrival_clock.h"
#include "io/shard/spin_permits.h"
#include "io/udp/receive_budget.h"
#include "io/udp/split_batch.h"

namespace brdma::io {
namespace {

using testing::ElementsAre;

TEST(ArrivalClock, SaysNothingOfWhatCannotBe) {
  ArrivalClock clock;
  timespec real{};
  clock_gettime(CLOCK_REALTIME, &real);
  const std::int64_t stamp = std::int64_t{real.tv_sec} * 1'000'000'000 + real.tv_nsec;
  const Instant now = monotonic_now();
  EXPECT_EQ(clock.waited(0, now), Duration{});
  EXPECT_EQ(clock.waited(stamp + 1'000'000'000, now), Duration{}) << "arrived in the future";
  EXPECT_EQ(clock.waited(stamp - 2'000'000'000, now), Duration{}) << "the clock was set, more likely";
  EXPECT_GE(clock.waited(stamp - 5'000'000, now), 5_ms - 10_us);
}

TEST(ParkInterval, IsShorterAfterPacketsHadToWait) {
  ParkInterval park{50_us, 700_us};
  EXPECT_EQ(park.interval(), 700_us);
  park.present();
  EXPECT_EQ(park.interval(), 700_us);
  for (const Duration expected : {175_us, 50_us, 50_us}) {
    park.helped();
    EXPECT_EQ(park.interval(), expected);
  }
}

// A turn of a large ping-pong: a few checks find calls, then none does, and its packets have waited.
TEST(ParkInterval, StaysShortForAProgramThatPollsForAMomentInEachTurn) {
  ParkInterval park{50_us, 700_us};
  park.alert();
  for (int turn = 0; turn < 100; ++turn) {
    for (int look = 0; look < 3; ++look) park.present();
    EXPECT_EQ(park.interval(), 50_us) << "turn " << turn;
    park.helped();
  }
}

TEST(ParkInterval, GrowsAgainWhileCallsCome) {
  ParkInterval park{50_us, 700_us};
  park.alert();
  std::vector<Duration> intervals;
  for (int look = 0; look < 20; ++look) {
    if (look % 4 == 0) intervals.push_back(park.interval());
    park.present();
  }
  EXPECT_THAT(intervals, ElementsAre(50_us, 100_us, 200_us, 400_us, 700_us));
}

TEST(SpinPermits, AreAsManyAsThereAre) {
  SpinPermits permits{2};
  EXPECT_TRUE(permits.take());
  EXPECT_TRUE(permits.take());
  EXPECT_FALSE(permits.take());
  permits.give_back();
  EXPECT_TRUE(permits.take());
  EXPECT_FALSE(permits.take());
}

TEST(SpinPermits, AreForHalfOfTheCoresAndOneAtLeast) {
  EXPECT_EQ(spinning_max(1), 1u);
  EXPECT_EQ(spinning_max(2), 1u);
  EXPECT_EQ(spinning_max(3), 1u);
  EXPECT_EQ(spinning_max(16), 8u);
}

TEST(ReceiveBudget, DefaultBufferGivesWhatWasMeasuredToFit) {
  // 212992 bytes hold 25 datagrams of 4116 B that come singly, or 256 small ones (docs/explanation/datapath.md).
  const ReceiveBudget budget = receive_budget(212992);
  EXPECT_EQ(budget.packets, 64u);       // 212992 / 4 / 832
  EXPECT_EQ(budget.bytes, 85196u);      // 212992 * 3/4 * 8/15
  EXPECT_EQ(budget.bytes / 4096, 20u);  // below 25
}

TEST(ReceiveBudget, BothLimitsAtOnceFit) {
  for (const std::uint64_t buffer : {2304u, 212992u, 8u << 20, 64u << 20}) {
    const ReceiveBudget budget = receive_budget(buffer);
    EXPECT_LE(budget.packets * kChargePerPacket + budget.bytes * kChargeNumerator / kChargeDenominator, buffer);
  }
}

TEST(ReceiveBudget, HugeBufferDoesNotOverflow) {
  EXPECT_EQ(receive_budget(~std::uint64_t{0}).bytes, receive_budget(1u << 30).bytes);
}

std::vector<std::string> split(std::vector<std::string> parts, std::uint16_t segment_bytes, std::uint16_t segments) {
  std::vector<Slice> slices;
  Transmit transmit;
  for (const auto& part : parts) {
    slices.push_back({part.data(), part.size()});
    transmit.bytes += static_cast<std::uint32_t>(part.size());
  }
  transmit.slices = slices;
  transmit.segment_bytes = segment_bytes;
  transmit.segments = segments;
  std::array<iovec, kSplitPiecesMax> pieces;
  std::array<PacketPieces, kSegmentsMax> packets;
  std::vector<std::string> out;
  const std::size_t count = split_batch(transmit, pieces, packets);
  for (std::size_t i = 0; i < count; ++i) {
    auto& packet = out.emplace_back();
    for (std::uint32_t k = 0; k < packets[i].count; ++k) {
      const iovec& piece = pieces[packets[i].first + k];
      packet.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    }
  }
  return out;
}

TEST(SplitBatch, CutsWithinSlices) {
  // Headers, payload, then one slice with the end of the first packet and the start of the second; a shorter last one.
  EXPECT_THAT(split({"hh", "pppp", "tHH", "PPPP", "Tx", "y"}, 7, 3), ElementsAre("hhppppt", "HHPPPPT", "xy"));
}
TEST(SplitBatch, OneSliceManyPackets) { EXPECT_THAT(split({"abcdefg"}, 3, 3), ElementsAre("abc", "def", "g")); }
TEST(SplitBatch, ManySlicesOnePacket) { EXPECT_THAT(split({"a", "b", "", "c"}, 3, 1), ElementsAre("abc")); }

// How many of the next `polls` empty polls yield.
int yields_of(ProgressOwner& progress_owner, int polls) {
  int yields = 0;
  for (int i = 0; i < polls; ++i) {
    progress_owner.on_empty_poll();
    if (progress_owner.should_yield()) ++yields;
  }
  return yields;
}

TEST(ProgressOwner, ManyEmptyPollsYieldNowAndThen) {
  ProgressOwner progress_owner;
  EXPECT_EQ(yields_of(progress_owner, 255), 0);
  EXPECT_EQ(yields_of(progress_owner, 16), 1);
  EXPECT_EQ(yields_of(progress_owner, 160), 10);
  progress_owner.polled_well();
  EXPECT_FALSE(progress_owner.should_yield());
  EXPECT_EQ(yields_of(progress_owner, 255), 0);
}

TEST(ProgressOwner, RepeatedLooksInAPollCountTowardsAYield) {
  ProgressOwner progress_owner;
  int yields = 0;
  for (int looks = 0; looks < 256 + 16 * 10; looks += 10) {
    progress_owner.on_empty_poll(10);
    if (progress_owner.should_yield()) ++yields;
  }
  EXPECT_EQ(yields, 11);
}

// It would find nothing if the thread did not receive for it: the thread must see that it is not needed.
TEST(ProgressOwner, PollsThatAlwaysFindWorkArePollingInALoop) {
  constexpr int kPolls = 8;
  ProgressOwner progress_owner;
  progress_owner.sleeps();
  for (int i = 0; i < kPolls; ++i) progress_owner.polled_well();
  EXPECT_FALSE(progress_owner.application_spins()) << "it sleeps in between";
  EXPECT_TRUE(progress_owner.driver().sleeps);
  for (int i = 0; i < kPolls; ++i) progress_owner.on_empty_poll();
  EXPECT_FALSE(progress_owner.driver().sleeps) << "it polls in a loop again";
  progress_owner.take_charge();
  for (int i = 0; i < kPolls; ++i) progress_owner.polled_well();
  EXPECT_TRUE(progress_owner.application_spins());
  progress_owner.take_charge();
  EXPECT_FALSE(progress_owner.application_spins());
}

// Between two checks of the thread: was the program there?
TEST(ProgressOwner, AProgramInACallOrAroundOneIsPresent) {
  ProgressOwner progress_owner;
  std::uint64_t seen = progress_owner.calls();
  EXPECT_FALSE(progress_owner.called_since(seen));
  progress_owner.called();
  EXPECT_TRUE(progress_owner.called_since(seen)) << "began";
  seen = progress_owner.calls();
  EXPECT_TRUE(progress_owner.called_since(seen)) << "lasts";
  progress_owner.called();
  seen = progress_owner.calls();
  EXPECT_TRUE(progress_owner.called_since(seen)) << "reported twice, still one";
  progress_owner.left();
  EXPECT_TRUE(progress_owner.called_since(seen)) << "ended";
  seen = progress_owner.calls();
  EXPECT_FALSE(progress_owner.called_since(seen));
  progress_owner.left();
  EXPECT_FALSE(progress_owner.called_since(seen)) << "the lock was held for something that makes no progress";
}

// A machine may be short of cores for a moment.
TEST(ProgressOwner, AProgramThatDidNotComeIsTrustedAgainLater) {
  ProgressOwner progress_owner;
  progress_owner.attend();
  EXPECT_TRUE(progress_owner.attended());
  progress_owner.distrust(monotonic_now());
  progress_owner.attend();
  EXPECT_FALSE(progress_owner.attended());
  progress_owner.distrust(monotonic_now() - 200_ms);  // the second time: for 200 ms
  progress_owner.attend();
  EXPECT_TRUE(progress_owner.attended());
}

// --- a thread that stands by ---

// Time until the thread's timer fires; 0: it is off.
Duration timer_of(const ProgressOwner& progress_owner) {
  itimerspec left{};
  EXPECT_EQ(timerfd_gettime(progress_owner.wake_ups().timer_fd(), &left), 0);
  return Duration::from_ns(std::int64_t{left.it_value.tv_sec} * 1'000'000'000 + left.it_value.tv_nsec);
}

TEST(StandingByFor, ADeadlineIsKeptALittleLater) {
  ProgressOwner progress_owner;
  progress_owner.stand_by(monotonic_now() + 1_us, true);
  EXPECT_GT(timer_of(progress_owner), Duration{});
  EXPECT_LE(timer_of(progress_owner), 200_us);
  progress_owner.stand_by(monotonic_now() + 1_s, true);
  EXPECT_GT(timer_of(progress_owner), 900_ms);
  EXPECT_FALSE(progress_owner.deadline_has_passed(monotonic_now()));
}

// Twice it was woken for one that had moved: from here on its regular checks are enough, and nobody sets the timer.
TEST(StandingByFor, DeadlinesThatMoveAreLeftToTheChecks) {
  ProgressOwner progress_owner;
  progress_owner.on_deadline(false);
  progress_owner.stand_by(monotonic_now() + 1_us, true);
  EXPECT_GT(timer_of(progress_owner), 200_us);
  (void)::timerfd_settime(progress_owner.wake_ups().timer_fd(), 0, std::array<itimerspec, 1>{}.data(), nullptr);
  progress_owner.on_deadline(false);
  const Instant deadline = monotonic_now() + 1_us;
  progress_owner.stand_by(deadline, true);
  progress_owner.deadline_is(deadline + 1_us);
  EXPECT_EQ(timer_of(progress_owner), Duration{});
  EXPECT_FALSE(progress_owner.deadline_has_passed(deadline));
  EXPECT_TRUE(progress_owner.deadline_has_passed(deadline + 1_us));
  progress_owner.deadline_is(std::nullopt);
  EXPECT_FALSE(progress_owner.deadline_has_passed(deadline + 1_s));
}

TEST(StandingByFor, ADeadlineThatComesIsKeptSoonFromThenOn) {
  ProgressOwner progress_owner;
  for (int i = 0; i < 2; ++i) progress_owner.on_deadline(false);
  progress_owner.on_deadline(true);
  progress_owner.stand_by(monotonic_now() + 1_us, true);
  EXPECT_GT(timer_of(progress_owner), Duration{});
  EXPECT_LE(timer_of(progress_owner), 200_us);
}

// Nothing but the timer wakes it.
TEST(StandingByFor, AThreadThatSleepsWithoutChecksHasTheTimer) {
  ProgressOwner progress_owner;
  for (int i = 0; i < 2; ++i) progress_owner.on_deadline(false);
  progress_owner.stand_by(monotonic_now() + 1_us, false);
  EXPECT_GT(timer_of(progress_owner), Duration{});
  EXPECT_LE(timer_of(progress_owner), 800_us);
}

}  // namespace
}  // namespace brdma::io
