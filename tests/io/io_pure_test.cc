// io's decisions without the system: credit figures, splitting batches, holding acknowledgements back.
#include <gmock/gmock.h>

#include <array>
#include <string>
#include <vector>

#include "io/poll/ack_deferral.h"
#include "io/poll/empty_polls.h"
#include "io/poll/park_interval.h"
#include "io/poll/progress_owner.h"
#include "io/poll/stay_for_message.h"
#include "io/poll/stay_for_reply.h"
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
  // 212992 bytes hold 25 datagrams of 4116 B that come singly, or 256 small ones (docs/datapath.md).
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

constexpr Instant at(std::int64_t us) { return Instant{} + 1_us * us; }

// An acknowledgement falls due, and the application replies a microsecond later.
void reply(AckDeferral& deferral, std::int64_t us, bool held) {
  EXPECT_EQ(deferral.hold_back(at(us)), held) << us;
  deferral.posted(at(us + 1));
  EXPECT_FALSE(deferral.holding());
}

TEST(AckDeferral, HoldsOnceRepliesAreSeenToFollow) {
  AckDeferral deferral{100_us};
  reply(deferral, 0, false);
  reply(deferral, 10, false);
  for (int i = 2; i < 100; ++i) {
    EXPECT_TRUE(deferral.hold_back(at(i * 10)));
    EXPECT_TRUE(deferral.hold_back(at(i * 10 + 8)));  // asked again: the same result
    EXPECT_EQ(deferral.deadline(), at(i * 10 + 100));
    deferral.posted(at(i * 10 + 9));
  }
}
// One turn: posted, polled; then the reply comes to the receiving thread.
bool ping(StayForReply& policy, bool replied) {
  policy.posted(true);
  const bool stays = policy.stay();
  if (stays) {
    policy.stayed(replied);
  } else if (replied) {
    policy.thread_received();
  }
  return stays;
}

TEST(StayForReply, StaysOnceRepliesAreSeenToFollow) {
  StayForReply policy;
  EXPECT_FALSE(ping(policy, true));
  EXPECT_FALSE(ping(policy, true));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(ping(policy, true));
  // One does not end it, several in a row do: each counts as an empty poll, and as a post before anything came.
  int mishaps = 0;
  while (ping(policy, false)) ++mishaps;
  EXPECT_GE(mishaps, 2);
  EXPECT_LE(mishaps, 4);
  EXPECT_FALSE(policy.stay());  // nothing posted since
}

TEST(StayForReply, NeverStaysForAProgramThatOnlySends) {
  StayForReply policy;
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(ping(policy, false));
  for (int i = 0; i < 20; ++i) {
    policy.posted(false);  // RC, or not a WRITE
    EXPECT_FALSE(policy.stay());
    policy.thread_received();
  }
}

// One turn: posted, polled until complete; the peer's message is arriving. `thread`: the thread has to receive the
// rest.
bool long_ping(StayForMessage& policy, bool thread) {
  const QueuePair* const qp = reinterpret_cast<const QueuePair*>(&policy);
  policy.posted(qp);
  policy.called();  // a poll
  EXPECT_EQ(policy.take_posted(), qp);
  EXPECT_EQ(policy.take_posted(), nullptr) << "once";
  const bool stays = policy.stay();
  if (thread && !stays) policy.thread_received();
  return stays;
}

TEST(StayForMessage, StaysOnceTheThreadIsSeenToReceiveTheRest) {
  StayForMessage policy;
  EXPECT_FALSE(long_ping(policy, true));
  EXPECT_FALSE(long_ping(policy, true));
  int stayed = 0;
  for (int i = 0; i < 64; ++i) stayed += long_ping(policy, true) ? 1 : 0;
  EXPECT_EQ(stayed, 63) << "each 64th time it is tested again";
  // A program that returns by itself by now is recognized then.
  stayed = 0;
  for (int i = 0; i < 64 * 8; ++i) stayed += long_ping(policy, false) ? 1 : 0;
  EXPECT_LT(stayed, 64 * 3);
  for (int i = 0; i < 64; ++i) EXPECT_FALSE(long_ping(policy, false));
}

TEST(StayForMessage, NeverStaysForAProgramThatReturnsByItself) {
  StayForMessage policy;
  for (int i = 0; i < 200; ++i) {
    EXPECT_FALSE(long_ping(policy, false));
    policy.called();           // polls again
    policy.thread_received();  // later: proves nothing about that poll
  }
}

TEST(StayForMessage, ForgetsQueuePairsThatMayGo) {
  StayForMessage policy;
  policy.posted(reinterpret_cast<const QueuePair*>(&policy));
  policy.forget();
  EXPECT_EQ(policy.take_posted(), nullptr);
  policy.posted(reinterpret_cast<const QueuePair*>(&policy));
  policy.posted(nullptr);  // a SEND
  EXPECT_EQ(policy.take_posted(), nullptr);
}

TEST(AckDeferral, NeverHoldsWhatIsNotReplied) {
  AckDeferral deferral{100_us};
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(deferral.hold_back(at(i)));
  deferral.posted(at(101));                                          // -7
  for (int i = 0; i < 9; ++i) reply(deferral, 200 + i * 10, false);  // 2
  reply(deferral, 300, true);
}
TEST(AckDeferral, LateRepliesAreNone) {
  AckDeferral deferral{100_us};
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(deferral.hold_back(at(i * 1000)));
    deferral.posted(at(i * 1000 + 100));
  }
}
// A poll may rely on this before it has read the deadlines.
TEST(AckDeferral, ExpectsAReplyWhereItWouldBeginToHold) {
  AckDeferral deferral{100_us};
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(deferral.expects_reply()) << i;
    reply(deferral, i * 10, false);
  }
  EXPECT_TRUE(deferral.expects_reply());
  EXPECT_TRUE(deferral.hold_back(at(20)));
  EXPECT_FALSE(deferral.expects_reply()) << "it holds already";
  deferral.posted(at(21));
  EXPECT_TRUE(deferral.expects_reply());
  AckDeferral never{Duration{}};
  for (int i = 0; i < 8; ++i) reply(never, i * 10, false);
  EXPECT_FALSE(never.expects_reply());
}
TEST(AckDeferral, OneMishapDoesNotStopIt) {
  AckDeferral deferral{100_us};
  for (int i = 0; i < 8; ++i) reply(deferral, i * 10, i >= 2);  // 8
  EXPECT_TRUE(deferral.hold_back(at(200)));
  EXPECT_FALSE(deferral.hold_back(at(300)));  // ran out
  deferral.sent(/*joined=*/false);            // 4
  deferral.posted(at(4000));                  // 3
  reply(deferral, 4001, true);
}
TEST(AckDeferral, HoldingWithoutAReplyStopsIt) {
  AckDeferral deferral{100_us};
  reply(deferral, 0, false);
  reply(deferral, 10, false);
  EXPECT_TRUE(deferral.hold_back(at(20)));
  EXPECT_FALSE(deferral.hold_back(at(120)));
  deferral.sent(/*joined=*/false);            // -2
  EXPECT_FALSE(deferral.hold_back(at(200)));  // -3, for the last one was never replied
  deferral.posted(at(201));                   // -2
  for (int i = 0; i < 4; ++i) reply(deferral, 300 + i * 10, false);
  reply(deferral, 400, true);
}
TEST(AckDeferral, JoiningOtherOutputIsNoLoss) {
  AckDeferral deferral{100_us};
  reply(deferral, 0, false);
  reply(deferral, 10, false);
  EXPECT_TRUE(deferral.hold_back(at(20)));
  deferral.sent(/*joined=*/true);
  EXPECT_FALSE(deferral.holding());
  deferral.posted(at(21));
  reply(deferral, 30, true);
}
TEST(AckDeferral, ZeroTurnsItOff) {
  AckDeferral deferral{Duration{}};
  for (int i = 0; i < 100; ++i) reply(deferral, i * 10, false);
}

// A poll each `apart`, each of which ends when it began. Returns how many of them poll again.
int looks_again(EmptyPolls& polls, Instant& now, int count, Duration apart) {
  int again = 0;
  for (int i = 0; i < count; ++i) {
    now = now + apart;
    if (polls.look_again(now)) ++again;
    polls.ended(now);
  }
  return again;
}

TEST(EmptyPolls, LookAgainWhereTheProgramDoesLittleElse) {
  EmptyPolls polls;
  Instant now = Instant{} + 1_s;
  EXPECT_EQ(looks_again(polls, now, 10, 200_ns), 9);
  EXPECT_EQ(looks_again(polls, now, 10, EmptyPolls::kAtOnceMax), 0);
  EXPECT_EQ(looks_again(polls, now, 10, 200_ns), 10);
}

// The time in between is the peer's and the program's, and nothing is kept waiting.
TEST(EmptyPolls, LookAgainFromTheFirstOneAfterAPost) {
  EmptyPolls polls;
  Instant now = Instant{} + 1_s;
  (void)looks_again(polls, now, 2, 200_ns);
  for (int turn = 0; turn < 10; ++turn) {
    now = now + 5_us;
    polls.delivered();
    now = now + 5_us;
    polls.posted();
    EXPECT_EQ(looks_again(polls, now, 3, 200_ns), 3);
  }
}

// It may have to poll until there is nothing, and continue then.
TEST(EmptyPolls, ReturnAtOnceBehindCompletions) {
  EmptyPolls polls;
  Instant now = Instant{} + 1_s;
  (void)looks_again(polls, now, 2, 200_ns);
  for (int turn = 0; turn < 10; ++turn) {
    polls.delivered();
    EXPECT_EQ(looks_again(polls, now, 1, 200_ns), 0);
  }
  EXPECT_EQ(looks_again(polls, now, 3, 200_ns), 3) << "it only receives";
}

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
  progress_owner.polled_well(false);
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
  for (int i = 0; i < kPolls; ++i) progress_owner.polled_well(true);
  EXPECT_FALSE(progress_owner.application_spins()) << "it sleeps in between";
  for (int i = 0; i < kPolls; ++i) progress_owner.polled_well(false);
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

}  // namespace
}  // namespace brdma::io
