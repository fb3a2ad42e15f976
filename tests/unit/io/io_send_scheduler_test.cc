// Transcripts in virtual time: what happens, and whether output leaves, is gathered or held. Rows of a table are the
// time in us, the event, and the decision:
//   "-"         nothing can leave
//   "gathered"  the posts wait for more
//   "held"      output waits: an acknowledgement for the reply, or a rest of posts
//   "60"        so many packets leave, the rest waits
//   "all"       all of it leaves
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "io/poll/send_scheduler.h"

namespace brdma::io {
namespace {

using Level = TransmitInterest;
using Occasion = SendScheduler::Occasion;
using State = ThreadState;

constexpr std::uint32_t kMtu = 4096;
constexpr Driver kPolling{.thread = State::kParked, .spins = true};
constexpr Driver kSleeping{.thread = State::kStandingBy, .sleeps = true, .attends = true};

const QueuePair* queue_pair(std::uintptr_t number) { return reinterpret_cast<const QueuePair*>(number * 64); }
constexpr Instant at(std::int64_t us) { return Instant{} + 1_us * us; }

struct Script {
  explicit Script(Duration ack_hold_max = 5_us) : scheduler(ack_hold_max) {}

  using Event = std::function<std::string(Script&, Instant)>;
  struct Row {
    std::int64_t us;
    Event event;
    std::string decision;
  };
  void run(const std::vector<Row>& rows) {
    for (const Row& row : rows) EXPECT_EQ(row.event(*this, at(row.us)), row.decision) << row.us << " us";
  }
  // As Shard::send() does.
  std::string plan(Occasion occasion, Instant now) {
    const Engine::Interest seen =
        scheduler.needs_interest(occasion, load) ? Engine::Interest{level, only} : Engine::Interest{};
    const bool possible = scheduler.needs_interest(Occasion::kRound, load);
    const std::uint64_t packets = scheduler.plan(occasion, seen, load, driver, now);
    if (packets == 0) return possible ? "held" : "-";
    if (packets != SendScheduler::kAllPackets) return std::to_string(packets);
    scheduler.on_all_sent();
    return "all";
  }

  SendScheduler scheduler;
  Driver driver = kPolling;
  Engine::Load load{.in_flight = 100, .awaited = 100, .per_batch = 15, .mtu = kMtu, .sends = true};
  Level level = Level::kNewData;
  const QueuePair* only = queue_pair(1);
};
using Event = Script::Event;

// A post over queue pair 1, of so many packets; 0: a small message. Then the engine has output of this interest.
Event post(std::uint64_t packets, Level level = Level::kNewData) {
  return [=](Script& script, Instant now) -> std::string {
    script.scheduler.on_post(now);
    script.level = level;
    const PostGather::Posts posts{
        .from = queue_pair(1), .count = 1, .bytes = packets > 0 ? packets * kMtu : 64, .packets = packets};
    if (script.scheduler.may_gather(script.driver, script.load.sends, false) &&
        script.scheduler.gathers(posts, script.load, now))
      return "gathered";
    return script.plan(Occasion::kPost, now);
  };
}
// Something happened, and `occasion` asks for output, of this interest.
Event asks(Occasion occasion, Level level) {
  return [=](Script& script, Instant now) {
    script.scheduler.on_event();
    script.level = level;
    return script.plan(occasion, now);
  };
}
Event polls(Level level) { return asks(Occasion::kPoll, level); }
Event rounds(Level level) { return asks(Occasion::kRound, level); }
Event leaves(Level level) { return asks(Occasion::kLeave, level); }
// The same, and nothing happened.
Event polls_again() {
  return [](Script& script, Instant now) { return script.plan(Occasion::kPoll, now); };
}

// Four messages of 16 packets, batches of 15: the fourth makes 60 packets leave, and leaves four.
std::vector<Script::Row> four_long_posts() {
  return {{0, post(16), "gathered"}, {1, post(16), "gathered"}, {2, post(16), "gathered"}, {3, post(16), "60"}};
}
// Two requests with replies a microsecond later: now the score holds acknowledgements back.
std::vector<Script::Row> two_replies() {
  return {{0, polls(Level::kDeferrable), "all"},
          {1, post(0), "all"},
          {10, polls(Level::kDeferrable), "all"},
          {11, post(0), "all"}};
}

// --- gathering ---

TEST(SendScheduler, PostsWaitForEachOtherUntilTheyFillBatches) {
  Script script;
  script.run(four_long_posts());
  script.run({{4, polls(Level::kNewData), "held"},     // the rest
              {203, polls_again(), "all"},             // 200 us after the batches
              {204, polls_again(), "-"},               // nothing has happened
              {205, polls(Level::kNewData), "all"}});  // and nothing waits
}

TEST(SendScheduler, APollSendsSmallPosts) {
  Script script;
  script.run({{0, post(0), "gathered"}, {1, post(0), "gathered"}, {2, polls(Level::kNewData), "all"}});
}

TEST(SendScheduler, TheRestOfPostsCountsWithTheNext) {
  Script script;
  script.run(four_long_posts());
  script.run({{4, post(16), "gathered"}, {5, post(16), "gathered"}, {6, post(16), "gathered"}, {7, post(16), "60"}});
}

TEST(SendScheduler, OnlyAProgramThatPollsInALoopGathers) {
  const Driver drivers[] = {{.thread = State::kAbsent},
                            {.thread = State::kSpinning},
                            {.thread = State::kBlocked, .spins = true},
                            {.thread = State::kStandingBy},
                            {.thread = State::kParked, .sleeps = true}};
  for (const Driver& driver : drivers) {
    Script script;
    script.driver = driver;
    script.run({{0, post(16), "all"}});
  }
}

TEST(SendScheduler, NothingIsGatheredWhereNothingLeaves) {
  SendScheduler scheduler{5_us};
  EXPECT_TRUE(scheduler.may_gather(kPolling, /*sends=*/true, /*blocked=*/false));
  EXPECT_FALSE(scheduler.may_gather(kPolling, false, false)) << "its requests are flushed";
  EXPECT_FALSE(scheduler.may_gather(kPolling, true, true)) << "a batch waits for the system";
}

TEST(SendScheduler, OtherOutputTakesTheRestWithIt) {
  for (const Level level : {Level::kDeferrable, Level::kResponse, Level::kRetransmission, Level::kForced}) {
    Script script;
    script.run(four_long_posts());
    script.run({{4, polls(level), "all"}});
  }
}

TEST(SendScheduler, OutputOfAnotherQueuePairTakesTheRestWithIt) {
  for (const QueuePair* only : {queue_pair(2), queue_pair(0)}) {
    Script script;
    script.run(four_long_posts());
    script.only = only;
    script.run({{4, polls(Level::kNewData), "all"}});
  }
}

TEST(SendScheduler, TheRestWaitsWhereTheWindowIsFull) {
  Script script;
  script.run(four_long_posts());
  script.run({{4, polls(Level::kNone), "held"}});
}

TEST(SendScheduler, TheRestLeavesWhereLittleIsInFlight) {
  Script script;
  script.run(four_long_posts());
  script.load.in_flight = PostGather::kRestInFlightMin - 1;
  script.run({{4, polls(Level::kNewData), "all"}});
}

TEST(SendScheduler, OnlyAPollLeavesTheRest) {
  for (const Occasion occasion : {Occasion::kPost, Occasion::kRound, Occasion::kLeave}) {
    Script script;
    script.run(four_long_posts());
    script.run({{4, asks(occasion, Level::kNewData), "all"}});
  }
}

TEST(SendScheduler, FullBatchesLeaveAloneOnlyWhereTheQueuePairIsAlone) {
  const auto last_post = [](const std::function<void(Script&)>& change, Level level = Level::kNewData) {
    Script script;
    script.run({{0, post(16), "gathered"}, {1, post(16), "gathered"}, {2, post(16), "gathered"}});
    change(script);
    script.run({{3, post(16, level), "all"}});
  };
  last_post([](Script&) {}, Level::kForced);
  last_post([](Script&) {}, Level::kDeferrable);
  last_post([](Script& script) { script.only = nullptr; });
  last_post([](Script& script) { script.load.per_batch = 1; });
  last_post([](Script& script) { script.load.in_flight = PostGather::kRestInFlightMin - 1; });
  last_post([](Script& script) { script.driver.thread = State::kSpinning; });
}

// There is more than the posts counted since.
TEST(SendScheduler, FullBatchesDoNotLeaveAloneBehindACallThatWasCutShort) {
  Script script;
  script.scheduler.on_cut_short();
  script.run({{0, post(16), "gathered"}, {1, post(16), "gathered"}, {2, post(16), "gathered"}, {3, post(16), "all"}});
}

// What the system has not taken, or what one call could not send, is more than the rest.
TEST(SendScheduler, AnEndOfTheSendingEndsTheRest) {
  const std::function<void(SendScheduler&)> ends[] = {[](SendScheduler& scheduler) { scheduler.on_all_sent(); },
                                                      [](SendScheduler& scheduler) { scheduler.on_blocked(); },
                                                      [](SendScheduler& scheduler) { scheduler.on_cut_short(); },
                                                      [](SendScheduler& scheduler) { scheduler.forget(); }};
  for (const auto& end : ends) {
    Script script;
    script.run(four_long_posts());
    EXPECT_EQ(script.scheduler.rest_of(), queue_pair(1));
    end(script.scheduler);
    EXPECT_EQ(script.scheduler.rest_of(), nullptr);
  }
}

TEST(SendScheduler, APollIsIdleUnlessPostsWaitForIt) {
  Script script;
  const auto idle = [&](std::int64_t us) { return script.scheduler.idle(script.load, at(us)); };
  EXPECT_TRUE(idle(0));
  script.run({{0, post(16), "gathered"}});
  EXPECT_FALSE(idle(0));
  script.run({{1, post(16), "gathered"}, {2, post(16), "gathered"}, {3, post(16), "60"}});
  EXPECT_TRUE(idle(202)) << "the rest waits";
  EXPECT_FALSE(idle(203)) << "200 us are over";
  script.load.in_flight = PostGather::kRestInFlightMin - 1;
  EXPECT_FALSE(idle(4));
}

// The window takes none of them; the acknowledgement that opens it is an event.
TEST(SendScheduler, AHeldAcknowledgementLeavesNoPostsToThePoll) {
  Script script;
  script.load.awaited = 0;
  script.run(two_replies());
  script.load.awaited = 100;
  script.run({{20, post(0), "gathered"}, {21, polls(Level::kDeferrable), "held"}});
  EXPECT_TRUE(script.scheduler.idle(script.load, at(21)));
}

TEST(SendScheduler, APollContinuesWhatOneCallCouldNotSend) {
  Script script;
  script.run({{0, rounds(Level::kNewData), "all"}});
  script.scheduler.on_event();
  script.scheduler.on_cut_short();
  EXPECT_TRUE(script.scheduler.cut_short());
  EXPECT_FALSE(script.scheduler.idle(script.load, at(1)));
  script.run({{1, polls_again(), "all"}});
  EXPECT_FALSE(script.scheduler.cut_short());
}

// --- acknowledgements that wait for the reply ---

TEST(SendScheduler, AnAcknowledgementLeavesWithTheReply) {
  Script script;
  script.load.in_flight = 0;
  script.load.awaited = 0;
  script.run(two_replies());
  script.run({{20, polls(Level::kDeferrable), "held"},
              {21, polls_again(), "held"},
              {22, post(0), "all"},  // nothing is in flight: at once
              {30, polls(Level::kDeferrable), "held"},
              {34, polls_again(), "held"},
              {35, polls_again(), "all"},                // 5 us
              {40, polls(Level::kDeferrable), "all"}});  // no reply came: the next is not held
}

TEST(SendScheduler, TheDeadlineIsThatOfTheHeldAcknowledgement) {
  Script script;
  script.load.awaited = 0;
  script.run(two_replies());
  EXPECT_FALSE(script.scheduler.deadline().has_value());
  script.run({{20, polls(Level::kDeferrable), "held"}});
  EXPECT_TRUE(script.scheduler.holding());
  EXPECT_EQ(script.scheduler.deadline(), at(25));
}

TEST(SendScheduler, OnlyAnAcknowledgementIsHeld) {
  for (const Level level : {Level::kNewData, Level::kResponse, Level::kRetransmission, Level::kForced}) {
    Script script;
    script.load.awaited = 0;
    script.run(two_replies());
    script.run({{20, polls(level), "all"}});
    script.run({{30, polls(Level::kDeferrable), "held"}, {31, polls(level), "all"}});
    EXPECT_FALSE(script.scheduler.holding());
    script.run({{32, post(0), "all"}, {40, polls(Level::kDeferrable), "held"}});  // the wait cost nothing
  }
}

TEST(SendScheduler, NothingIsHeldWhereNoCallWillFollow) {
  Script script;
  script.load.awaited = 0;
  script.run(two_replies());
  script.run({{20, leaves(Level::kDeferrable), "all"},
              {21, post(0), "all"},
              {30, polls(Level::kDeferrable), "held"},
              {31, leaves(Level::kDeferrable), "all"}});
  EXPECT_FALSE(script.scheduler.holding());
}

// With requests in flight the peer's window may be full; with none the post itself leaves.
TEST(SendScheduler, AnAcknowledgementIsHeldAtAPostOnlyBesideRequestsInFlight) {
  Script script;
  script.load.awaited = 0;
  script.run(two_replies());
  script.run({{20, post(0, Level::kDeferrable), "held"}, {21, post(0, Level::kDeferrable), "held"}});
  script.load.in_flight = 0;
  script.run({{22, post(0, Level::kDeferrable), "all"}});
}

struct Keeper {
  Driver driver;
  bool holds;
};
TEST(SendScheduler, AnAcknowledgementIsHeldWhereSomebodyKeepsItsDeadline) {
  const Keeper keepers[] = {{{.thread = State::kParked}, true},
                            {{.thread = State::kSpinning}, true},
                            {{.thread = State::kAbsent}, true},
                            {{.thread = State::kBlocked}, false},
                            {{.thread = State::kBlocked, .spins = true}, true},
                            {{.thread = State::kStandingBy, .sleeps = true, .attends = true}, true},
                            {{.thread = State::kStandingBy, .sleeps = true, .attends = false}, false},
                            {{.thread = State::kBlocked, .sleeps = true, .attends = true}, false},
                            {{.thread = State::kParked, .sleeps = true, .attends = true}, false}};
  for (const Keeper& keeper : keepers) {
    Script script;
    script.load.awaited = 0;
    script.run(two_replies());
    script.driver = keeper.driver;
    script.run({{20, polls(Level::kDeferrable), keeper.holds ? "held" : "all"}});
  }
}

TEST(SendScheduler, AProgramThatSleepsIsWaitedForLonger) {
  Script script;
  script.load.awaited = 0;
  script.driver = kSleeping;
  script.run(two_replies());
  script.run({{20, rounds(Level::kDeferrable), "held"}, {119, polls_again(), "held"}, {120, polls_again(), "all"}});
  Script longer{300_us};
  longer.load.awaited = 0;
  longer.driver = kSleeping;
  longer.run(two_replies());
  longer.run({{20, rounds(Level::kDeferrable), "held"}, {319, polls_again(), "held"}, {320, polls_again(), "all"}});
}

TEST(SendScheduler, ZeroHoldsNothing) {
  for (const Driver& driver : {kPolling, kSleeping}) {
    Script script{Duration{}};
    script.load.awaited = 0;
    script.driver = driver;
    for (int i = 0; i < 20; ++i) script.run({{i * 10, polls(Level::kDeferrable), "all"}, {i * 10 + 1, post(0), "all"}});
    EXPECT_FALSE(script.scheduler.expects_reply(driver, false));
  }
}

// --- a poll that ends with its completion ---

class Reply : public testing::Test {
 protected:
  Reply() {
    script.load.awaited = 0;
    script.run(two_replies());
  }
  [[nodiscard]] bool expected(bool blocked = false) const {
    return script.scheduler.expects_reply(script.driver, blocked);
  }
  Script script;
};

TEST_F(Reply, IsExpectedFromOneThatRepliesAndPolls) {
  EXPECT_TRUE(expected());
  EXPECT_FALSE(expected(/*blocked=*/true));
  script.driver.thread = State::kBlocked;
  EXPECT_FALSE(expected());
  script.driver = {.thread = State::kParked, .sleeps = true};
  EXPECT_FALSE(expected());
}

TEST_F(Reply, IsNotExpectedWhereOtherWorkWaits) {
  script.scheduler.on_cut_short();
  EXPECT_FALSE(expected());
  script.run({{20, rounds(Level::kNewData), "all"}});
  EXPECT_TRUE(expected());
  script.load.awaited = 100;
  script.run({{21, post(0), "gathered"}});
  EXPECT_FALSE(expected());
}

TEST_F(Reply, IsWaitedForWithAnAcknowledgementAlone) {
  for (const Level level : {Level::kNone, Level::kNewData, Level::kResponse, Level::kRetransmission, Level::kForced}) {
    EXPECT_FALSE(script.scheduler.holds_for_reply(level, at(20)));
    EXPECT_FALSE(script.scheduler.holding());
  }
  EXPECT_TRUE(script.scheduler.holds_for_reply(Level::kDeferrable, at(20)));
  EXPECT_EQ(script.scheduler.deadline(), at(25));
  EXPECT_FALSE(expected()) << "it is waited for";
}

// The interest costs the engine more than the decision does.
TEST(SendScheduler, TheInterestIsAskedForOnlyWhereItDecides) {
  Script script;
  const auto asked = [&](Occasion occasion) { return script.scheduler.needs_interest(occasion, script.load); };
  EXPECT_FALSE(asked(Occasion::kPoll)) << "nothing happened";
  script.scheduler.on_event();
  EXPECT_TRUE(asked(Occasion::kPoll));
  EXPECT_TRUE(asked(Occasion::kRound));
  EXPECT_TRUE(asked(Occasion::kPost));
  EXPECT_FALSE(asked(Occasion::kLeave));
  script.load.in_flight = 0;
  EXPECT_FALSE(asked(Occasion::kPost));
  script.load.awaited = 0;
  script.run(two_replies());
  script.run({{20, polls(Level::kDeferrable), "held"}});
  EXPECT_TRUE(asked(Occasion::kLeave)) << "was the wait in vain?";
}

}  // namespace
}  // namespace brdma::io
