// Registered memory that the program unmaps, on every path of the data: the completion of a device with on-demand
// paging, at both sides; everything else continues.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <list>
#include <string>

#include "io/system/fault_handler.h"
#include "support/two_engines.h"

namespace brdma::test {
namespace {

using Status = CompletionStatus;

constexpr std::uint32_t kAccess = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;

struct Way {
  RecoveryMode mode = RecoveryMode::kBitmap;
  std::uint32_t bytes = 0;
};

std::string name_of(const testing::TestParamInfo<Way>& info) {
  const char* const mode = info.param.mode == RecoveryMode::kBitmap     ? "Bitmap"
                           : info.param.mode == RecoveryMode::kStandard ? "Standard"
                                                                        : "GoBackN";
  return mode + std::to_string(info.param.bytes);
}

PairOptions options_of(RecoveryMode mode, QpType type = QpType::kRc) {
  PairOptions options;
  options.mode[0] = options.mode[1] = mode;
  options.type = type;
  return options;
}

class Gone {
 public:
  explicit Gone(PairOptions options) : pair((io::keep_fault_handler(), std::move(options))) {
    for (int i = 0; i < 2; ++i) {
      pages[i] =
          static_cast<std::byte*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      std::memset(pages[i], 0x33, kBytes);
      Engine& engine = *pair.side[i].engine;
      const auto at = reinterpret_cast<std::uintptr_t>(pages[i]);
      keys[i] = engine.info(engine.register_memory(pair.side[i].pd, at, kBytes, at, kAccess).value()).lkey;
    }
  }
  ~Gone() {
    for (std::byte* const at : pages) ::munmap(at, kBytes);
  }
  Gone(const Gone&) = delete;
  Gone& operator=(const Gone&) = delete;

  // The addresses stay reserved, and inaccessible.
  void take(int side, int protection = PROT_NONE) { ASSERT_EQ(::mprotect(pages[side], kBytes, protection), 0); }
  // Between the memory that is taken away, on the given sides, and the memory that stays.
  SendRequest request(WorkOpcode opcode, std::uint32_t bytes, std::uint64_t wr_id, bool own, bool remote) {
    SendRequest made = pair.request(0, opcode, 0, bytes, wr_id);
    if (own) {
      sges.push_back({reinterpret_cast<std::uintptr_t>(pages[0]), bytes, keys[0]});
      made.sges = {&sges.back(), 1};
    }
    if (remote) {
      made.remote_address = reinterpret_cast<std::uintptr_t>(pages[1]);
      made.rkey = keys[1];
    }
    return made;
  }
  ::brdma::Status post_receive(std::uint32_t bytes, std::uint64_t wr_id) {
    sges.push_back({reinterpret_cast<std::uintptr_t>(pages[1]), bytes, keys[1]});
    return pair.side[1].engine->post_receive(pair.side[1].qp, {wr_id, {&sges.back(), 1}}, pair.now);
  }
  // One good request before it, which completes, and one behind it, which is flushed.
  void expect(const SendRequest& bad, Status status) {
    ASSERT_TRUE(pair.post(0, pair.write(0, 512, 64, 1)).ok());
    ASSERT_TRUE(pair.post(0, bad).ok());
    ASSERT_TRUE(pair.post(0, pair.write(0, 512, 64, 3)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    const auto done = pair.poll(0);
    ASSERT_EQ(done.size(), 3u) << pair.standing(0);
    EXPECT_EQ(done[0].status, Status::kSuccess);
    EXPECT_EQ(done[1].status, status) << static_cast<int>(done[1].status);
    EXPECT_EQ(done[1].wr_id, bad.wr_id);
    EXPECT_EQ(done[2].status, Status::kFlushed);
    EXPECT_EQ(pair.state(0), QpState::kErr);
  }

  static constexpr std::size_t kBytes = 1 << 19;
  TwoEngines pair;
  std::byte* pages[2]{};
  std::uint32_t keys[2]{};
  std::list<Sge> sges;
};

class MemoryGone : public testing::TestWithParam<Way> {
 protected:
  Gone gone{options_of(GetParam().mode)};
  TwoEngines& pair = gone.pair;
  const std::uint32_t bytes = GetParam().bytes;
};

TEST_P(MemoryGone, SourceOfAWrite) {
  gone.take(0);
  gone.expect(gone.request(WorkOpcode::kRdmaWrite, bytes, 2, true, false), Status::kLocalProtectionError);
}

TEST_P(MemoryGone, TargetOfAWrite) {
  gone.take(1);
  gone.expect(gone.request(WorkOpcode::kRdmaWrite, bytes, 2, false, true), Status::kRemoteAccessError);
  EXPECT_EQ(pair.state(1), QpState::kErr);
  EXPECT_EQ(pair.side[1].count(Counter::kRemoteAccessErrors), 1u);
}

TEST_P(MemoryGone, TargetThatMayBeReadOnly) {
  gone.take(1, PROT_READ);
  gone.expect(gone.request(WorkOpcode::kRdmaWrite, bytes, 2, false, true), Status::kRemoteAccessError);
}

TEST_P(MemoryGone, TargetOfAWriteWhoseFirstPacketIsLost) {
  gone.take(1);
  pair.drop = [&](const Sent& sent) {
    return sent.from == 0 && sent.data() && sent.psn() == pair.options.first_psn[0] + 1 && sent.copy == 1;
  };
  gone.expect(gone.request(WorkOpcode::kRdmaWrite, bytes, 2, false, true), Status::kRemoteAccessError);
}

TEST_P(MemoryGone, SourceOfASend) {
  ASSERT_TRUE(pair.post_receive(1, 0, bytes, 9).ok());
  gone.take(0);
  gone.expect(gone.request(WorkOpcode::kSend, bytes, 2, true, false), Status::kLocalProtectionError);
}

TEST_P(MemoryGone, Receive) {
  ASSERT_TRUE(gone.post_receive(bytes, 9).ok());
  gone.take(1);
  gone.expect(gone.request(WorkOpcode::kSend, bytes, 2, false, false), Status::kRemoteOperationError);
  const auto received = pair.poll_receives(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, Status::kLocalProtectionError);
  EXPECT_EQ(received[0].wr_id, 9u);
  EXPECT_EQ(pair.state(1), QpState::kErr);
}

TEST_P(MemoryGone, SourceOfARead) {
  gone.take(1);
  gone.expect(gone.request(WorkOpcode::kRdmaRead, bytes, 2, false, true), Status::kRemoteAccessError);
  EXPECT_EQ(pair.state(1), QpState::kErr);
}

// When the peers have agreed on bitmap mode long ago: standard packets are not taken any more.
TEST_P(MemoryGone, SourceOfAReadLater) {
  ASSERT_TRUE(pair.post(0, pair.write(0, 512, 64, 0)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(pair.poll(0).size(), 1u);
  pair.run_for(10_s);
  gone.take(1);
  gone.expect(gone.request(WorkOpcode::kRdmaRead, bytes, 2, false, true), Status::kRemoteAccessError);
}

TEST_P(MemoryGone, TargetOfARead) {
  gone.take(0);
  gone.expect(gone.request(WorkOpcode::kRdmaRead, bytes, 2, true, false), Status::kLocalProtectionError);
}

// The driver learns it from the system: the engine had read all.
TEST_P(MemoryGone, SourceThatGoesBeforeItIsSent) {
  ASSERT_TRUE(pair.post(0, gone.request(WorkOpcode::kRdmaWrite, bytes, 2, true, false)).ok());
  TransmitBuffer buffer;
  Transmit batch;
  ASSERT_TRUE(pair.side[0].engine->poll_transmit(buffer, batch, pair.now));
  gone.take(0);
  pair.side[0].engine->withdraw(pair.now);
  ASSERT_TRUE(pair.run_until_idle());
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, Status::kLocalProtectionError);
}

INSTANTIATE_TEST_SUITE_P(, MemoryGone,
                         testing::Values(Way{RecoveryMode::kBitmap, 8}, Way{RecoveryMode::kBitmap, 200},
                                         Way{RecoveryMode::kBitmap, 1000}, Way{RecoveryMode::kBitmap, 5000},
                                         Way{RecoveryMode::kBitmap, 300'000}, Way{RecoveryMode::kStandard, 200},
                                         Way{RecoveryMode::kStandard, 5000}, Way{RecoveryMode::kStandard, 100'000},
                                         Way{RecoveryMode::kGoBackN, 5000}),
                         name_of);

// A withdrawn batch whose memory is there after all arrives.
TEST(MemoryGoneAlone, AWithdrawnBatchIsSentAgain) {
  Gone gone{options_of(RecoveryMode::kBitmap)};
  gone.pair.fill(0, 1);
  ASSERT_TRUE(gone.pair.post(0, gone.pair.write(0, 0, 9000, 1)).ok());
  TransmitBuffer buffer;
  Transmit batch;
  ASSERT_TRUE(gone.pair.side[0].engine->poll_transmit(buffer, batch, gone.pair.now));
  gone.pair.side[0].engine->withdraw(gone.pair.now);
  ASSERT_TRUE(gone.pair.run_until_idle(5_ms));  // long before any timeout
  ASSERT_EQ(gone.pair.poll(0).at(0).status, Status::kSuccess);
  EXPECT_TRUE(gone.pair.same(0, 9000));
}

TEST(MemoryGoneAlone, Atomics) {
  for (const WorkOpcode opcode : {WorkOpcode::kAtomicFetchAdd, WorkOpcode::kAtomicCmpSwap, WorkOpcode::kAtomicWrite}) {
    Gone word{options_of(RecoveryMode::kBitmap)};
    word.take(1);
    word.expect(word.request(opcode, 8, 2, false, true), Status::kRemoteAccessError);
    Gone own{options_of(RecoveryMode::kBitmap)};
    own.take(0);
    own.expect(own.request(opcode, 8, 2, true, false), Status::kLocalProtectionError);
  }
}

// Nothing is posted, and the next post is not affected.
TEST(MemoryGoneAlone, InlineData) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    Gone gone{options_of(RecoveryMode::kBitmap, type)};
    SendRequest inlined = gone.request(WorkOpcode::kRdmaWrite, 100, 2, true, false);
    inlined.flags |= kSendInline;
    gone.take(0);
    EXPECT_EQ(gone.pair.post(0, inlined).error(), EFAULT);
    gone.take(0, PROT_READ);
    ASSERT_TRUE(gone.pair.post(0, inlined).ok());
    ASSERT_TRUE(gone.pair.run_until_idle());
    const auto done = gone.pair.poll(0);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, Status::kSuccess);
    EXPECT_EQ(std::memcmp(gone.pair.side[1].memory.data(), gone.pages[0], 100), 0);
  }
}

class UnreliableMemoryGone : public testing::TestWithParam<QpType> {};

TEST_P(UnreliableMemoryGone, SourceFailsAloneAndThoseBeforeItLeave) {
  for (const std::uint32_t bytes : {64u, 1000u}) {
    Gone gone{options_of(RecoveryMode::kBitmap, GetParam())};
    gone.take(0);
    ASSERT_TRUE(gone.pair.post(0, gone.request(WorkOpcode::kSend, bytes, 1, false, false)).ok());
    ASSERT_TRUE(gone.pair.post(0, gone.request(WorkOpcode::kSend, bytes, 2, true, false)).ok());
    ASSERT_TRUE(gone.pair.post(0, gone.request(WorkOpcode::kSend, bytes, 3, false, false)).ok());
    ASSERT_TRUE(gone.pair.run_until_idle());
    const auto done = gone.pair.poll(0);
    ASSERT_EQ(done.size(), 3u);
    EXPECT_EQ(done[0].status, Status::kSuccess);
    EXPECT_EQ(done[1].status, Status::kLocalProtectionError);
    EXPECT_EQ(done[2].status, Status::kFlushed);
    EXPECT_EQ(gone.pair.state(0), QpState::kSqe);
  }
}

TEST_P(UnreliableMemoryGone, Receive) {
  Gone gone{options_of(RecoveryMode::kBitmap, GetParam())};
  ASSERT_TRUE(gone.post_receive(2000, 9).ok());
  gone.take(1);
  ASSERT_TRUE(gone.pair.post(0, gone.request(WorkOpcode::kSend, 1000, 1, false, false)).ok());
  ASSERT_TRUE(gone.pair.run_until_idle());
  EXPECT_EQ(gone.pair.poll(0).at(0).status, Status::kSuccess);
  const auto received = gone.pair.poll_receives(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, Status::kLocalProtectionError);
  EXPECT_EQ(gone.pair.state(1), QpState::kErr);
}

INSTANTIATE_TEST_SUITE_P(, UnreliableMemoryGone, testing::Values(QpType::kUc, QpType::kUd),
                         [](const auto& info) { return info.param == QpType::kUc ? "Uc" : "Ud"; });

}  // namespace
}  // namespace brdma::test
