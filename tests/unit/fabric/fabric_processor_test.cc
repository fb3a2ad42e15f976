// tests design WT-8: a switch's own processing. Exact times, its room, and changes of its rate.
#include <gtest/gtest.h>

#include <vector>

#include "fabric/processor.h"

namespace brdma::fabric {
namespace {

constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }

class ProcessorTest : public testing::Test {
 protected:
  bool put(int packet, Duration when) { return processor.accept(packet, at(when)); }
  // Packets that are done, and when.
  std::vector<std::pair<int, std::int64_t>> take(Duration until) {
    std::vector<std::pair<int, std::int64_t>> taken;
    while (const auto done = processor.poll(at(until))) taken.emplace_back(done->item, (done->at - at(0_us)).ns());
    return taken;
  }
  using Taken = std::vector<std::pair<int, std::int64_t>>;
  Processor<int> processor;
};

TEST_F(ProcessorTest, WithoutARatePacketsPassAtOnce) {
  EXPECT_TRUE(processor.passes_at_once());
  EXPECT_FALSE(processor.next_timeout());
  processor.configure(1'000'000);
  EXPECT_FALSE(processor.passes_at_once());
}

TEST_F(ProcessorTest, APacketTakesItsPartOfASecondBehindTheOthers) {
  processor.configure(500'000);
  EXPECT_TRUE(put(1, 0_us) && put(2, 0_us) && put(3, 1_us));
  EXPECT_EQ(processor.next_timeout(), at(2_us));
  EXPECT_EQ(processor.drain(at(1_us)), 5_us);
  EXPECT_EQ(take(2_us - kTick), Taken{});
  EXPECT_EQ(take(5_us), (Taken{{1, 2'000}, {2, 4'000}}));
  EXPECT_EQ(take(1_s), (Taken{{3, 6'000}}));
  EXPECT_TRUE(put(4, 1_s));  // it was idle
  EXPECT_EQ(processor.next_timeout(), at(1_s + 2_us));
  EXPECT_EQ(processor.counters().processed, 4u);
  EXPECT_EQ(processor.counters().longest, 3u);
}

// Three million a second: a third of a microsecond each, without an error that adds up.
TEST_F(ProcessorTest, FractionsOfANanosecondAreCarriedOver) {
  processor.configure(3'000'000);
  for (int i = 1; i <= 900; ++i) ASSERT_TRUE(put(i, 0_us));
  const Taken taken = take(1_s);
  ASSERT_EQ(taken.size(), 900u);
  EXPECT_EQ(taken[0].second, 333);
  EXPECT_EQ(taken[2].second, 1'000);
  EXPECT_EQ(taken[899].second, 300'000);
}

TEST_F(ProcessorTest, WhatFindsNoRoomIsDropped) {
  constexpr int kRoom = static_cast<int>(Processor<int>::kWaitingMax);
  processor.configure(1'000);
  for (int i = 0; i < kRoom; ++i) ASSERT_TRUE(put(i, 0_us));
  EXPECT_FALSE(put(kRoom, 0_us));
  EXPECT_EQ(take(1_ms), (Taken{{0, 1'000'000}}));
  EXPECT_TRUE(put(kRoom, 1_ms));
  EXPECT_FALSE(put(kRoom + 1, 1_ms));
  EXPECT_EQ(processor.counters().dropped, 2u);
  EXPECT_EQ(processor.counters().processed, static_cast<std::uint64_t>(kRoom) + 1);
}

TEST_F(ProcessorTest, OrderIsKeptWhateverTheRateBecomes) {
  processor.configure(1'000);
  EXPECT_TRUE(put(1, 0_us) && put(2, 0_us));
  processor.configure(1'000'000);
  EXPECT_TRUE(put(3, 0_us));
  processor.configure(std::nullopt);
  EXPECT_FALSE(processor.passes_at_once()) << "packets wait: a later one must not overtake them";
  EXPECT_TRUE(put(4, 0_us));
  EXPECT_EQ(take(1_s), (Taken{{1, 1'000'000}, {2, 2'000'000}, {3, 2'001'000}, {4, 2'001'000}}));
  EXPECT_TRUE(processor.passes_at_once());
}

TEST_F(ProcessorTest, WhatIsClearedIsHandedBack) {
  processor.configure(1'000);
  EXPECT_TRUE(put(1, 0_us) && put(2, 0_us));
  std::vector<int> back;
  processor.clear([&back](int packet) { back.push_back(packet); });
  EXPECT_EQ(back, (std::vector{1, 2}));
  EXPECT_FALSE(processor.next_timeout());
}

}  // namespace
}  // namespace brdma::fabric
