// Statistics as JSON and arithmetic on them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "control/statistics.h"

namespace brdma::control {
namespace {

Statistics numbered(std::uint64_t first) {
  Statistics statistics;
  for (auto& word : statistics.counters) word = first++;
  for (auto& word : statistics.drops) word = first++;
  return statistics;
}

TEST(ControlStatistics, JsonHasEveryCounterUnderItsNameInOrder) {
  const Statistics statistics = numbered(100);
  const auto object = to_json(statistics);
  ASSERT_EQ(object.size(), kCounterCount + kDropReasonCount);
  EXPECT_EQ(object.begin().key(), kCounterNames[0]);
  EXPECT_EQ(object["sent_pkts"], 100);
  EXPECT_EQ(object["rcvd_pkts"], 101);
  EXPECT_EQ(object["retransmitted_by_ffm"], statistics.get(Counter::kRetransmittedFfm));
  EXPECT_EQ(object["drop_bad_icrc"], statistics.get(DropReason::kBadIcrc));
}

TEST(ControlStatistics, NamesAreUnique) {
  std::set<std::string_view> names(std::begin(kCounterNames), std::end(kCounterNames));
  names.insert(std::begin(kDropReasonNames), std::end(kDropReasonNames));
  EXPECT_EQ(names.size(), kCounterCount + kDropReasonCount);
}

TEST(ControlStatistics, JsonReadsBack) {
  const Statistics statistics = numbered(1ull << 60);
  Statistics back;
  ASSERT_TRUE(from_json(nlohmann::json::parse(to_json(statistics).dump()), back));
  EXPECT_EQ(back.counters, statistics.counters);
  EXPECT_EQ(back.drops, statistics.drops);
}

TEST(ControlStatistics, MissingKeysAreZeroUnknownOnesAreIgnoredWrongOnesRefused) {
  Statistics back = numbered(5);
  ASSERT_TRUE(from_json({{"sent_pkts", 9u}, {"counter_of_tomorrow", "x"}}, back));
  EXPECT_EQ(back.get(Counter::kSentPackets), 9u);
  EXPECT_EQ(back.get(Counter::kReceivedPackets), 0u);
  for (const auto& wrong : {nlohmann::json(nullptr), nlohmann::json::array(), nlohmann::json{{"sent_pkts", -1}},
                            nlohmann::json{{"sent_pkts", "9"}}, nlohmann::json{{"drop_fault", 1.5}}}) {
    EXPECT_FALSE(from_json(wrong, back)) << wrong;
    EXPECT_EQ(back.get(Counter::kSentPackets), 9u) << "changed by " << wrong;
  }
}

TEST(ControlStatistics, SumAndDifferenceGoWordByWord) {
  Statistics sum = numbered(1000);
  accumulate(sum, numbered(10));
  EXPECT_EQ(sum.counters[3], 1003u + 13u);
  const Statistics grown = difference(sum, numbered(1000));
  EXPECT_EQ(grown.counters, numbered(10).counters);
  EXPECT_EQ(grown.drops, numbered(10).drops);
  EXPECT_EQ(difference(numbered(1), numbered(2)).counters[0], 0u);
  EXPECT_EQ(snapshot(sum).drops, sum.drops);
}

// Two programs with different lists must not share a page: any change of a name or of the order shows.
TEST(ControlStatistics, TheLayoutIsAHashOfTheNames) {
  static_assert(statistics_layout() != 0);
  std::uint64_t hash = 0xCBF29CE484222325u;
  const auto mix = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    hash = (hash ^ 0xFF) * 0x100000001B3u;
  };
  for (std::size_t i = 0; i < kCounterCount; ++i) mix(kCounterNames[i]);
  for (std::size_t i = 0; i < kDropReasonCount; ++i) mix(kDropReasonNames[i]);
  EXPECT_EQ(hash, statistics_layout());
}

}  // namespace
}  // namespace brdma::control
