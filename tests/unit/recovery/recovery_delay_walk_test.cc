// tests design WT-4, WT-5 - mean and deviation of the last N send delays, and the walk over sent and
// unacknowledged packets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <set>
#include <vector>

#include "base/random.h"
#include "recovery/delay_judge.h"

namespace brdma::recovery {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(DelayStatistics, MeanAndDeviationOfTheLastN) {
  DelayStatistics delays{4};
  EXPECT_EQ(delays.mean(), Duration{});
  EXPECT_EQ(delays.deviation(), Duration{});
  for (const Duration delay : {2_us, 4_us, 4_us, 6_us}) delays.add(delay);
  EXPECT_EQ(delays.mean(), 4_us);
  EXPECT_EQ(delays.deviation(), Duration::from_ns(1414));  // sqrt(2) us
  delays.add(10_us);                                       // 4 4 6 10: the first has gone
  EXPECT_EQ(delays.mean(), 6_us);
  EXPECT_EQ(delays.deviation(), Duration::from_ns(2449));
}

TEST(DelayStatistics, EqualsTheDefinition) {
  Random random{7, "delays"};
  DelayStatistics delays{100};
  std::deque<double> last;
  for (int i = 0; i < 2000; ++i) {
    const auto ns = static_cast<std::int64_t>(random.below(i % 3 == 0 ? 60'000'000'000 : 1000));
    delays.add(Duration::from_ns(ns));
    last.push_back(static_cast<double>(ns));
    if (last.size() > 100) last.pop_front();
    double mean = 0, spread = 0;
    for (const double value : last) mean += value / static_cast<double>(last.size());
    for (const double value : last) spread += (value - mean) * (value - mean) / static_cast<double>(last.size());
    EXPECT_NEAR(static_cast<double>(delays.mean().ns()), mean, 2);
    EXPECT_NEAR(static_cast<double>(delays.deviation().ns()), std::sqrt(spread), 2 + std::sqrt(spread) * 1e-6);
  }
}

TEST(DelayStatistics, LongDelaysAreBounded) {
  DelayStatistics delays{2};
  delays.add(1000_s);
  delays.add(Duration::from_ns(-5));
  EXPECT_EQ(delays.mean(), Duration::from_ns(DelayStatistics::kDelayMax.ns() / 2));
}

// The sender's knowledge: the newest transmission of each packet, and the acknowledged packets.
class DelayJudgeTest : public testing::Test {
 protected:
  static constexpr DelayJudge::Limits kLimits{.interval = 1_us, .silent_wait = 30_us};

  void send(std::uint64_t sequence, Duration at) {
    judge_.sent(sequence, Instant{} + at);
    if (newest_.size() <= sequence) newest_.resize(sequence + 1);
    newest_[sequence].at = Instant{} + at;
    newest_[sequence].again = newest_[sequence].sent;
    newest_[sequence].sent = true;
  }
  void acknowledge(std::uint64_t sequence, Duration at) {
    newest_[sequence].acknowledged = true;
    judge_.delivered(newest_[sequence].at, newest_[sequence].again, Instant{} + at);
    judge_.on_echo(std::nullopt);
  }
  std::vector<std::uint64_t> overdue(Duration at) {
    std::vector<std::uint64_t> found;
    judge_.walk(
        kLimits, Instant{} + at, [this](std::uint64_t sequence, Instant sent) { return open(sequence, sent); },
        [&](std::uint64_t sequence) { found.push_back(sequence); });
    return found;
  }
  void trim() {
    judge_.trim([this](std::uint64_t sequence, Instant sent) { return open(sequence, sent); });
  }
  bool open(std::uint64_t sequence, Instant sent) {
    ++looks_;
    return !newest_[sequence].acknowledged && newest_[sequence].at == sent;
  }

  struct Packet {
    Instant at;
    bool sent = false, again = false, acknowledged = false;
  };
  DelayJudge judge_{2};
  std::vector<Packet> newest_;
  std::size_t looks_ = 0;
};

// T 12, delta 2: packets that waited 14 us are overdue.
TEST_F(DelayJudgeTest, NamesWhatHasWaitedForTAndDelta) {
  for (std::uint64_t i = 0; i < 6; ++i) send(i, 1_us * static_cast<std::int64_t>(i));
  EXPECT_THAT(overdue(9_us), IsEmpty());  // nothing is known of delays
  acknowledge(0, 10_us);
  acknowledge(4, 18_us);
  EXPECT_EQ(judge_.wait(), 14_us);
  EXPECT_EQ(judge_.walk_at(kLimits), Instant{} + 14_us);  // 0's; it is not trimmed yet
  trim();
  EXPECT_EQ(judge_.walk_at(kLimits), Instant{} + 15_us);
  EXPECT_THAT(overdue(15_us - kTick), IsEmpty());
  EXPECT_THAT(overdue(16_us), ElementsAre(1, 2));
  EXPECT_THAT(overdue(16_us), IsEmpty());  // each transmission once
  EXPECT_THAT(overdue(17_us), ElementsAre(3));
  // Of packets that left after the newest arrived one nobody knows whether they are lost or late.
  EXPECT_THAT(overdue(34_us), IsEmpty());
  EXPECT_EQ(judge_.walk_at(kLimits), Instant{} + 35_us);
  EXPECT_THAT(overdue(35_us), ElementsAre(5));
  EXPECT_EQ(judge_.walk_at(kLimits), std::nullopt);
}

TEST_F(DelayJudgeTest, ARetransmissionWaitsFromItsOwnTime) {
  send(0, 0_us);
  send(1, 1_us);
  send(2, 2_us);
  send(0, 5_us);  // for another reason
  send(3, 6_us);
  acknowledge(2, 12_us);
  acknowledge(3, 16_us);  // T 10, delta 0
  EXPECT_THAT(overdue(12_us), ElementsAre(1));
  EXPECT_THAT(overdue(15_us), ElementsAre(0));
}

// The delay of a packet that was sent twice is unknown, except that it was sent before an arrived one.
TEST_F(DelayJudgeTest, DelaysOfRetransmissionsDoNotCount) {
  send(0, 0_us);
  send(0, 5_us);
  acknowledge(0, 6_us);
  EXPECT_EQ(judge_.wait(), std::nullopt);
  send(1, 10_us);
  send(2, 20_us);
  acknowledge(2, 30_us);
  judge_.on_echo(Instant{} + 40_us);
  EXPECT_THAT(overdue(30_us), ElementsAre(1));
}

TEST_F(DelayJudgeTest, WalksOnceInAnInterval) {
  for (std::uint64_t i = 0; i < 4; ++i) send(i, Duration::from_ns(static_cast<std::int64_t>(i) * 100));
  acknowledge(3, 20_us);  // T 19.7
  EXPECT_THAT(overdue(Duration::from_ns(19'750)), ElementsAre(0));
  EXPECT_EQ(judge_.walk_at(kLimits), Instant{} + Duration::from_ns(20'750));  // 1 was due at 19.8
  EXPECT_THAT(overdue(Duration::from_ns(20'750)), ElementsAre(1, 2));
}

// A path that falls silent: a limited number of packets is sent into it.
TEST_F(DelayJudgeTest, ASilentPathGetsFew) {
  send(0, 0_us);
  acknowledge(0, 10_us);
  for (std::uint64_t i = 1; i < 500; ++i) send(i, 20_us);
  EXPECT_EQ(overdue(1_ms).size(), DelayJudge::kSilentMax);
  EXPECT_THAT(overdue(2_ms), IsEmpty());
  EXPECT_EQ(judge_.walk_at(kLimits), std::nullopt);
  judge_.on_echo(Instant{} + 2_ms);  // a later packet has arrived: all the rest is lost
  EXPECT_EQ(overdue(2_ms).size(), 499 - DelayJudge::kSilentMax);
}

// A READ is acknowledged by its responses: no acknowledgement comes that could end the silence before it.
TEST_F(DelayJudgeTest, ASilenceEndsWithAResponseToo) {
  judge_.delivered(Instant{}, false, Instant{} + 10_us);
  for (std::uint64_t i = 0; i < 100; ++i) send(i, 20_us);
  EXPECT_EQ(overdue(1_ms).size(), DelayJudge::kSilentMax);
  for (std::uint64_t i = 0; i < 100; ++i) newest_[i].acknowledged = true;
  judge_.delivered(Instant{} + 20_us, true, Instant{} + 2_ms);
  trim();
  send(100, 2_ms);
  EXPECT_THAT(overdue(2_ms + 30_us), ElementsAre(100));
}

// However long it lasts, it ends with times that can be waited for.
TEST_F(DelayJudgeTest, TheWaitInASilenceIsBounded) {
  send(0, 0_us);
  acknowledge(0, 10_us);
  trim();
  Duration at = 20_us;
  send(1, at);
  for (std::uint32_t i = 0; i < DelayJudge::kSilentMax; ++i) {
    ASSERT_TRUE(judge_.walk_at(kLimits));
    const Duration next = *judge_.walk_at(kLimits) - Instant{};
    EXPECT_LE(next - at, kLimits.silent_wait * 1024);
    at = next;
    ASSERT_THAT(overdue(at), ElementsAre(1));
    send(1, at);
  }
  EXPECT_EQ(judge_.walk_at(kLimits), std::nullopt);
}

// It may last: the wait doubles with each time that the same packets are sent into it (random world 6805).
TEST_F(DelayJudgeTest, ASilenceDoublesTheWaitOfWhatHasLeftInIt) {
  send(0, 0_us);
  acknowledge(0, 10_us);
  send(1, 20_us);
  send(2, 35_us);
  EXPECT_THAT(overdue(50_us), ElementsAre(1));
  send(1, 50_us);
  EXPECT_THAT(overdue(65_us), ElementsAre(2)) << "for the first time";
  send(2, 65_us);
  EXPECT_EQ(judge_.walk_at(kLimits), Instant{} + 110_us);
  EXPECT_THAT(overdue(109_us), IsEmpty());
  EXPECT_THAT(overdue(110_us), ElementsAre(1));
  send(1, 110_us);
  EXPECT_THAT(overdue(125_us), ElementsAre(2));
  send(2, 125_us);
  EXPECT_THAT(overdue(229_us), IsEmpty());
  EXPECT_THAT(overdue(230_us), ElementsAre(1));
  judge_.on_echo(std::nullopt);  // an acknowledgement ends it
  send(1, 230_us);
  EXPECT_THAT(overdue(245_us), ElementsAre(2));
  EXPECT_THAT(overdue(260_us), ElementsAre(1));
}

// Any order of sending, losing and acknowledging: the result equals the definition, which examines all.
TEST_F(DelayJudgeTest, EqualsTheDefinition) {
  Random random{11, "walks"};
  std::set<std::uint64_t> out;
  std::optional<Instant> newest;
  std::size_t named = 0;
  for (std::int64_t step = 0; step < 20'000; ++step) {
    const Duration now = 1_us * step;
    if (random.below(2) == 0) {
      const std::uint64_t first = newest_.size();
      for (std::uint64_t i = 0; i <= random.below(4); ++i) {
        send(first + i, now);
        out.insert(first + i);
      }
    }
    for (auto at = out.begin(); at != out.end();) {
      Packet& packet = newest_[*at];
      // A tenth is lost; delays are between 20 and 24 us.
      const bool arrives =
          packet.at.ns() % 64 % 10 != 0 && Instant{} + now - packet.at >= 20_us && random.below(4) == 0;
      if (!arrives) {
        ++at;
        continue;
      }
      if (!packet.again && (!newest || packet.at > *newest)) newest = packet.at;
      acknowledge(*at, now);
      at = out.erase(at);
    }
    if (random.below(3) == 0) trim();
    if (step % 7 != 0 || !judge_.wait()) continue;
    std::vector<std::uint64_t> expected;
    for (const std::uint64_t sequence : out) {
      const Instant at = newest_[sequence].at;
      if (newest && at < *newest && Instant{} + now - at >= *judge_.wait()) expected.push_back(sequence);
    }
    std::vector<std::uint64_t> found;
    judge_.walk(
        {.interval = 1_us, .silent_wait = 1_s}, Instant{} + now,
        [this](std::uint64_t sequence, Instant sent) { return open(sequence, sent); },
        [&](std::uint64_t sequence) { found.push_back(sequence); });
    EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected)) << step;
    for (const std::uint64_t sequence : found) send(sequence, now);
    named += found.size();
  }
  EXPECT_GT(named, 1000u);
}

// 300,000 packets in flight (100 Gbit/s x 100 ms), one of which is lost: the cost of a walk does not grow with them.
TEST_F(DelayJudgeTest, CostsNothingForWhatIsNotOverdue) {
  constexpr std::uint64_t kWindow = 300'000;
  for (std::uint64_t i = 0; i < kWindow; ++i) send(i, Duration::from_ns(static_cast<std::int64_t>(i) * 330));
  acknowledge(64, Duration::from_ns(100'000'000 + 64 * 330));
  looks_ = 0;
  EXPECT_THAT(overdue(99_ms), IsEmpty());
  EXPECT_EQ(looks_, 0u);
  for (std::uint64_t i = 0; i < 64; ++i) {
    if (i != 3) acknowledge(i, Duration::from_ns(100'000'000 + static_cast<std::int64_t>(i) * 330));
  }
  EXPECT_THAT(overdue(Duration::from_ns(100'000'000 + 3 * 330)), ElementsAre(3));
  trim();
  EXPECT_LE(looks_, 65u + 4);
  EXPECT_EQ(judge_.logged_runs(), kWindow - 65);  // acknowledged packets have left the log
}

// Batches are one entry each, of which single packets may be done with.
TEST_F(DelayJudgeTest, ABatchIsOneEntry) {
  for (std::uint64_t i = 0; i < 64; ++i) send(i, 1_us);
  for (std::uint64_t i = 64; i < 128; ++i) send(i, 2_us);
  EXPECT_EQ(judge_.logged_runs(), 2u);
  for (std::uint64_t i = 0; i < 128; ++i) {
    if (i != 5 && i != 9 && i != 40) acknowledge(i, 11_us);
  }
  trim();
  EXPECT_EQ(judge_.logged_runs(), 2u);  // the first is not done with
  EXPECT_THAT(overdue(20_us), ElementsAre(5, 9, 40));
  trim();
  EXPECT_EQ(judge_.logged_runs(), 0u);
}

}  // namespace
}  // namespace brdma::recovery
