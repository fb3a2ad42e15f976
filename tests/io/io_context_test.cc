// Two contexts over loopback or a veth pair: every opcode, many threads, and the system's refusals.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "context_pair.h"
#include "io/udp/transmit_socket.h"
#include "private_network.h"

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
using test::test_ip6;

constexpr std::size_t kHalf = 512 * 1024;

// Every opcode in several sizes, a the requester; all written, read and changed bytes are compared.
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
  Pair pair{{}, test_ip6()};
  exercise(pair);
}
TEST(Contexts, EveryOpcodeWithoutIpv6Sockets) {
  Pair pair{{}, test_ip4(), false};
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
  options.context.receive.buffer_bytes = 106'496;  // half of a default socket's
  Pair pair{options};
  exercise(pair);
  EXPECT_EQ(pair.b->statistics->get(Counter::kSocketOverflow), 0u);
}

TEST(Contexts, PacketsOfAnotherSlotAreCountedStrays) {
  Pair pair;
  auto opened = TransmitSocket::open({});
  ASSERT_TRUE(opened.ok());
  std::vector<std::byte> bytes(200);
  bytes[7] = bytes[107] = std::byte{200};  // no member of the group: the kernel picks one by its hash
  const Slice slice{bytes.data(), bytes.size()};
  Transmit batch;
  batch.source = batch.destination = test_ip4();
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
  EXPECT_EQ(pair.a->statistics->get(Counter::kStrayPackets) + pair.b->statistics->get(Counter::kStrayPackets), 2u);
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

// A program that has polled, so that the thread is parked, and then only posts, repeatedly with a full queue, from
// three threads that never yield.
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

// The kernel takes no more (a neighbour whose address is not known yet): nothing is lost, nothing spins, and sending
// continues by itself when it can.
TEST(Contexts, AFullSendBufferIsWaitedFor) {
  const SecondNetwork network;
  ASSERT_TRUE(network.ready());
  EndpointOptions options;
  options.context = {};  // a UDP socket's
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
  // No packet of the engine was lost: this network loses none.
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
  const Endpoint endpoint{std::move(leases[0]), test_ip4(), {}, &handler};
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
