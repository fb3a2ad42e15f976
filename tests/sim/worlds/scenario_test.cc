// Scenarios of a pair of engines: the peer dies, is a standard peer, or nothing is to be done; and the goodput on a
// lossy path.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "support/engine_pair.h"
#include "worlds/random_world.h"

namespace brdma::test {
namespace {

TEST(Scenario, OneSeedOneWorld) {
  for (const std::uint64_t seed : {3u, 17u, 40u}) {
    const auto first = run_random_world(seed, {.traced = true});
    const auto again = run_random_world(seed, {.traced = true});
    EXPECT_GT(first.trace.size(), 1000u);
    EXPECT_EQ(first.trace, again.trace) << "seed " << seed;
  }
}

TEST(Scenario, IdleConnectionIsSilent) {
  EnginePair pair;
  pair.agree();
  const auto before = pair.count(pair.tx(), Counter::kSentPackets);
  EXPECT_TRUE(pair.run_until_idle(0_ns)) << "a timer is armed";
  EXPECT_EQ(pair.count(pair.tx(), Counter::kSentPackets), before);
}

TEST(Scenario, PeerThatDiesEndsInARetryErrorAndAFlush) {
  EnginePair pair;
  pair.agree();
  pair.rx().host().kill();
  const Instant killed = pair.world().now();
  for (int i = 0; i < 4; ++i) pair.post_packets(4);
  ASSERT_TRUE(pair.run_until_idle(10_s));
  const auto completions = pair.completions(pair.tx());
  ASSERT_EQ(completions.size(), 4u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kRetryExceeded);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(completions[i].status, CompletionStatus::kFlushed);
  // Timeout attribute 12 and 7 retries: 8 times 16.8 ms, and four times that in bitmap mode
  // (qp/timers/timer_lengths.h).
  EXPECT_GE(pair.world().now() - killed, 536_ms);
  EXPECT_LT(pair.world().now() - killed, 600_ms);
  EXPECT_EQ(pair.tx().host().engine().query_qp(pair.tx().qp()).state, QpState::kErr);
}

// For far longer than its retries take, on a link that loses a tenth of all packets, queries and replies among them.
TEST(Scenario, PeerThatIsStoppedIsWaitedFor) {
  EnginePair pair;
  pair.agree();
  fabric::LinkConfig lossy = pair.link();
  lossy.impairments.loss_ppm = 100'000;
  pair.world().configure_links(lossy);
  pair.post_packets(64);
  pair.world().run_for(10_us);
  pair.world().stop(pair.rx().host(), 30_s);
  pair.world().run_for(29_s);
  EXPECT_TRUE(pair.completions(pair.tx()).empty());
  EXPECT_GT(pair.count(pair.tx(), Counter::kStoppedReplies), 100u);
  ASSERT_TRUE(pair.run_until_idle(10_s));
  const auto completions = pair.completions(pair.tx());
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kSuccess);
  EXPECT_TRUE(pair.same_bytes(64 * 1024));
}

TEST(Scenario, PeerThatIsKilledWhileItIsStoppedIsGivenUp) {
  EnginePair pair;
  pair.agree();
  pair.world().stop(pair.rx().host(), 30_s);
  pair.post_packets(4);
  pair.world().run_for(10_s);
  EXPECT_TRUE(pair.completions(pair.tx()).empty());
  pair.rx().host().kill();
  const Instant killed = pair.world().now();
  ASSERT_TRUE(pair.run_until_idle(10_s));
  const auto completions = pair.completions(pair.tx());
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kRetryExceeded);
  EXPECT_LE(pair.world().now() - killed, 537_ms);
}

// The process that was stopped is gone: its machine does not report the next one as stopped.
TEST(Scenario, PeerThatCrashesWhileItIsStoppedIsGivenUpAfterItsRestart) {
  EnginePair pair;
  pair.agree();
  pair.world().stop(pair.rx().host(), 30_s);
  pair.post_packets(4);
  pair.world().run_for(1_s);
  EXPECT_GT(pair.count(pair.tx(), Counter::kStoppedReplies), 0u);
  pair.rx().host().crash();
  pair.rx().host().restart();
  pair.world().run_for(10_s);
  const auto completions = pair.completions(pair.tx());
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kRetryExceeded);
}

Arena one_page(std::uint64_t iova) {
  Arena arena{iova, Random{iova}};
  arena.allocate(4096);
  arena.freeze();
  return arena;
}

// Packets of the former connection find no queue pair; a new connection is not disturbed by that.
TEST(Scenario, HostThatCrashesComesBackWithoutItsPast) {
  EnginePair pair;
  pair.agree();
  pair.post_packets(16);
  pair.world().run_for(6_us);  // the first few have arrived
  sim::Host& crashed = pair.rx().host();
  crashed.crash();
  pair.world().run_for(1_ms);
  crashed.restart();

  Arena tx_memory = one_page(0x3000'0000'0000), rx_memory = one_page(0x4000'0000'0000);
  Endpoint tx{pair.world(), pair.tx().host(), {}, tx_memory}, rx{pair.world(), crashed, {}, rx_memory};
  for (Endpoint* end : {&tx, &rx}) end->start();
  tx.connect(rx);
  rx.connect(tx);
  const Sge sge{tx_memory.iova() + Arena::kGuard, 4096, tx.key()};
  SendRequest request;
  request.opcode = WorkOpcode::kRdmaWrite;
  request.flags = kSendSignaled;
  request.sges = {&sge, 1};
  request.remote_address = rx_memory.iova() + Arena::kGuard;
  request.rkey = rx.key();
  ASSERT_TRUE(tx.host().engine().post_send(tx.qp(), request, pair.world().now()).ok());
  tx.host().touch();
  pair.world().run_for(10_ms);
  const auto fresh = pair.completions(tx);
  ASSERT_EQ(fresh.size(), 1u);
  EXPECT_EQ(fresh[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(std::memcmp(tx_memory.bytes() + Arena::kGuard, rx_memory.bytes() + Arena::kGuard, 4096), 0);
  EXPECT_TRUE(rx_memory.guards_intact());

  ASSERT_TRUE(pair.run_until_idle(10_s));
  const auto completions = pair.completions(pair.tx());
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kRetryExceeded);
  EXPECT_GT(crashed.statistics().get(DropReason::kUnknownQp), 0u);
}

TEST(Scenario, PeerThatKnowsNoBitmapModeIsAskedAFewTimesAndServed) {
  EnginePair pair{{.rx = {.mode = RecoveryMode::kGoBackN}}};
  pair.drop_copy(Psn{1003}, 1);
  pair.post_packets(64);
  ASSERT_TRUE(pair.run_until_idle(1_s));
  EXPECT_TRUE(pair.same_bytes(64 * 1024));
  EXPECT_EQ(pair.completions(pair.tx()).size(), 1u);
  EXPECT_EQ(pair.count(pair.tx(), Counter::kCapsSent), 8u);
  EXPECT_EQ(pair.count(pair.tx(), Counter::kBitmapQps), 0u);
  EXPECT_EQ(pair.count(pair.rx(), Counter::kCapsSent), 0u);
}

// The sanitizer lane checks the reads.
TEST(Scenario, EmptyInlineRequestNeedsNoRoomForInlineData) {
  PairConfig config;
  config.endpoint.inline_bytes_max = 0;
  EnginePair pair{config};
  pair.agree();
  SendRequest request;
  request.opcode = WorkOpcode::kRdmaWrite;
  request.flags = kSendSignaled | kSendInline;
  request.remote_address = pair.rx().arena().iova();
  request.rkey = pair.rx().key();
  pair.post(request);
  ASSERT_TRUE(pair.run_until_idle(10_ms));
  const auto completions = pair.completions(pair.tx());
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kSuccess);
}

// Goodput of a stream of 64 KiB writes, sixteen in the queue, in bits per virtual second.
double goodput(RecoveryMode mode, std::uint32_t loss_ppm) {
  RecoveryConfig recovery;
  recovery.mode = mode;
  PairConfig config{.one_way_delay = 50_us, .tx = recovery, .rx = recovery};
  config.endpoint.mtu = PathMtu::k4096;
  EnginePair pair{config};
  pair.agree();
  fabric::LinkConfig link;
  link.delay = config.one_way_delay;
  link.rate = config.rate;
  link.impairments.loss_ppm = loss_ppm;
  pair.world().configure_links(link);
  constexpr std::uint32_t kBytes = 65536, kTotal = 1200;
  std::uint32_t posted = 0, completed = 0;
  const Instant began = pair.world().now();
  const bool done = pair.world().run_until(
      [&] {
        completed += static_cast<std::uint32_t>(pair.completions(pair.tx()).size());
        for (; posted < kTotal && posted - completed < 16; ++posted) pair.post_write(kBytes);
        return completed == kTotal;
      },
      20_s);
  EXPECT_TRUE(done) << completed << " of " << kTotal;
  return 8e9 * kBytes * completed / static_cast<double>((pair.world().now() - began).ns());
}

TEST(Scenario, GoodputUnderLoss) {
  const double clean = goodput(RecoveryMode::kBitmap, 0);
  const double at_1 = goodput(RecoveryMode::kBitmap, 10'000);
  const double at_5 = goodput(RecoveryMode::kBitmap, 50'000);
  const double old_clean = goodput(RecoveryMode::kGoBackN, 0);
  const double old_at_1 = goodput(RecoveryMode::kGoBackN, 10'000);
  const double old_at_5 = goodput(RecoveryMode::kGoBackN, 50'000);
  std::printf("Gbit/s at 0, 1, 5 %% loss: bitmap %.2f %.2f %.2f, go-back-N %.2f %.2f %.2f\n", clean / 1e9, at_1 / 1e9,
              at_5 / 1e9, old_clean / 1e9, old_at_1 / 1e9, old_at_5 / 1e9);
  EXPECT_GT(clean, 8e9) << "10 Gbit/s and 100 us: the engine must fill it";
  EXPECT_GT(at_1, 0.95 * clean);
  EXPECT_GT(at_5, 0.85 * clean);
  EXPECT_GT(at_1, 2 * old_at_1);
}

}  // namespace
}  // namespace brdma::test
