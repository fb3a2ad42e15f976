// Access checks: the protection domain of the queue pair, and the access flags of queue pair and region, on every path
// of a request: bitmap mode and standard packets, in order and early, short and long.
#include <gmock/gmock.h>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

struct Case {
  WorkOpcode opcode;
  std::uint32_t length;
  bool bitmap, early;
};

class Access : public testing::TestWithParam<Case> {
 protected:
  static PairOptions options() {
    PairOptions options;
    if (!GetParam().bitmap) options.mode[0] = options.mode[1] = RecoveryMode::kStandard;
    return options;
  }
  // Side 0 requests `key` of side 1, and is refused; nothing has changed there.
  void expect_refused(TwoEngines& pair, std::uint32_t key) {
    pair.fill(0, 1);
    const std::vector<std::byte> before = pair.side[1].memory;
    unsigned left = GetParam().early ? 1 : 0;
    pair.drop = [&left](const Sent& sent) { return sent.from == 0 && sent.data() && left > 0 && left-- > 0; };
    if (GetParam().early) {  // lost once: later packets come early
      SendRequest allowed = pair.write(0, 0, 0, 1);
      ASSERT_TRUE(pair.post(0, allowed).ok());
      pair.round();
    }
    SendRequest request = pair.request(0, GetParam().opcode, 4096, GetParam().length, 2, 4096);
    request.rkey = key;
    ASSERT_TRUE(pair.post(0, request).ok());
    ASSERT_TRUE(pair.run_until_idle());
    const auto done = pair.poll(0);
    ASSERT_FALSE(done.empty());
    EXPECT_EQ(done.back().wr_id, 2u);
    EXPECT_EQ(done.back().status, CompletionStatus::kRemoteAccessError);
    EXPECT_EQ(pair.side[1].memory, before);
    EXPECT_EQ(pair.state(1), QpState::kErr);
  }
  static std::uint32_t register_at(TwoEngines& pair, ProtectionDomain* pd, std::uint32_t access) {
    auto& side = pair.side[1];
    return side.engine
        ->info(side.engine->register_memory(pd, side.at(0), TwoEngines::kMemory, side.at(0), access).value())
        .rkey;
  }
  static constexpr std::uint32_t kAll =
      kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic | kAccessFlushGlobal;
  static std::uint32_t needed() {
    switch (GetParam().opcode) {
      case WorkOpcode::kRdmaRead:
        return kAccessRemoteRead;
      case WorkOpcode::kAtomicFetchAdd:
        return kAccessRemoteAtomic;
      default:
        return kAccessRemoteWrite;
    }
  }
};

TEST_P(Access, OfAnotherProtectionDomainIsRefused) {
  TwoEngines pair{options()};
  expect_refused(pair, register_at(pair, pair.side[1].engine->alloc_pd(), kAll));
}

TEST_P(Access, ThatTheRegionDoesNotAllowIsRefused) {
  TwoEngines pair{options()};
  expect_refused(pair, register_at(pair, pair.side[1].pd, kAll & ~needed()));
}

// The queue pair's own flags; READs and atomics are an invalid request if it allows none.
TEST_P(Access, ThatTheQueuePairDoesNotAllowIsRefused) {
  TwoEngines pair{options()};
  QpAttributes attributes;
  attributes.access = kAll & ~needed();
  ASSERT_TRUE(pair.side[1].engine->modify_qp(pair.side[1].qp, attributes, kQpAttrAccess, pair.now).ok());
  const std::vector<std::byte> before = pair.side[1].memory;
  ASSERT_TRUE(pair.post(0, pair.request(0, GetParam().opcode, 4096, GetParam().length, 2)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_THAT(done[0].status,
              testing::AnyOf(CompletionStatus::kRemoteAccessError, CompletionStatus::kRemoteInvalidRequest));
  EXPECT_EQ(pair.side[1].memory, before);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool bitmap : {false, true}) {
    for (const bool early : {false, true}) {
      for (const std::uint32_t length : {8u, 1024u, 20'000u}) {
        all.push_back({WorkOpcode::kRdmaWrite, length, bitmap, early});
        all.push_back({WorkOpcode::kRdmaRead, length, bitmap, early});
      }
      all.push_back({WorkOpcode::kAtomicFetchAdd, 8, bitmap, early});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ways, Access, testing::ValuesIn(cases()));

}  // namespace
}  // namespace brdma::test
