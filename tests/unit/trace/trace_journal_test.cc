// trace/journal.h: the ring of rare events, its limits, and a concurrent reader.
#include <gtest/gtest.h>

#include <memory>

#include "trace/journal.h"

namespace brdma::trace {
namespace {

constexpr Instant kStart = Instant::from_ns(1'000'000);

class JournalTest : public testing::Test {
 protected:
  std::vector<EventRecord> read() {
    std::vector<EventRecord> records;
    missing += read_events(*ring, ring->read, records);
    return records;
  }
  std::unique_ptr<EventRing> ring = std::make_unique<EventRing>();
  Statistics statistics;
  Journal journal{*ring, statistics};
  std::uint64_t missing = 0;
};

TEST_F(JournalTest, WhatWasRecordedIsReadOnceInOrder) {
  journal.record(kStart, 7, EventType::kBitmapAgreed, {4096, 0, 0});
  journal.record(kStart + 1_us, 7, EventType::kGapPromoted, {1003, 1, 2});
  const auto records = read();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].type, EventType::kBitmapAgreed);
  EXPECT_EQ(records[0].values[0], 4096u);
  EXPECT_EQ(records[1].qpn, 7u);
  EXPECT_EQ(records[1].when_ns, 1'001'000);
  EXPECT_TRUE(read().empty());
  EXPECT_EQ(missing, 0u);
  EXPECT_EQ(statistics.get(Counter::kEventsRecorded), 2u);
}

TEST_F(JournalTest, KindsThatComeWithLossesAreLimitedAndCounted) {
  for (unsigned i = 0; i < Journal::kWithLossesMax + 5; ++i) journal.record(kStart, 7, EventType::kFfmSent, {i, 1, 0});
  EXPECT_EQ(read().size(), Journal::kWithLossesMax);
  EXPECT_EQ(statistics.get(Counter::kEventsSuppressed), 5u);
  journal.record(kStart, 7, EventType::kQpState, {3, 6, 0});  // rare ones pass
  EXPECT_EQ(read().size(), 1u);
  journal.record(kStart + Journal::kLimitPeriod, 7, EventType::kFfmSent, {1, 1, 0});
  EXPECT_EQ(read().size(), 1u);
}

TEST_F(JournalTest, KindsThatComeWithTheLoadAreLimitedByThemselves) {
  for (unsigned i = 0; i < 10; ++i) journal.record(kStart, 7, EventType::kWindowGrown, {0, 640, 0});
  for (unsigned i = 0; i < 10; ++i) journal.record(kStart, 7, EventType::kWindowShrunk, {1, 128, 0});
  EXPECT_EQ(read().size(), Journal::kWithLoadMax);
  journal.record(kStart, 7, EventType::kGapPromoted, {1003, 1, 2});
  EXPECT_EQ(read().size(), 1u);
  EXPECT_EQ(statistics.get(Counter::kEventsSuppressed), 20u - Journal::kWithLoadMax);
  journal.record(kStart + Journal::kLimitPeriod, 7, EventType::kWindowGrown, {0, 640, 0});
  EXPECT_EQ(read().size(), 1u);
}

TEST_F(JournalTest, KindsThatComeWithLossesNeverTakeThePlaceOfRareOnes) {
  journal.record(kStart, 7, EventType::kBitmapAgreed, {});
  for (unsigned i = 0; i < 100 * EventRing::kRecords; ++i)
    journal.record(kStart + 10_ms * i, 7, EventType::kGapPromoted, {i, 1, 1});
  const auto records = read();
  ASSERT_EQ(records.size(), EventRing::kRecords / 2);
  EXPECT_EQ(records[0].type, EventType::kBitmapAgreed);
  EXPECT_EQ(missing, 0u);
  journal.record(kStart + 3600_s, 7, EventType::kGapPromoted, {1, 1, 1});
  EXPECT_EQ(read().size(), 1u) << "what has been read makes room";
}

// An operator's command is on record however much is lost meanwhile, and whether the daemon has read or not.
TEST_F(JournalTest, CommandsOfAnOperatorHaveAPlaceOfTheirOwn) {
  for (unsigned i = 0; i < 100 * EventRing::kRecords; ++i)
    journal.record(kStart + 10_ms * i, 7, EventType::kGapPromoted, {i, 1, 1});
  journal.record(kStart + 3600_s, 7, EventType::kRetransmitRequested, {1003, 1, 1});
  journal.record(kStart + 3600_s, 7, EventType::kGapsQueried, {1, 0, 0});
  auto records = read();
  ASSERT_EQ(records.size(), EventRing::kRecords / 2 + 2);
  EXPECT_EQ(records[records.size() - 2].type, EventType::kRetransmitRequested);
  EXPECT_EQ(records.back().type, EventType::kGapsQueried);

  // A script that asks all the time takes no rare event's place.
  journal.record(kStart + 3601_s, 7, EventType::kBitmapAgreed, {});
  for (unsigned i = 0; i < 100 * EventRing::kRecords; ++i)
    journal.record(kStart + 3601_s + 1_ms * i, 7, EventType::kGapsQueried, {i, 0, 0});
  records = read();
  EXPECT_EQ(records.size(), EventRing::kRecords * 3 / 4);
  EXPECT_EQ(records[0].type, EventType::kBitmapAgreed);
}

TEST_F(JournalTest, CommandsOfAnOperatorAreLimitedByThemselves) {
  for (unsigned i = 0; i < Journal::kByHandMax + 5; ++i) journal.record(kStart, 7, EventType::kGapsQueried, {i, 0, 0});
  EXPECT_EQ(read().size(), Journal::kByHandMax);
  EXPECT_EQ(statistics.get(Counter::kEventsSuppressed), 5u);
  for (unsigned i = 0; i < Journal::kWithLossesMax; ++i) journal.record(kStart, 7, EventType::kFfmSent, {i, 1, 0});
  EXPECT_EQ(read().size(), Journal::kWithLossesMax);
}

TEST_F(JournalTest, TheOldestGiveWayAndAreCounted) {
  for (unsigned i = 0; i < EventRing::kRecords + 3; ++i) journal.record(kStart, i, EventType::kQpState, {});
  EXPECT_EQ(statistics.get(Counter::kEventsOverwritten), 3u);
  const auto records = read();
  ASSERT_EQ(records.size(), EventRing::kRecords);
  EXPECT_EQ(records[0].qpn, 3u);
  EXPECT_EQ(missing, 3u);
}

TEST_F(JournalTest, ARingThatLiesIsReadWithoutHarm) {
  ring->head = ~std::uint64_t{0};
  EXPECT_TRUE(read().empty());
  ring->head = 5;
  EXPECT_TRUE(read().empty());
  ring->records[5 % EventRing::kRecords].number = 6;
  ring->records[5 % EventRing::kRecords].type = static_cast<EventType>(9999);
  ring->head = 6;
  EXPECT_TRUE(read().empty());
}

}  // namespace
}  // namespace brdma::trace
