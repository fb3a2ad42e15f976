// Transcripts in virtual time: what a program and its peer do, and whether a poll returns, looks again or stays. Rows
// of a table are the time, the event, and the decision:
//   "returns"    without staying, or after one look
//   "looks"      looks at the socket again
//   "stays"      until what the peer is expected to send is here
//   "ends"       a stay ends
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "io/poll/poll_policy.h"
#include "timed_script.h"

namespace brdma::io {
namespace {

constexpr Duration kStayMax = 50_us;
constexpr Driver kPolling{.thread = ThreadState::kParked, .spins = true};
constexpr Driver kSleeping{.thread = ThreadState::kStandingBy, .sleeps = true, .attends = true};

const QueuePair* queue_pair(std::uintptr_t number) { return reinterpret_cast<const QueuePair*>(number * 64); }

constexpr Engine::Load kUc{.sends = true, .unacknowledged = true};
constexpr Engine::Load kRc{.sends = true};
constexpr Engine::Load kArriving{.sends = true, .receiving = true};  // RC: the rest of a message is to come

struct Script : TimedScript<Script> {
  explicit Script(Duration stay_max = kStayMax) : policy(stay_max) {}

  // A poll that finds nothing; it ends at once.
  std::string empty_poll(Instant now) {
    policy.on_poll();
    const bool looks = policy.looks_again(driver, deadline, now);
    policy.on_empty(now);
    return looks ? "looks" : "returns";
  }
  std::string poll(const Engine::Load& load, Instant now) {
    policy.on_poll();
    policy.on_completions();
    const QueuePair* const qp = policy.take_posted(driver);
    if (qp == nullptr || !policy.stays(load)) return "returns";
    EXPECT_EQ(qp, queue_pair(1));
    policy.on_stay_begins(now);
    return continues(load, now);
  }
  std::string continues(const Engine::Load& load, Instant now) {
    if (policy.goes_on(load, now)) return "stays";
    policy.on_stay_ends(load, now);
    return "ends";
  }

  PollPolicy policy;
  Driver driver = kPolling;
  std::optional<Instant> deadline;
};
using Event = Script::Event;

Event write(const Engine::Load& load) {
  return [=](Script& script, Instant) {
    script.policy.on_post(queue_pair(1), load, true);
    return "";
  };
}
Event send(const Engine::Load& load) {
  return [=](Script& script, Instant) {
    script.policy.on_post(queue_pair(1), load, false);
    return "";
  };
}
Event empty_poll() {
  return [](Script& script, Instant now) { return script.empty_poll(now); };
}
// A poll that returns a completion; `load`: of queue pair 1 by then.
Event poll(const Engine::Load& load) {
  return [=](Script& script, Instant now) { return script.poll(load, now); };
}
// During a stay: a packet came, or none did.
Event packet(const Engine::Load& load) {
  return [=](Script& script, Instant now) {
    script.policy.on_stay_packet(now);
    return script.continues(load, now);
  };
}
Event nothing(const Engine::Load& load) {
  return [=](Script& script, Instant now) { return script.continues(load, now); };
}
Event thread_receives() {
  return [](Script& script, Instant) {
    script.policy.on_thread_received();
    return "";
  };
}

// Two turns in which the thread had to receive: now polls stay.
void learn(Script& script, const Engine::Load& posted, const Engine::Load& polled) {
  for (int turn = 0; turn < 2; ++turn) {
    script.run({{0_us, write(posted), ""}, {1_us, poll(polled), "returns"}, {2_us, thread_receives(), ""}});
  }
}

// --- looking again ---

TEST(LookingAgain, AProgramThatDoesLittleElse) {
  Script script;
  script.run({{0_ns, empty_poll(), "returns"},
              {200_ns, empty_poll(), "looks"},
              {699_ns, empty_poll(), "looks"},
              {1199_ns, empty_poll(), "returns"},  // 500 ns: it works in between
              {1300_ns, empty_poll(), "looks"}});
}

// The time in between is the peer's and the program's, and nothing is kept waiting.
TEST(LookingAgain, FromTheFirstPollAfterAPost) {
  Script script;
  script.run({{0_ns, empty_poll(), "returns"},
              {200_ns, empty_poll(), "looks"},
              {5200_ns, poll(kRc), "returns"},
              {10'200_ns, send(kRc), ""},
              {10'400_ns, empty_poll(), "looks"}});
}

// The program may have to poll until there is nothing, and post then.
TEST(LookingAgain, NotBehindCompletions) {
  Script script;
  script.run({{0_ns, empty_poll(), "returns"},
              {200_ns, empty_poll(), "looks"},
              {400_ns, poll(kRc), "returns"},
              {500_ns, empty_poll(), "returns"},
              {600_ns, empty_poll(), "looks"}});  // it only receives
}

TEST(LookingAgain, NotWhereADeadlineComes) {
  Script script;
  script.deadline = kBegin + 10_us;
  script.run(
      {{1700_ns, empty_poll(), "returns"}, {1999_ns, empty_poll(), "looks"}, {2000_ns, empty_poll(), "returns"}});
}

TEST(LookingAgain, NotForAProgramThatSleeps) {
  Script script;
  script.driver = kSleeping;
  script.run({{0_ns, empty_poll(), "returns"}, {200_ns, empty_poll(), "returns"}, {400_ns, empty_poll(), "returns"}});
}

// All looks of a call take up to 8 us.
TEST(LookingAgain, OnlyWhereACallMayLastAsLong) {
  Script script{8_us};
  script.run({{0_ns, empty_poll(), "returns"}, {200_ns, empty_poll(), "looks"}});
  for (const Duration stay_max : {Duration{}, 7_us}) {
    Script shorter{stay_max};
    shorter.run({{0_ns, empty_poll(), "returns"}, {200_ns, empty_poll(), "returns"}});
  }
}

// --- staying for the start of a message (UC: a request completes when it has left) ---

TEST(StayingForTheStart, OnceTheThreadHadToReceiveIt) {
  Script script;
  script.run({{0_us, write(kUc), ""},
              {1_us, poll(kUc), "returns"},
              {400_us, thread_receives(), ""},
              {410_us, write(kUc), ""},
              {411_us, poll(kUc), "returns"},
              {800_us, thread_receives(), ""},
              {810_us, write(kUc), ""},
              {811_us, poll(kUc), "stays"},
              {814_us, nothing(kUc), "stays"},
              {815_us, packet(kUc), "ends"},
              {816_us, write(kUc), ""},
              {817_us, poll(kUc), "stays"}});  // for the next one
}

TEST(StayingForTheStart, IsForFiftyMicrosecondsAtMost) {
  Script script;
  learn(script, kUc, kUc);
  script.run({{10_us, write(kUc), ""},
              {11_us, poll(kUc), "stays"},
              {60'999_ns, nothing(kUc), "stays"},
              {61_us, nothing(kUc), "ends"}});
}

TEST(StayingForTheStart, IsForAHundredWhereMoreIsAllowed) {
  Script script{20_ms};
  learn(script, kUc, kUc);
  script.run({{10_us, write(kUc), ""},
              {11_us, poll(kUc), "stays"},
              {110'999_ns, nothing(kUc), "stays"},
              {111_us, nothing(kUc), "ends"}});
}

TEST(StayingForTheStart, NotForAProgramThatOnlySends) {
  Script script;
  for (int i = 0; i < 20; ++i) script.run({{10_us * i, write(kUc), ""}, {10_us * i + 1_us, poll(kUc), "returns"}});
}

TEST(StayingForTheStart, ACompletionIsWaitedForOnce) {
  Script script;
  learn(script, kUc, kUc);
  script.run({{10_us, write(kUc), ""},
              {11_us, poll(kUc), "stays"},
              {12_us, packet(kUc), "ends"},
              {13_us, poll(kUc), "returns"}});  // nothing was posted since
}

// --- staying for the rest of a message (RC: some of its packets acknowledged the program's own) ---

TEST(StayingForTheRest, UntilTheMessageIsWhole) {
  Script script;
  learn(script, kRc, kArriving);
  script.run({{10_us, write(kRc), ""},
              {11_us, poll(kArriving), "stays"},
              {20_us, packet(kArriving), "stays"},
              {30_us, packet(kRc), "ends"}});
}

TEST(StayingForTheRest, IsForFiftyMicrosecondsAtMost) {
  Script script;
  learn(script, kRc, kArriving);
  script.run({{10_us, write(kRc), ""},
              {11_us, poll(kArriving), "stays"},
              {60'999_ns, packet(kArriving), "stays"},
              {61_us, packet(kArriving), "ends"}});
}

TEST(StayingForTheRest, IsForFiveMillisecondsOfSilenceWhereMoreIsAllowed) {
  Script script{20_ms};
  learn(script, kRc, kArriving);
  script.run({{10_us, write(kRc), ""},
              {11_us, poll(kArriving), "stays"},
              {1011_us, packet(kArriving), "stays"},
              {6010_us, nothing(kArriving), "stays"},
              {6011_us, nothing(kArriving), "ends"}});
}

TEST(StayingForTheRest, NotWhereNothingIsArriving) {
  Script script;
  learn(script, kRc, kArriving);
  script.run({{10_us, write(kRc), ""}, {11_us, poll(kRc), "returns"}});
}

TEST(StayingForTheRest, NotWithRequestsOfItsOwnInFlight) {
  Script script;
  learn(script, kRc, kArriving);
  Engine::Load busy = kArriving;
  busy.requests = true;
  script.run({{10_us, write(kRc), ""}, {11_us, poll(busy), "returns"}});
}

TEST(StayingForTheRest, NotAfterASend) {
  Script script;
  learn(script, kRc, kArriving);
  script.run({{10_us, write(kRc), ""}, {11_us, send(kRc), ""}, {12_us, poll(kArriving), "returns"}});
}

// --- both ---

TEST(Staying, NotForAProgramThatSleeps) {
  Script script;
  learn(script, kRc, kArriving);
  script.driver = kSleeping;
  script.run({{10_us, write(kRc), ""}, {11_us, poll(kArriving), "returns"}});
}

TEST(Staying, NotWhereNoTimeIsAllowed) {
  Script script{Duration{}};
  for (int i = 0; i < 8; ++i) learn(script, kRc, kArriving);
  script.run({{10_us, write(kRc), ""}, {11_us, poll(kArriving), "returns"}});
}

TEST(Staying, ForgetsQueuePairsThatMayGo) {
  Script script;
  learn(script, kRc, kArriving);
  script.run({{10_us, write(kRc), ""}});
  script.policy.forget();
  EXPECT_EQ(script.policy.take_posted(kPolling), nullptr);
}

// A program that comes back by itself never needs it.
TEST(Staying, NotForAProgramThatPollsOn) {
  Script script;
  for (int turn = 0; turn < 200; ++turn) {
    script.run({{0_us, write(kRc), ""}, {1_us, poll(kArriving), "returns"}});
    (void)script.empty_poll(kBegin + 2_us);
    script.run({{3_us, thread_receives(), ""}});  // proves nothing about that poll
  }
}

// Eight turns where the thread had to receive: the highest score.
void learn_well(Script& script) {
  for (int turn = 0; turn < 8; ++turn) {
    script.run({{0_us, write(kRc), ""}});
    if (script.poll(kArriving, kBegin) == "stays") script.run({{1_us, packet(kRc), "ends"}});
    script.run({{2_us, thread_receives(), ""}});
  }
}
Script::Row stays() { return {11_us, poll(kArriving), "stays"}; }
Script::Row in_vain() { return {61_us, nothing(kArriving), "ends"}; }

TEST(Staying, OneMissDoesNotEndItAndTwoDo) {
  Script script;
  learn_well(script);
  script.run({{10_us, write(kRc), ""}, stays(), in_vain()});  // 4
  script.run({{10_us, write(kRc), ""}, stays(), in_vain()});  // 0
  learn(script, kRc, kArriving);                              // 2
  script.run({{10_us, write(kRc), ""}, stays(), {12_us, packet(kRc), "ends"}});
}

// The thread's own need for the lock says nothing of the peer.
TEST(Staying, AnotherThreadEndsAStayWithoutAVerdict) {
  Script script;
  learn(script, kRc, kArriving);
  for (int i = 0; i < 10; ++i) {
    script.run({{10_us, write(kRc), ""}, stays()});
    script.policy.on_stay_ends(kArriving, kBegin + 12_us);
  }
}

// Stays of 40 us: each 500 of them are 20 ms. Then the program is left alone once.
TEST(Staying, IsTriedAgainAfterTwentyMillisecondsOfStays) {
  Script script;
  learn(script, kRc, kArriving);
  const auto turns = [&](int count) {
    for (int i = 0; i < count; ++i)
      script.run({{0_us, write(kRc), ""}, {1_us, poll(kArriving), "stays"}, {41_us, packet(kRc), "ends"}});
  };
  turns(500);
  // The thread had to receive: nothing has changed.
  script.run({{0_us, write(kRc), ""}, {1_us, poll(kArriving), "returns"}, {2_us, thread_receives(), ""}});
  turns(500);
  // The program came back by itself: it stays no more, until the thread is needed again, twice.
  script.run({{0_us, write(kRc), ""}, {1_us, poll(kArriving), "returns"}, {2_us, write(kRc), ""}});
  learn(script, kRc, kArriving);
  turns(1);
}

}  // namespace
}  // namespace brdma::io
