// The windows' bitmaps in use by the engine: memory follows the data in flight. tests design BR-33, BR-37
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "qp/receive/responder.h"
#include "support/two_engines.h"
#include "trace/journal.h"

namespace brdma::test {
namespace {

PairOptions large() {
  PairOptions options;
  options.mtu = PathMtu::k256;
  options.one_way_delay = 1_ms;
  options.receive_packets = 1u << 16;
  options.receive_bytes = 64u << 20;
  options.recovery.window_packets = 1u << 20;
  return options;
}

class Windows : public testing::Test {
 protected:
  static QueuePairReport report(TwoEngines& pair, int i) {
    return pair.side[i].engine->report(pair.side[i].engine->qp_num(pair.side[i].qp)).value();
  }
};

TEST_F(Windows, AnIdleQueuePairTakesNothing) {
  TwoEngines pair{large()};
  for (int i = 0; i < 2; ++i) {
    const QueuePairReport now = report(pair, i);
    EXPECT_EQ(now.send_bitmap.bytes + now.receive_bitmap.bytes, 0u);
    EXPECT_EQ(now.state_bytes, 0u);
    EXPECT_FALSE(now.send_bitmap.segmented);
    EXPECT_EQ(now.send_bitmap.base, 128u);
    EXPECT_EQ(now.send_bitmap.length, 128u);
    EXPECT_EQ(now.send_bitmap.window, 1u << 20);
  }
}

TEST_F(Windows, BitmapsFollowWhatIsInFlight) {
  TwoEngines pair{large()};
  std::memset(pair.side[0].memory.data(), 0x5A, TwoEngines::kMemory);
  pair.drop = [](const Sent& sent) { return sent.data() && sent.copy == 1 && sent.psn() % 500 == 3; };
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(pair.post(0, pair.write(0, 0, 1u << 20, static_cast<std::uint64_t>(i))).ok());
  std::uint32_t longest = 0;
  for (int i = 0; i < 4000 && pair.poll(0).size() < 4; ++i) {
    pair.run_for(50_us);
    const QueuePairReport sender = report(pair, 0), receiver = report(pair, 1);
    longest = std::max(longest, sender.send_bitmap.length);
    const std::uint32_t in_flight = sender.unacked;
    if (sender.send_bitmap.segmented) {
      ASSERT_LE(sender.send_bitmap.bytes,
                4096u * sender.send_bitmap.segments + 8u * sender.send_bitmap.length / 512 + 8192);
      ASSERT_GE(sender.send_bitmap.length, in_flight);
    }
    ASSERT_LE(receiver.receive_bitmap.bytes, 16'384u);
  }
  pair.run_until_idle();
  EXPECT_GT(longest, 1024u) << "the load asked for more than the base length";
  EXPECT_EQ(pair.side[0].memory, pair.side[1].memory);
  for (int i = 0; i < 2; ++i) {
    EXPECT_LE(report(pair, i).state_bytes, 192u) << "at most short directories stay";
    EXPECT_EQ(report(pair, i).gaps, 0u);
  }
  const RecoveryStatus status = pair.side[0].engine->recovery_status();
  EXPECT_EQ(status.queue_pairs, 1u);
  EXPECT_EQ(status.segments, 0u);
  EXPECT_GT(status.pool_bytes, 4096u) << "for the next load";
}

// Each side's operator can see how long its windows became, and when they were short again.
TEST_F(Windows, TheirLengthIsAnEvent) {
  trace::EventRing rings[2];
  TwoEngines pair{large()};
  std::optional<trace::Journal> journals[2];
  for (int i = 0; i < 2; ++i) {
    journals[i].emplace(rings[i], pair.side[i].statistics);
    pair.side[i].engine->set_journal(&*journals[i]);
  }
  // The first packet is lost, so that the receiver's window grows as far as the sender's.
  pair.drop = [first = true](const Sent& sent) mutable { return sent.data() && std::exchange(first, false); };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 1u << 20, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  for (const auto& [i, side] : {std::pair{0, trace::WindowSide::kSend}, std::pair{1, trace::WindowSide::kReceive}}) {
    std::vector<trace::EventRecord> records;
    EXPECT_EQ(trace::read_events(rings[i], rings[i].read, records), 0u);
    std::erase_if(records, [](const trace::EventRecord& record) {
      return record.type != trace::EventType::kWindowGrown && record.type != trace::EventType::kWindowShrunk;
    });
    ASSERT_FALSE(records.empty()) << "side " << i;
    EXPECT_EQ(records.front().type, trace::EventType::kWindowGrown);
    EXPECT_EQ(records.front().qpn, pair.side[i].engine->qp_num(pair.side[i].qp));
    EXPECT_EQ(records.front().values[0], static_cast<std::uint64_t>(side));
    EXPECT_GT(records.front().values[1], 128u);
    EXPECT_LE(records.size(), trace::Journal::kWithLoadMax) << "within one period";
  }
}

TEST_F(Windows, ThatTheyAreShortAgainIsAnEventToo) {
  trace::EventRing ring;
  TwoEngines pair{large()};
  trace::Journal journal{ring, pair.side[0].statistics};
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 1u << 20, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_GT(report(pair, 0).send_bitmap.length, 128u) << "the next load may be as large";
  pair.side[0].engine->set_journal(&journal);
  for (std::uint64_t i = 0; i < 64 && report(pair, 0).send_bitmap.length > 128; ++i) {
    ASSERT_TRUE(pair.post(0, pair.write(0, 0, 256, i)).ok());
    ASSERT_TRUE(pair.run_until_idle());
  }
  std::vector<trace::EventRecord> records;
  trace::read_events(ring, ring.read, records);
  ASSERT_FALSE(records.empty());
  EXPECT_EQ(records.back().type, trace::EventType::kWindowShrunk);
  EXPECT_EQ(records.back().values[1], 128u);
}

// A peer's use of our memory is bounded: beyond the limit early packets are dropped, counted, and come again.
TEST_F(Windows, TheStateOfAQueuePairIsBounded) {
  PairOptions options = large();
  options.recovery.state_bytes_max = 1u << 16;
  TwoEngines pair{options};
  std::memset(pair.side[0].memory.data(), 0x77, TwoEngines::kMemory);
  pair.drop = [](const Sent& sent) { return sent.data() && sent.copy == 1 && sent.psn() == 1300; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 1u << 20, 1)).ok());
  std::size_t most = 0;
  for (int i = 0; i < 400; ++i) {
    pair.run_for(50_us);
    most = std::max(most, report(pair, 1).state_bytes);
  }
  pair.run_until_idle();
  EXPECT_EQ(pair.side[0].memory, pair.side[1].memory);
  EXPECT_LE(most, (1u << 15) + 4096);
  EXPECT_GT(pair.side[1].count(DropReason::kStateFull), 0u);
}

// No further packet comes: the engine's own timer names the first instant after 50 us, and at that the gap is lost.
TEST_F(Windows, AGapIsPromotedByItsAgeAtTheFirstInstantAfterTheLimit) {
  TwoEngines pair;
  Engine& receiver = *pair.side[1].engine;
  pair.drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1001 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 3 * 1024, 1)).ok());
  Instant seen;
  for (int i = 0; i < 1000 && report(pair, 1).gaps == 0; ++i) pair.run_for(kTick * 10);
  ASSERT_EQ(report(pair, 1).gaps, 1u);
  seen = receiver.open_gaps(report(pair, 1).qpn, pair.now).at(0).first_seen;
  const auto promoted = [&pair] { return pair.side[1].count(Counter::kGapsPromotedAge); };
  ASSERT_LT(pair.now, seen + 50_us);
  EXPECT_LE(*receiver.next_timeout(), seen + 50_us + kTick);
  pair.run_for(seen + 50_us - pair.now);
  EXPECT_EQ(promoted(), 0u) << "at the limit it still waits";
  EXPECT_EQ(*receiver.next_timeout(), seen + 50_us + kTick);
  pair.run_for(kTick);
  EXPECT_EQ(promoted(), 1u);
  EXPECT_EQ(pair.side[1].count(Counter::kFfmSent), 1u);
}

}  // namespace
}  // namespace brdma::test
