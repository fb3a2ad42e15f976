// The progress thread: it takes over from programs that compute or sleep, and costs nothing while idle.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "context_pair.h"
#include "private_network.h"

namespace {
// Called once, at the next sched_yield(); not while it is changed.
std::atomic<std::function<void()>*> meanwhile{nullptr};
}  // namespace

// In libc's place.
extern "C" int sched_yield() noexcept {
  if (auto* const what = meanwhile.exchange(nullptr); what != nullptr) (*what)();
  return static_cast<int>(::syscall(SYS_sched_yield));
}

namespace brdma::io {
namespace {

using test::Endpoint;
using test::EndpointOptions;
using test::fill;
using test::Handler;
using test::ip;
using test::kPatience;
using test::make_leases;
using test::Pair;
using test::same;
using test::SecondNetwork;
using test::test_ip4;

// A program with many empty polls yields now and then. A poll that returns from a yield has the packets of that time,
// since its caller may next check whether the peer is gone, and then polls no more.
TEST(Polling, WhatComesWhileTheCoreIsGivenAwayIsNotMissed) {
  Pair pair;
  ASSERT_TRUE(pair.a->post_receive(0, 64).ok());
  bool came = false;
  std::function<void()> send = [&] {
    came = pair.b->post(WorkOpcode::kSend, {.bytes = 64}).ok() &&
           Pair::wait(*pair.b, pair.b->send_cq).status == CompletionStatus::kSuccess;
  };
  meanwhile.store(&send);
  Completion completion;
  const Instant end = monotonic_now() + kPatience;
  bool polled = false;
  while (!polled && !came && monotonic_now() < end) polled = pair.a->poll(pair.a->receive_cq, completion);
  meanwhile.store(nullptr);
  EXPECT_TRUE(came);
  EXPECT_TRUE(polled) << "the poll said that there was nothing";
}

// The responder makes no call at all: its thread serves.
TEST(ProgressThread, ServesReadsWhileTheProgramIsAway) {
  Pair pair;
  fill(pair.b->memory, 3);
  // Its thread reads that when the request has come. With AF_XDP packets come through memory that the kernel writes,
  // and a thread sanitizer does not see that they order anything; it sees the lock.
  { const Context::Session after_filling{*pair.b->context}; }
  ASSERT_TRUE(pair.a->post(WorkOpcode::kRdmaRead, {.offset = 0, .bytes = 300'000}).ok());
  EXPECT_EQ(Pair::wait(*pair.a, pair.a->send_cq).status, CompletionStatus::kSuccess);
  EXPECT_TRUE(same(*pair.a, 0, *pair.b, 0, 300'000));
}

// The other program polled a moment ago, so its thread is parked; it stops polling and must be replaced.
TEST(ProgressThread, TakesOverFromAPollingProgram) {
  Pair pair;
  Completion ignored;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 1000; ++i) ASSERT_FALSE(pair.b->poll(pair.b->send_cq, ignored));
    ASSERT_TRUE(pair.a->post(WorkOpcode::kRdmaRead, {.bytes = 4096}).ok());
    ASSERT_EQ(Pair::wait(*pair.a, pair.a->send_cq).status, CompletionStatus::kSuccess);
  }
}

// Two programs that play ping-pong by long WRITEs: each polls until its own is complete, and then spins on its memory
// (io/poll/poll_policy.h). Whichever thread receives, all of each message is in memory once its last byte is.
TEST(ProgressThread, LongRepliesArriveWholeWhoeverReceives) {
  constexpr std::uint32_t kBytes = 768 * 1024, kTurns = 100;
  EndpointOptions options;
  options.memory_bytes = 2 * kBytes;
  Pair pair{options};
  // Its message in the first half of the memory; the peer's comes to the second.
  const auto play = [](Endpoint& me, bool first) {
    const Instant until = monotonic_now() + kPatience;
    const volatile std::byte& last = me.memory[2 * kBytes - 1];
    for (std::uint32_t turn = 1; turn <= kTurns; ++turn) {
      const auto mark = static_cast<std::byte>(turn);
      while ((!first || turn > 1) && last != (first ? static_cast<std::byte>(turn - 1) : mark)) {
        if (monotonic_now() > until) return turn;
      }
      std::fill_n(me.memory.begin(), kBytes, mark);
      if (!me.post(WorkOpcode::kRdmaWrite, {.offset = 0, .bytes = kBytes, .remote = kBytes}).ok()) return turn;
      if (Pair::wait(me, me.send_cq).status != CompletionStatus::kSuccess) return turn;
    }
    return kTurns + 1;
  };
  std::uint32_t answered = 0;
  std::thread other{[&] { answered = play(*pair.b, false); }};
  EXPECT_EQ(play(*pair.a, true), kTurns + 1);
  other.join();
  EXPECT_EQ(answered, kTurns + 1);
  { const Context::Session all_received{*pair.a->context}; }
  EXPECT_TRUE(same(*pair.a, 0, *pair.b, kBytes, kBytes));
}

// Posts of a polling program wait for each other. The last of them must leave although it never calls again.
TEST(ProgressThread, SendsWhatAPollingProgramPostedBeforeItWentAway) {
  constexpr std::uint32_t kPosts = 40, kBytes = 64;
  Pair pair;
  fill(pair.a->memory, 7);
  Completion ignored;
  for (int round = 1; round <= 10; ++round) {
    for (int i = 0; i < 1000; ++i) ASSERT_FALSE(pair.a->poll(pair.a->send_cq, ignored));
    pair.a->memory[kPosts * kBytes - 1] = static_cast<std::byte>(round);
    for (std::uint32_t i = 0; i < kPosts; ++i)
      ASSERT_TRUE(
          pair.a->post(WorkOpcode::kRdmaWrite, {.offset = i * kBytes, .bytes = kBytes, .remote = i * kBytes}).ok());
    const Instant until = monotonic_now() + kPatience;
    const volatile std::byte& last = pair.b->memory[kPosts * kBytes - 1];
    while (last != static_cast<std::byte>(round) && monotonic_now() < until) std::this_thread::yield();
    ASSERT_TRUE(same(*pair.a, 0, *pair.b, 0, kPosts * kBytes));
    for (std::uint32_t i = 0; i < kPosts; ++i)
      ASSERT_EQ(Pair::wait(*pair.a, pair.a->send_cq).status, CompletionStatus::kSuccess);
  }
}

TEST(ProgressThread, CompletionEventsWakeSleepers) {
  Pair pair;
  Completion completion;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(pair.b->post_receive(0, 4096, 1).ok());
    pair.b->context->request_notify(pair.b->receive_cq, false);
    ASSERT_FALSE(pair.b->poll(pair.b->receive_cq, completion));
    pair.a->context->request_notify(pair.a->send_cq, false);
    ASSERT_TRUE(pair.a->post(WorkOpcode::kSend, {.bytes = 100}).ok());
    ASSERT_TRUE(pair.handler_b.wait_completion());
    ASSERT_TRUE(pair.b->poll(pair.b->receive_cq, completion));
    ASSERT_TRUE(pair.handler_a.wait_completion());
    ASSERT_TRUE(pair.a->poll(pair.a->send_cq, completion));
    ASSERT_EQ(completion.status, CompletionStatus::kSuccess);
  }
}

// Of two contexts, as if they were one queue's; earlier armings are cancelled.
TEST(ProgressThread, QueuesOfSeveralContextsAreArmedTogether) {
  using NotifyOf = Context::NotifyOf;
  Pair pair;
  const std::array<Context::NotifiedQueue, 2> queues{
      {{pair.a->context.get(), pair.a->send_cq}, {pair.b->context.get(), pair.b->receive_cq}}};
  const auto send = [&] {
    ASSERT_TRUE(pair.b->post_receive(0, 4096, 1).ok());
    ASSERT_TRUE(pair.a->post(WorkOpcode::kSend, {.bytes = 100}).ok());
    EXPECT_EQ(Pair::wait(*pair.b, pair.b->receive_cq).status, CompletionStatus::kSuccess);
    EXPECT_EQ(Pair::wait(*pair.a, pair.a->send_cq).status, CompletionStatus::kSuccess);
  };
  Context::request_notify(queues, [] { return NotifyOf::kAny; });
  send();
  EXPECT_TRUE(pair.handler_a.wait_completion());
  EXPECT_TRUE(pair.handler_b.wait_completion());
  for (const NotifyOf next : {NotifyOf::kNothing, NotifyOf::kSolicited}) {
    Context::request_notify(queues, [] { return NotifyOf::kAny; });
    Context::request_notify(queues, [&] { return next; });
    send();
    EXPECT_EQ(pair.handler_a.completions() + pair.handler_b.completions(), 0u);
  }
}

// Polls in a loop (the thread parks), and only then sleeps on the queue that it armed before.
TEST(ProgressThread, ArmedThenPolledThenSlept) {
  Pair pair;
  Completion completion;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(pair.b->post_receive(0, 4096, 1).ok());
    pair.b->context->request_notify(pair.b->receive_cq, false);
    for (int k = 0; k < 300; ++k) ASSERT_FALSE(pair.b->poll(pair.b->receive_cq, completion));
    ASSERT_TRUE(pair.a->post(WorkOpcode::kSend, {.bytes = 100}).ok());
    ASSERT_TRUE(pair.handler_b.wait_completion());
    ASSERT_TRUE(pair.b->poll(pair.b->receive_cq, completion));
    ASSERT_EQ(Pair::wait(*pair.a, pair.a->send_cq).status, CompletionStatus::kSuccess);
  }
}

// True once every progress thread of the process sleeps, as the kernel sees it.
bool progress_threads_sleep() {
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/task"}) {
    std::ifstream file{entry.path() / "stat"};
    std::string stat;
    std::getline(file, stat);
    if (stat.find("(brdma-progress) ") != std::string::npos && stat.find(") S ") == std::string::npos) return false;
  }
  return true;
}
// They are not just between two rounds: checked many times in a row.
void wait_for_sleeping_threads() {
  const Instant end = monotonic_now() + kPatience;
  for (int looks = 0; looks < 100 && monotonic_now() < end; ++looks) {
    if (!progress_threads_sleep()) looks = 0;
  }
}

// The peer never reads its socket: only the sleeping side's timers cause the retries, and nothing else wakes it
// (standard mode has nothing to negotiate).
TEST(ProgressThread, TimeoutsFireWhileTheProgramSleeps) {
  EndpointOptions options;
  options.timeout = 8;  // 1.05 ms
  options.retry_count = 2;
  options.context.recovery.mode = RecoveryMode::kStandard;
  EndpointOptions deaf = options;
  deaf.context.progress_thread = false;
  Pair pair{options, deaf};
  pair.a->context->request_notify(pair.a->send_cq, false);
  wait_for_sleeping_threads();  // without a deadline: the post must bring one to a sleeper
  const Instant start = monotonic_now();
  ASSERT_TRUE(pair.a->post(WorkOpcode::kRdmaWrite, {.bytes = 100}).ok());
  ASSERT_TRUE(pair.handler_a.wait_completion());
  const Duration took = monotonic_now() - start;
  Completion completion;
  ASSERT_TRUE(pair.a->poll(pair.a->send_cq, completion));
  EXPECT_EQ(completion.status, CompletionStatus::kRetryExceeded);
  EXPECT_GT(took, 2_ms);
  EXPECT_LT(took, 2_s);  // a machine may be busy; without a timer the thread would never wake
}

using Threads = std::set<std::string>;  // their numbers

Threads threads_of_this_process() {
  Threads all;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/task"}) all.insert(entry.path().filename());
  return all;
}

// The kernel wakes who joins a thread before it takes the thread off this list: those of earlier tests may still be on
// it, and leave it at any time. So what counts is which threads were not there `before`.
std::size_t threads_since(const Threads& before) {
  return static_cast<std::size_t>(std::ranges::count_if(
      threads_of_this_process(), [&](const std::string& thread) { return !before.contains(thread); }));
}

TEST(ProgressThread, StartsWithTheFirstQueuePair) {
  std::thread{[] {}}.join();  // with the first one a sanitizer's runtime starts a thread of its own, which stays
  const Threads before = threads_of_this_process();
  auto leases = make_leases(1);
  auto made = ContextImpl::make({}, std::move(leases[0]), {}, nullptr);
  ASSERT_TRUE(made.ok());
  {
    Context::Session session{*made.value()};
    session.engine().alloc_pd();
  }
  EXPECT_EQ(threads_since(before), 0U);
  auto more = make_leases(1);
  {
    const Endpoint endpoint{std::move(more[0]), test_ip4(), {}};
    EXPECT_EQ(threads_since(before), 1U);
  }
  const Instant end = monotonic_now() + kPatience;
  while (threads_since(before) > 0 && monotonic_now() < end) std::this_thread::yield();
  EXPECT_EQ(threads_since(before), 0U);
}

// An idle context costs no processor time: the thread sleeps without a deadline.
void expect_idle_costs_nothing() {
  const auto cpu = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds{20});  // becomes the progress owner, spins, goes to sleep
  const auto before = cpu();
  std::this_thread::sleep_for(std::chrono::milliseconds{200});  // time itself is under test
  EXPECT_LT(cpu() - before, 4'000'000);
}

TEST(ProgressThread, IdleCostsNothing) {
  Pair pair;
  ASSERT_TRUE(pair.a->post(WorkOpcode::kRdmaWrite, {.bytes = 100}).ok());
  ASSERT_EQ(Pair::wait(*pair.a, pair.a->send_cq).status, CompletionStatus::kSuccess);
  expect_idle_costs_nothing();
}

// Its AF_XDP sockets are dead then, and the thread still sleeps on them. Takes the network away: a process of its own.
TEST(InterfaceGone, WorkFailsAndIdleCostsNothing) {
  if (!test::over_xdp()) GTEST_SKIP() << "lo stays";
  EndpointOptions options;
  options.timeout = 14;  // half a second until the peer counts as dead
  Pair pair{options};
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(pair.a->post(WorkOpcode::kRdmaWrite, {.bytes = 100}).ok());
    ASSERT_EQ(Pair::wait(*pair.a, pair.a->send_cq).status, CompletionStatus::kSuccess);
  }
  ASSERT_TRUE(ip("link delete mirrored"));
  expect_idle_costs_nothing();
  pair.a->context->request_notify(pair.a->send_cq, false);
  ASSERT_TRUE(pair.a->post(WorkOpcode::kRdmaWrite, {.bytes = 100}).ok());
  ASSERT_TRUE(pair.handler_a.wait_completion());
  Completion completion;
  ASSERT_TRUE(pair.a->poll(pair.a->send_cq, completion));
  EXPECT_EQ(completion.status, CompletionStatus::kRetryExceeded);
  EXPECT_GT(pair.a->statistics->get(Counter::kSendFailed), 0u);
  expect_idle_costs_nothing();
}

}  // namespace
}  // namespace brdma::io
