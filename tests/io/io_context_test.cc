// Two contexts over loopback or a veth pair: every opcode, the progress thread, notifications, and the system's noes.
#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "endpoint.h"
#include "io/clock.h"
#include "io/transmit_socket.h"
#include "private_network.h"
#include "test_lease.h"

namespace brdma::io {
namespace {

using test::Endpoint;
using test::EndpointOptions;
using test::ip;
using test::make_leases;
using test::SecondNetwork;
using Work = Endpoint::Work;

constexpr IpAddress kLoopback4 = IpAddress::v4(127, 0, 0, 1);
constexpr IpAddress kLoopback6{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr Duration kPatience = 20_s;

// Waits for what other threads do; events, not time, end the wait.
class Handler : public NotificationHandler {
 public:
  void completion_event(void* cq_user) override { note(completions_, cq_user); }
  void async_event(int type, void*) override {
    const std::lock_guard lock{mutex_};
    events_.push_back(type);
    changed_.notify_all();
  }
  // True: one came.
  bool wait_completion() {
    std::unique_lock lock{mutex_};
    if (!changed_.wait_for(lock, kWait, [&] { return !completions_.empty(); })) return false;
    completions_.erase(completions_.begin());
    return true;
  }
  bool wait_event(int type) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, kWait, [&] { return std::count(events_.begin(), events_.end(), type) > 0; });
  }

 private:
  static constexpr std::chrono::seconds kWait{20};
  void note(std::vector<void*>& list, void* item) {
    const std::lock_guard lock{mutex_};
    list.push_back(item);
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<void*> completions_;
  std::vector<int> events_;
};

struct Pair {
  Handler handler_a, handler_b;
  std::unique_ptr<Endpoint> a, b;
  explicit Pair(const EndpointOptions& options_a, const EndpointOptions& options_b, IpAddress ip = kLoopback4,
                bool dual_stack = true) {
    auto leases = make_leases(2, dual_stack);
    a = std::make_unique<Endpoint>(std::move(leases[0]), ip, options_a, &handler_a);
    b = std::make_unique<Endpoint>(std::move(leases[1]), ip, options_b, &handler_b);
    a->connect(b->info());
    b->connect(a->info());
  }
  explicit Pair(const EndpointOptions& options = {}, IpAddress ip = kLoopback4, bool dual_stack = true)
      : Pair(options, options, ip, dual_stack) {}
  ~Pair() {
    if (!testing::Test::HasFailure()) return;
    for (const Endpoint* side : {a.get(), b.get()}) {
      if (side != nullptr) std::cerr << (side == a.get() ? "a: " : "b: ") << nonzero(*side->statistics) << "\n";
    }
  }
  static std::string nonzero(const Statistics& statistics) {
    std::string out;
    for (std::size_t i = 0; i < kCounterCount; ++i) {
      const auto count = statistics.get(static_cast<Counter>(i));
      if (count > 0) out += std::string{kCounterNames[i]} + "=" + std::to_string(count) + " ";
    }
    for (std::size_t i = 0; i < kDropReasonCount; ++i) {
      const auto count = statistics.get(static_cast<DropReason>(i));
      if (count > 0) out += std::string{kDropReasonNames[i]} + "=" + std::to_string(count) + " ";
    }
    return out;
  }
  // Polls `endpoint`, and `other` too so that it makes progress where it has no thread.
  static Completion wait(Endpoint& endpoint, CompletionQueue* cq, Endpoint* other = nullptr) {
    Completion completion, ignored;
    completion.status = CompletionStatus::kGeneralError;
    const Instant end = monotonic_now() + kPatience;
    while (monotonic_now() < end) {
      if (endpoint.poll(cq, completion)) return completion;
      if (other != nullptr && other->poll(other->send_cq, ignored)) ADD_FAILURE() << "a completion of nothing";
    }
    ADD_FAILURE() << "no completion";
    return completion;
  }
};

void fill(std::vector<std::byte>& memory, std::uint32_t seed) {
  for (std::size_t i = 0; i < memory.size(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    memory[i] = static_cast<std::byte>(seed >> 24);
  }
}

constexpr std::size_t kHalf = 512 * 1024;

bool same(const Endpoint& x, std::size_t at_x, const Endpoint& y, std::size_t at_y, std::size_t bytes) {
  return std::memcmp(x.memory.data() + at_x, y.memory.data() + at_y, bytes) == 0;
}

// Every opcode in several sizes, a the requester; what it wrote, read and changed is compared byte by byte.
void exercise(Pair& pair) {
  Endpoint &a = *pair.a, &b = *pair.b;
  fill(a.memory, 1);
  fill(b.memory, 2);
  for (const std::uint32_t bytes : {0u, 1u, 63u, 4095u, 4096u, 4097u, 65536u, 400'000u}) {
    SCOPED_TRACE(bytes);
    ASSERT_TRUE(a.post(WorkOpcode::kRdmaWrite, {.offset = 7, .bytes = bytes, .remote = 3, .wr_id = 1}).ok());
    EXPECT_EQ(Pair::wait(a, a.send_cq, &b).status, CompletionStatus::kSuccess);
    EXPECT_TRUE(same(a, 7, b, 3, bytes));

    ASSERT_TRUE(b.post_receive(0, 0, 77).ok());
    ASSERT_TRUE(a.post(WorkOpcode::kRdmaWriteWithImm, {.offset = 9, .bytes = bytes, .remote = 1, .immediate = 5}).ok());
    EXPECT_EQ(Pair::wait(a, a.send_cq, &b).status, CompletionStatus::kSuccess);
    Completion received = Pair::wait(b, b.receive_cq, &a);
    EXPECT_EQ(received.wr_id, 77u);
    EXPECT_EQ(received.opcode, CompletionOpcode::kReceiveRdmaWithImm);
    EXPECT_EQ(received.immediate_be, 5u);
    EXPECT_TRUE(same(a, 9, b, 1, bytes));

    for (const WorkOpcode opcode : {WorkOpcode::kSend, WorkOpcode::kSendWithImm}) {
      ASSERT_TRUE(b.post_receive(kHalf, kHalf, 78).ok());
      ASSERT_TRUE(a.post(opcode, {.offset = 11, .bytes = bytes, .immediate = 6}).ok());
      EXPECT_EQ(Pair::wait(a, a.send_cq, &b).status, CompletionStatus::kSuccess);
      received = Pair::wait(b, b.receive_cq, &a);
      EXPECT_EQ(received.byte_length, bytes);
      EXPECT_TRUE(same(a, 11, b, kHalf, bytes));
    }

    ASSERT_TRUE(a.post(WorkOpcode::kRdmaRead, {.offset = kHalf, .bytes = bytes, .remote = 13, .wr_id = 2}).ok());
    const Completion read = Pair::wait(a, a.send_cq, &b);
    EXPECT_EQ(read.status, CompletionStatus::kSuccess);
    EXPECT_EQ(read.opcode, CompletionOpcode::kRdmaRead);
    EXPECT_TRUE(same(a, kHalf, b, 13, bytes));
  }
  std::uint64_t value = 40, fetched = 0;
  std::memcpy(b.memory.data() + 64, &value, 8);
  ASSERT_TRUE(a.post(WorkOpcode::kAtomicFetchAdd, {.offset = 0, .bytes = 8, .remote = 64, .compare_or_add = 2}).ok());
  EXPECT_EQ(Pair::wait(a, a.send_cq, &b).status, CompletionStatus::kSuccess);
  std::memcpy(&fetched, a.memory.data(), 8);
  std::memcpy(&value, b.memory.data() + 64, 8);
  EXPECT_EQ(fetched, 40u);
  EXPECT_EQ(value, 42u);
  ASSERT_TRUE(
      a.post(WorkOpcode::kAtomicCmpSwap, {.offset = 0, .bytes = 8, .remote = 64, .compare_or_add = 42, .swap = 7})
          .ok());
  EXPECT_EQ(Pair::wait(a, a.send_cq, &b).status, CompletionStatus::kSuccess);
  std::memcpy(&fetched, a.memory.data(), 8);
  std::memcpy(&value, b.memory.data() + 64, 8);
  EXPECT_EQ(fetched, 42u);
  EXPECT_EQ(value, 7u);
  EXPECT_EQ(a.statistics->get(Counter::kSendFailed) + b.statistics->get(Counter::kSendFailed), 0u);
  EXPECT_EQ(a.statistics->get(Counter::kStrayPackets) + b.statistics->get(Counter::kStrayPackets), 0u);
}

TEST(Contexts, EveryOpcodeByCallsAlone) {
  EndpointOptions options;
  options.context.progress_thread = false;
  Pair pair{options};
  exercise(pair);
}
TEST(Contexts, EveryOpcodeWithThreads) {
  Pair pair;
  exercise(pair);
}
TEST(Contexts, EveryOpcodeOverIpv6) {
  Pair pair{{}, kLoopback6};
  exercise(pair);
}
TEST(Contexts, EveryOpcodeWithoutIpv6Sockets) {
  Pair pair{{}, kLoopback4, false};
  exercise(pair);
}
TEST(Contexts, EveryOpcodeWithoutGsoAndGro) {
  EndpointOptions options;
  options.context.gso = false;
  options.context.receive.gro = false;
  Pair pair{options};
  exercise(pair);
}
TEST(Contexts, EveryOpcodeInStandardModeWithAndWithoutGso) {
  for (const bool gso : {true, false}) {
    EndpointOptions options;
    options.context.recovery.mode = RecoveryMode::kStandard;
    options.context.gso = gso;
    Pair pair{options};
    exercise(pair);
  }
}
TEST(Contexts, EveryOpcodeWithASmallReceiveBuffer) {
  EndpointOptions options;
  options.context.receive.buffer_bytes = 106'496;  // half of what a default socket has
  Pair pair{options};
  exercise(pair);
  EXPECT_EQ(pair.b->statistics->get(Counter::kSocketOverflow), 0u);
}

// The responder makes no call at all: its thread serves.
TEST(ProgressThread, ServesReadsWhileTheProgramIsAway) {
  Pair pair;
  fill(pair.b->memory, 3);
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
// They are not just between two rounds: many looks in a row.
void wait_for_sleeping_threads() {
  const Instant end = monotonic_now() + kPatience;
  for (int looks = 0; looks < 100 && monotonic_now() < end; ++looks) {
    if (!progress_threads_sleep()) looks = 0;
  }
}

// The peer never looks at its socket: the retries are the sleeping side's timers alone, and nothing else wakes it
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
  EXPECT_LT(took, 2_s);  // a machine may be busy; the thread's next look without a timer would be never
}

unsigned threads_of_this_process() {
  unsigned count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{"/proc/self/task"}) ++count;
  return count;
}

TEST(ProgressThread, StartsWithTheFirstQueuePair) {
  std::thread{[] {}}.join();  // with the first one a sanitizer's runtime starts one of its own, which stays
  const unsigned before = threads_of_this_process();
  auto leases = make_leases(1);
  auto made = ContextImpl::make({}, std::move(leases[0]), {}, nullptr);
  ASSERT_TRUE(made.ok());
  {
    Context::Session session{*made.value()};
    session.engine().alloc_pd();
  }
  EXPECT_EQ(threads_of_this_process(), before);
  auto more = make_leases(1);
  {
    const Endpoint endpoint{std::move(more[0]), kLoopback4, {}};
    EXPECT_EQ(threads_of_this_process(), before + 1);
  }
  EXPECT_EQ(threads_of_this_process(), before);
}

// An idle context costs no processor time: the thread sleeps without a deadline.
TEST(ProgressThread, IdleCostsNothing) {
  Pair pair;
  ASSERT_TRUE(pair.a->post(WorkOpcode::kRdmaWrite, {.bytes = 100}).ok());
  ASSERT_EQ(Pair::wait(*pair.a, pair.a->send_cq).status, CompletionStatus::kSuccess);
  const auto cpu = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds{20});  // takes charge, spins, goes to sleep
  const auto before = cpu();
  std::this_thread::sleep_for(std::chrono::milliseconds{200});  // what is measured is time itself
  EXPECT_LT(cpu() - before, 4'000'000);
}

TEST(Contexts, PacketsOfAnotherSlotAreCountedStrays) {
  Pair pair;
  auto opened = TransmitSocket::open({});
  ASSERT_TRUE(opened.ok());
  std::vector<std::byte> bytes(200);
  bytes[7] = bytes[107] = std::byte{200};  // no member of the group: the kernel picks one by its hash
  const Slice slice{bytes.data(), bytes.size()};
  Transmit batch;
  batch.source = batch.destination = kLoopback4;
  batch.segments = 2;
  batch.segment_bytes = 100;
  batch.bytes = 200;
  batch.slices = {&slice, 1};
  ASSERT_EQ(opened.value().send(batch).refused, 0u);
  Completion ignored;
  const Instant end = monotonic_now() + kPatience;
  const auto strays = [&] {
    return pair.a->statistics->get(Counter::kStrayPackets) + pair.b->statistics->get(Counter::kStrayPackets);
  };
  while (strays() < 2 && monotonic_now() < end) {
    (void)pair.a->poll(pair.a->send_cq, ignored);
    (void)pair.b->poll(pair.b->send_cq, ignored);
  }
  EXPECT_EQ(strays(), 2u);
}

TEST(Contexts, ThreadsShareOne) {
  Pair pair;
  constexpr int kEach = 300;
  std::atomic<int> done{0};
  const auto work = [&](std::size_t offset) {
    for (int i = 0; i < kEach; ++i) {
      while (!pair.a->post(WorkOpcode::kRdmaWrite, {.offset = offset, .bytes = 3000, .remote = offset}).ok()) {
      }
      Completion completion;
      if (pair.a->poll(pair.a->send_cq, completion)) ++done;
    }
  };
  fill(pair.a->memory, 9);
  {
    std::thread one{work, 0}, two{work, 10'000}, three{work, 20'000};
    one.join(), two.join(), three.join();
  }
  while (done < 3 * kEach) {
    ASSERT_EQ(Pair::wait(*pair.a, pair.a->send_cq).status, CompletionStatus::kSuccess);
    ++done;
  }
  for (const std::size_t offset : {0, 10'000, 20'000}) EXPECT_TRUE(same(*pair.a, offset, *pair.b, offset, 3000));
}

// A program that has polled, so that the thread is parked, and then only posts, again and again where the queue is
// full, from three threads that never leave the core to anyone.
TEST(Contexts, AProgramThatOnlyPostsGetsRoomAgain) {
  Pair pair;
  Completion completion;
  const Instant parked = monotonic_now() + 50_ms, end = monotonic_now() + kPatience;
  while (monotonic_now() < parked) ASSERT_FALSE(pair.a->poll(pair.a->send_cq, completion));
  const auto work = [&] {
    cpu_set_t one_core;
    CPU_ZERO(&one_core);
    CPU_SET(sched_getcpu(), &one_core);
    sched_setaffinity(0, sizeof(one_core), &one_core);
    for (unsigned posted = 0; posted < 2 * EndpointOptions{}.send_wr_max && monotonic_now() < end;) {
      if (pair.a->post(WorkOpcode::kRdmaWrite, {.bytes = 3000, .flags = 0}).ok()) ++posted;
    }
  };
  {
    std::thread one{work}, two{work}, three{work};
    one.join(), two.join(), three.join();
  }
  EXPECT_LT(monotonic_now(), end);
}

// The kernel takes no more (a neighbour whose address is not known yet): nothing is lost, nothing spins, and it goes on
// by itself when it can.
TEST(Contexts, AFullSendBufferIsWaitedFor) {
  const SecondNetwork network;
  ASSERT_TRUE(network.ready());
  EndpointOptions options;
  options.context.send_buffer_bytes = 20'000;
  std::unique_ptr<Endpoint> b;
  {
    const SecondNetwork::Visit visit{network};
    ASSERT_TRUE(ip("link set right arp off"));
    ASSERT_TRUE(ip("neighbour replace 10.9.0.1 lladdr 02:00:00:00:09:01 dev right nud permanent"));
    auto leases = make_leases(2);
    b = std::make_unique<Endpoint>(std::move(leases[1]), IpAddress::v4(10, 9, 0, 2), options);
  }
  auto leases = make_leases(1);
  Handler handler;
  Endpoint a{std::move(leases[0]), IpAddress::v4(10, 9, 0, 1), options, &handler};
  fill(a.memory, 4);
  a.connect(b->info());
  b->connect(a.info());
  a.context->request_notify(a.send_cq, false);
  ASSERT_TRUE(a.post(WorkOpcode::kRdmaWrite, {.bytes = 200'000}).ok());
  const Instant end = monotonic_now() + kPatience;
  while (a.statistics->get(Counter::kSendBlocked) == 0 && monotonic_now() < end) std::this_thread::yield();
  EXPECT_GT(a.statistics->get(Counter::kSendBlocked), 0u);
  ASSERT_TRUE(ip("neighbour replace 10.9.0.2 lladdr 02:00:00:00:09:02 dev left nud permanent"));
  ASSERT_TRUE(handler.wait_completion());
  Completion completion;
  ASSERT_TRUE(a.poll(a.send_cq, completion));
  EXPECT_EQ(completion.status, CompletionStatus::kSuccess);
  EXPECT_TRUE(same(a, 0, *b, 0, 200'000));
  EXPECT_EQ(a.statistics->get(Counter::kSendFailed), 0u);
  // Nothing that the engine gave out went missing: this network loses no packet.
  const auto all_arrived = [&] {
    return a.statistics->get(Counter::kSentPackets) == b->statistics->get(Counter::kReceivedPackets);
  };
  const Instant last = monotonic_now() + kPatience;
  while (!all_arrived() && monotonic_now() < last) std::this_thread::yield();
  EXPECT_TRUE(all_arrived()) << Pair::nonzero(*a.statistics) << "\n" << Pair::nonzero(*b->statistics);
}

TEST(Contexts, TheDaemonsEndIsADeviceFatalEvent) {
  auto leases = make_leases(1);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  leases[0].control_fd = ends[0];
  Handler handler;
  const Endpoint endpoint{std::move(leases[0]), kLoopback4, {}, &handler};
  close(ends[1]);
  EXPECT_TRUE(handler.wait_event(8));  // IBV_EVENT_DEVICE_FATAL
}

TEST(Contexts, AForkedChildMayDestroyItsCopy) {
  Pair pair;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pair.a.reset();
    pair.b.reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  exercise(pair);
}

}  // namespace
}  // namespace brdma::io
