// Work of every kind, in both directions, over a wire that loses, reorders and duplicates: all of it completes, in
// order, once, and every byte is right. (Larger worlds, and checkers for every rule, are sim/'s.)
#include <gmock/gmock.h>

#include "base/random.h"
#include "support/seeds.h"
#include "support/two_engines.h"

namespace brdma::test {
namespace {

struct Faults {
  RecoveryMode mode;
  std::uint32_t loss, reorder, duplicate;  // per million
};

class Loss : public testing::TestWithParam<Faults> {};

void run_world(const Faults& faults, Random& random) {
  PairOptions options;
  options.mode[0] = options.mode[1] = faults.mode;
  options.settle = false;
  options.timeout = faults.mode == RecoveryMode::kBitmap ? 16 : 10;  // 4 ms: standard modes wait so long
  options.recovery.depth_max = random.below(2) == 0 ? 8 : 0;
  TwoEngines pair{options};
  pair.drop = [&](const Sent&) { return random.chance_per_million(faults.loss); };
  pair.extra_delay = [&](const Sent&) {
    return random.chance_per_million(faults.reorder)
               ? Duration::from_ns(static_cast<std::int64_t>(random.below(60'000)))
               : Duration{};
  };
  pair.duplicates = [&](const Sent&) { return random.chance_per_million(faults.duplicate) ? 1u : 0u; };
  pair.fill(0, random.next());
  pair.fill(1, random.next());
  const auto before1 = pair.side[1].memory;
  constexpr std::uint64_t kWorks = 30, kRoom = 16'000;
  std::uint64_t added = 0;
  std::vector<std::uint64_t> received[2];
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t area = i == 0 ? 0 : kWorks * kRoom;
    for (std::uint64_t n = 0; n < kWorks; ++n) {
      const std::uint64_t at = area + n * kRoom;
      const auto length = static_cast<std::uint32_t>(random.below(kRoom - 64));
      WorkOpcode opcode = WorkOpcode::kRdmaWrite;
      switch (random.below(7)) {
        case 0:
          opcode = WorkOpcode::kRdmaRead;
          break;
        case 1:
          opcode = WorkOpcode::kSend;
          break;
        case 2:
          opcode = WorkOpcode::kRdmaWriteWithImm;
          break;
        case 3:
          opcode = WorkOpcode::kAtomicFetchAdd;
          break;
        case 4:
          opcode = WorkOpcode::kAtomicWrite;
          break;
        case 5:
          opcode = WorkOpcode::kFlush;
          break;
        default:
          break;
      }
      if (opcode == WorkOpcode::kSend || opcode == WorkOpcode::kRdmaWriteWithImm) {
        received[1 - i].push_back(n);
        ASSERT_TRUE(pair.post_receive(1 - i, at, length, n).ok());
      }
      auto request = pair.request(i, opcode, at, length, n);
      if (opcode == WorkOpcode::kAtomicFetchAdd) {
        request = pair.request(i, opcode, at, 8, n, TwoEngines::kMemory - 8);
        request.compare_or_add = n + 1;
        if (i == 0) added += n + 1;
      }
      if (opcode == WorkOpcode::kAtomicWrite) request = pair.request(i, opcode, at, 8, n);
      if (opcode == WorkOpcode::kFlush) {
        request.sges = {};
        request.swap = wire::kFlushGlobal;
      }
      ASSERT_TRUE(pair.post(i, request).ok());
    }
  }
  std::uint64_t counter_before;
  std::memcpy(&counter_before, before1.data() + TwoEngines::kMemory - 8, 8);
  ASSERT_TRUE(pair.run_until_idle(20_s)) << pair.story({"timeout_fired", "completion_made"});
  for (int i = 0; i < 2; ++i) {
    const auto done = pair.poll(i);
    const auto got = pair.poll_receives(i);
    ASSERT_EQ(done.size(), kWorks) << i << " " << pair.standing(i);
    for (std::uint64_t n = 0; n < kWorks; ++n) {
      ASSERT_EQ(done[n].wr_id, n);
      ASSERT_EQ(done[n].status, CompletionStatus::kSuccess) << pair.story({""});
      if (done[n].opcode == CompletionOpcode::kFetchAdd) continue;
      const std::uint64_t at = (i == 0 ? 0 : kWorks * kRoom) + n * kRoom;
      ASSERT_TRUE(pair.same(at, done[n].byte_length)) << i << " " << n;
    }
    ASSERT_EQ(got.size(), received[i].size()) << pair.standing(1 - i) << pair.story({""});
    for (std::size_t n = 0; n < got.size(); ++n) ASSERT_EQ(got[n].wr_id, received[i][n]);
    EXPECT_EQ(pair.accepted_and_dropped(i), pair.side[i].count(Counter::kReceivedPackets));
  }
  std::uint64_t counter_after;
  std::memcpy(&counter_after, pair.side[1].memory.data() + TwoEngines::kMemory - 8, 8);
  EXPECT_EQ(counter_after - counter_before, added);
}

TEST_P(Loss, EverythingCompletesOnceInOrderAndIntact) {
  for_each_seed(40, [](Random& random) { run_world(GetParam(), random); });
}

INSTANTIATE_TEST_SUITE_P(Worlds, Loss,
                         testing::Values(Faults{RecoveryMode::kBitmap, 10'000, 0, 0},
                                         Faults{RecoveryMode::kBitmap, 0, 50'000, 10'000},
                                         Faults{RecoveryMode::kBitmap, 50'000, 50'000, 10'000},
                                         Faults{RecoveryMode::kBitmap, 200'000, 100'000, 50'000},
                                         Faults{RecoveryMode::kStandard, 10'000, 0, 10'000},
                                         Faults{RecoveryMode::kStandard, 50'000, 50'000, 10'000},
                                         Faults{RecoveryMode::kGoBackN, 10'000, 0, 10'000},
                                         Faults{RecoveryMode::kGoBackN, 50'000, 20'000, 10'000}));

}  // namespace
}  // namespace brdma::test
