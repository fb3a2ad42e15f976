// A shard driven by hand: what it does is decided by what it is told of its program and its thread, and the other way
// round.
#include <gtest/gtest.h>
#include <poll.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/clock.h"
#include "io/progress_thread.h"
#include "io/shard.h"
#include "test_lease.h"

namespace brdma::io {
namespace {

constexpr IpAddress kLoopback = IpAddress::v4(127, 0, 0, 1);
constexpr Duration kPatience = 20_s;
constexpr std::uint32_t kBytes = 8;

// A queue pair that writes its first eight bytes to the peer's second eight.
struct Side {
  explicit Side(Lease given) : lease(std::move(given)), memory(2 * kBytes) {
    Intake intake{ReceiveSocket{lease.socket_fd, lease.dual_stack}};
    std::vector<TransmitSocket> transmit_sockets;
    transmit_sockets.push_back(TransmitSocket::open({}).value());
    EngineConfig config;
    config.slot = lease.slot;
    config.slot_bits = lease.slot_bits;
    config.source_ports = {transmit_sockets[0].port()};
    config.segments_max = kSegmentsMax;
    config.recovery.ack_hold_max = kPatience;  // whatever is held back in here is not let go by a busy machine
    shard = std::make_unique<Shard>(config, std::move(intake), std::move(transmit_sockets), *lease.statistics, nullptr);
    Engine& engine = shard->engine();
    ProtectionDomain* pd = engine.alloc_pd();
    cq = engine.create_cq(16, nullptr).value();
    key =
        engine
            .info(
                engine.register_memory(pd, at(0), memory.size(), at(0), kAccessLocalWrite | kAccessRemoteWrite).value())
            .lkey;
    QpCreate request{.pd = pd, .send_cq = cq, .receive_cq = cq, .capabilities = {.send_wr_max = 4, .send_sge_max = 1}};
    qp = engine.create_qp(request).value();
  }
  [[nodiscard]] std::uint64_t at(std::uint64_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory.data()) + offset;
  }
  void connect(const Side& peer) {
    QpAttributes a;
    a.access = kAccessRemoteWrite;
    a.path_mtu = PathMtu::k1024;
    a.destination_qpn = peer.shard->engine().qp_num(peer.qp);
    a.local_address = a.peer_address = kLoopback;
    a.timeout = 18;
    a.retry_count = 7;
    const auto move = [&](QpState state, std::uint32_t mask) {
      a.state = state;
      ASSERT_TRUE(shard->engine().modify_qp(qp, a, mask | kQpAttrState, monotonic_now()).ok());
    };
    move(QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess);
    move(QpState::kRtr,
         kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn | kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer);
    move(QpState::kRts, kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxRdAtomic);
    shard->settle(monotonic_now());
  }
  void write(const Side& peer, std::byte token) {
    memory[0] = token;
    const Sge sge{at(0), kBytes, key};
    const SendRequest request{.sges = {&sge, 1},
                              .opcode = WorkOpcode::kRdmaWrite,
                              .flags = kSendSignaled,
                              .remote_address = peer.at(kBytes),
                              .rkey = peer.key};
    std::size_t posted = 0;
    ASSERT_TRUE(shard->post_send(qp, {&request, 1}, posted).ok());
  }
  bool poll() {
    Completion completion;
    if (shard->poll_cq(cq, {&completion, 1}) == 0) return false;
    EXPECT_EQ(completion.status, CompletionStatus::kSuccess);
    ++completed;
    return true;
  }
  [[nodiscard]] bool got(std::byte token) const { return memory[kBytes] == token; }
  [[nodiscard]] std::uint64_t acks() const { return lease.statistics->get(Counter::kAcksSent); }

  Lease lease;
  std::vector<std::byte> memory;
  std::unique_ptr<Shard> shard;
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
  std::uint32_t key = 0;
  unsigned completed = 0;
};

class HoldingBack : public testing::Test {
 protected:
  HoldingBack() {
    auto leases = test::make_leases(2);
    a = std::make_unique<Side>(std::move(leases[0]));
    b = std::make_unique<Side>(std::move(leases[1]));
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
  b->shard->attendance().take_charge();
  b->shard->attendance().set_thread(Attendance::Thread::kBlocked);
  for (int i = 0; i < 16; ++i) (void)b->poll();
  ASSERT_TRUE(b->shard->attendance().application_spins());
  const std::uint64_t before = b->acks();
  a->write(*b, token());
  wait_for([&] { return b->got(last_); }, *b);
  EXPECT_EQ(b->acks(), before) << "waits for the reply";
  b->write(*a, token());
  EXPECT_EQ(b->acks(), before + 1) << "and leaves with it";
}

TEST_F(HoldingBack, NotWhereABlockedThreadWouldHaveToBeWokenForIt) {
  b->shard->attendance().take_charge();
  b->shard->attendance().set_thread(Attendance::Thread::kBlocked);
  const std::uint64_t before = b->acks();
  a->write(*b, token());
  arrived_at_b();
  (void)b->poll();
  ASSERT_TRUE(b->got(last_));
  EXPECT_EQ(b->acks(), before + 1);
}

// A poll that has its completion, and nothing else to do than to hold the acknowledgement back, ends with that: the
// engine has not even been asked for its deadlines. Whatever the program does next, the acknowledgement leaves.
class LeavingForTheReply : public HoldingBack {
 protected:
  LeavingForTheReply() {
    b->shard->attendance().set_thread(Attendance::Thread::kParked);
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
    EXPECT_TRUE(b->shard->engine().owes_only_acknowledgement()) << "nobody has looked further";
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

// A call that posts 256 KiB takes longer than the thread's shortest look. A thread that took its program for absent
// would wait for the lock, which makes each of the two sleep and wake in turn from then on.
TEST(ParkedThread, LeavesAProgramAloneThatIsInACall) {
  constexpr int kLooks = 10, kTries = 20;
  auto leases = test::make_leases(1);
  Side side{std::move(leases[0])};
  ProgressThread thread{*side.shard, {}};
  ASSERT_TRUE(thread.start());
  Attendance& attendance = side.shard->attendance();
  const Instant end = monotonic_now() + kPatience;
  bool left_alone = false;
  // More than once: between two calls we may lose our core, and the thread is right to come.
  for (int i = 0; i < kTries && !left_alone; ++i) {
    std::unique_lock held{side.shard->lock()};
    while (attendance.thread() != Attendance::Thread::kParked && monotonic_now() < end) {
      (void)side.poll();
      attendance.left();
      held.unlock();
      if (attendance.thread() == Attendance::Thread::kBlocked) attendance.wake();  // no packet comes that would
      held.lock();
    }
    attendance.called();
    const std::uint64_t before = looks_of_thread();
    while (!left_alone && !side.shard->lock().contended() && monotonic_now() < end)
      left_alone = looks_of_thread() >= before + kLooks;
    attendance.left();
  }
  EXPECT_TRUE(left_alone);
}

}  // namespace
}  // namespace brdma::io
