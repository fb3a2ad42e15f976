// The queue before a rate: exact times, classes, thresholds, and no byte is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "fabric/switch/output_queue.h"

namespace brdma::fabric {
namespace {

using testing::ElementsAre;

constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }
constexpr Bandwidth kByteAMicrosecond = Bandwidth::from_bps(8'000'000);

TrafficClasses classes(std::vector<std::uint32_t> weights) {
  TrafficClasses classes;
  classes.count = static_cast<std::uint32_t>(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) classes.weights[i] = weights[i];
  return classes;
}

class OutputQueueTest : public testing::Test {
 protected:
  void configure(QueueConfig config) {
    config.rate = kByteAMicrosecond;
    queue.configure(config);
  }
  // Names packets by their class.
  std::optional<Refusal> offer(std::uint8_t traffic_class, std::uint32_t bytes, Duration when = 0_us) {
    while (auto sent = queue.serve(at(when))) served.push_back(*sent);
    const Admission admission = queue.admit(traffic_class, bytes, at(when));
    if (!admission.refused) queue.push(traffic_class, traffic_class, bytes, 0, at(when));
    return admission.refused;
  }
  std::vector<int> order(Duration until = 1_s) {
    std::vector<int> packets;
    while (auto sent = queue.serve(at(until))) served.push_back(*sent);
    for (const auto& sent : served) packets.push_back(sent.packet);
    served.clear();
    return packets;
  }
  OutputQueue<int> queue{1, "test"};
  std::vector<OutputQueue<int>::Sent> served;
};

TEST_F(OutputQueueTest, StrictClassesGoFirstButDoNotInterrupt) {
  configure({.classes = classes({0, 0, 1})});
  for (const int each : {2, 2, 1, 0, 1, 0}) EXPECT_FALSE(offer(static_cast<std::uint8_t>(each), 1000));
  EXPECT_THAT(order(), ElementsAre(2, 0, 0, 1, 1, 2));
}

TEST_F(OutputQueueTest, TimesAreThoseOfTheTransmitterHoweverLateOneAsks) {
  configure({.classes = classes({0, 1})});
  (void)offer(1, 1000);
  (void)offer(1, 500);
  (void)offer(0, 100, 200_us);
  (void)order(0_us);
  (void)offer(1, 10, 5_ms);
  while (auto sent = queue.serve(at(5_ms))) served.push_back(*sent);
  std::vector<std::int64_t> left;
  for (const auto& sent : served) left.push_back((sent.at - at(0_us)).ns() / 1000);
  EXPECT_THAT(left, ElementsAre(1100, 1600, 5010));
}

TEST_F(OutputQueueTest, WeightsShareBytesWhateverThePacketsSizes) {
  configure({.bytes = 1 << 24, .classes = classes({3, 1})});
  for (int i = 0; i < 4000; ++i) (void)offer(0, 300);
  for (int i = 0; i < 300; ++i) (void)offer(1, 4000);
  std::map<int, std::uint64_t> bytes;
  while (auto sent = queue.serve(at(1_s))) {  // both have 1.2 MB: the first is through when the second has 0.4
    bytes[sent->packet] += sent->bytes;
    if (bytes[0] >= 1'000'000) break;
  }
  EXPECT_NEAR(static_cast<double>(bytes[0]) / static_cast<double>(bytes[1]), 3.0, 0.1);
}

TEST_F(OutputQueueTest, AClassThatWasIdleSavesNothingUp) {
  configure({.bytes = 1 << 24, .classes = classes({1, 1})});
  for (int i = 0; i < 100; ++i) (void)offer(0, 1000);
  (void)order(50'000_us);
  for (int i = 0; i < 100; ++i) (void)offer(1, 1000, 50'000_us);
  const std::vector<int> then = order();
  EXPECT_NEAR(static_cast<double>(std::count(then.begin(), then.begin() + 40, 1)), 20, 5);
}

TEST_F(OutputQueueTest, EachClassHasAQueueOfItsOwn) {
  configure({.bytes = 3000, .classes = classes({0, 1})});
  for (int i = 0; i < 4; ++i) (void)offer(1, 1000);
  EXPECT_EQ(offer(1, 1000), Refusal::kQueueFull);
  EXPECT_FALSE(offer(0, 1000));
  EXPECT_EQ(queue.counters(1).dropped, 2u);  // one is in transmission and counts
  EXPECT_EQ(queue.counters(0).packets, 1u);
}

TEST_F(OutputQueueTest, RandomDropFollowsItsCurve) {
  configure({.bytes = 1 << 20, .random_drop = MarkingConfig{10'000, 20'000, 500'000}});
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(offer(0, 1000));
  int dropped = 0;
  for (int i = 0; i < 10'000 && queue.occupied() < 20'000; ++i) dropped += offer(0, 10) ? 1 : 0;
  EXPECT_NEAR(dropped, 384, 100);  // of 1,000 that pass at chances from 0 to a half: 1000 (2 ln 2 - 1)
  EXPECT_EQ(offer(0, 10), Refusal::kRandom);
}

TEST_F(OutputQueueTest, QueuesThatShareABufferTakeAlphaOfWhatIsFree) {
  SharedBuffer buffer;
  buffer.configure({100'000, 1000});
  OutputQueue<int> second{1, "second"};
  queue.share(&buffer);
  second.share(&buffer);
  configure({.bytes = 1 << 20});
  second.configure({.rate = kByteAMicrosecond, .bytes = 1 << 20});
  while (!offer(0, 100)) {
  }
  EXPECT_EQ(queue.occupied(), 50'000u);  // alone: alpha / (1 + alpha)
  EXPECT_EQ(offer(0, 100), Refusal::kBufferFull);
  std::uint64_t taken = 0;
  for (; !second.admit(0, 100, at(0_us)).refused; taken += 100) second.push(0, 0, 100, 0, at(0_us));
  EXPECT_EQ(taken, 25'000u);  // of the 50,000 that were free
  EXPECT_EQ(buffer.used(), 75'000u);
  (void)order();
  EXPECT_EQ(buffer.used(), 25'000u);
  second.clear([](int) {});
  EXPECT_EQ(buffer.used(), 0u);
}

// A byte takes 2 2/3 ns: what was waiting when the queue was cleared has no part in later departures.
TEST(OutputQueueTimes, AClearedQueueGoesOnFromTheEndOfItsTransmission) {
  OutputQueue<int> queue{1, "test"};
  queue.configure({.rate = Bandwidth::from_bps(3'000'000'000)});
  const auto push = [&queue](int packet) { queue.push(packet, 0, 1, 0, at(0_us)); };
  push(1);
  ASSERT_TRUE(queue.serve(at(0_us)));
  push(2);
  queue.clear([](int) {});
  push(3);
  push(4);
  const Duration drain = queue.drain(at(0_us));
  EXPECT_EQ(drain, 8_ns);  // three bytes
  (void)queue.serve(at(1_us));
  const auto last = queue.serve(at(1_us));
  ASSERT_TRUE(last);
  EXPECT_EQ(last->at - at(0_us), drain);
}

// Bytes in = out + waiting, and refused packets are counted; order within a class is kept; no class starves.
TEST(OutputQueueProperty, NothingIsLostOrInvented) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random{seed};
    SharedBuffer buffer;
    buffer.configure({20'000 + random.below(100'000), static_cast<std::uint32_t>(100 + random.below(4000))});
    OutputQueue<int> queue{seed, "property"};
    queue.share(&buffer);
    QueueConfig config{.rate = Bandwidth::from_bps(1 + random.below(1'000'000'000)), .bytes = random.below(100'000)};
    std::vector<std::uint32_t> weights;
    for (std::uint64_t i = 0; i <= random.below(8); ++i) weights.push_back(static_cast<std::uint32_t>(random.below(4)));
    config.classes = classes(weights);
    if (random.below(2) != 0)
      config.random_drop = MarkingConfig{random.below(5'000), 5'000 + random.below(50'000), 300'000};
    queue.configure(config);
    std::uint64_t in = 0, out = 0, refused = 0, count = 0;
    std::vector<int> last(kClassesMax, -1);
    Instant now = at(0_us), left = now;
    const auto serve = [&] {
      while (auto sent = queue.serve(now)) {
        out += sent->bytes;
        EXPECT_GE(sent->at, left);
        left = sent->at;
        EXPECT_GT(sent->packet, last[sent->tag]) << "seed " << seed;
        last[sent->tag] = sent->packet;
      }
    };
    for (int i = 0; i < 2000; ++i) {
      now = now + Duration::from_ns(static_cast<std::int64_t>(random.below(200'000)));
      serve();
      const auto place = static_cast<std::uint8_t>(random.below(config.classes.count));
      const auto bytes = static_cast<std::uint32_t>(1 + random.below(9000));
      if (queue.admit(place, bytes, now).refused) {
        ++refused;
        continue;
      }
      in += bytes;
      ++count;
      queue.push(i, place, bytes, place, now);
      EXPECT_LE(buffer.used(), buffer.config().bytes);
    }
    std::uint64_t waiting = 0, dropped = 0, packets = 0;
    for (std::size_t i = 0; i < config.classes.count; ++i) {
      waiting += queue.counters(i).waiting;
      dropped += queue.counters(i).dropped;
      packets += queue.counters(i).packets;
    }
    EXPECT_EQ(in, out + waiting) << "seed " << seed;
    EXPECT_EQ(dropped, refused);
    EXPECT_EQ(packets, count);
    now = now + 1'000'000_s;
    serve();
    EXPECT_EQ(in, out);
    EXPECT_EQ(buffer.used(), 0u);
  }
}

}  // namespace
}  // namespace brdma::fabric
