// tests design DN-2 to DN-6, event by event; cases without information from the source; the order in which flows are
// evicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "base/random.h"
#include "fabric/switch/drop_table.h"

namespace brdma::fabric {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = DropReport::Kind;

constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }

DropFlow flow(std::uint32_t queue_pair) {
  return {IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2), 0xC000, 4791, 17, queue_pair};
}

// "first 5" and "tail 6..9": numbers as the switch names them.
std::string text(const DropReport& report) {
  const std::uint32_t mask = report.flow.protocol == 6 ? 0xFFFF'FFFF : 0xFF'FFFF;
  const std::string last = std::to_string((report.number + report.length - 1) & mask);
  const std::string from = std::to_string(report.number);
  if (report.kind == Kind::kFirst) return "first " + from + (report.length > 1 ? ".." + last : "");
  return "tail " + from + ".." + last;
}

// d: dropped, e: enqueued; each with the reports that it makes.
struct Event {
  char kind = 'd';
  std::uint32_t number = 0;
  std::vector<std::string> reported;
};

struct Row {
  const char* name;
  std::vector<Event> events;
  std::size_t flows_left = 0;
  friend void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
};

class MergeTable : public testing::TestWithParam<Row> {};

TEST_P(MergeTable, ReportsTheSourcesNumbers) {
  DropTable table{{}};
  for (const Event& event : GetParam().events) {
    SCOPED_TRACE(std::string(1, event.kind) + " " + std::to_string(event.number));
    std::vector<std::string> reported;
    if (event.kind == 'd') {
      for (const auto& report : table.dropped(flow(1), {event.number}, 10_us, at(0_us)))
        reported.push_back(text(report));
    } else if (const auto report = table.enqueued(flow(1))) {
      reported.push_back(text(*report));
    }
    EXPECT_EQ(reported, event.reported);
  }
  EXPECT_EQ(table.flows(), GetParam().flows_left);
}

constexpr std::uint32_t kLastPsn = 0xFF'FFFF;
INSTANTIATE_TEST_SUITE_P(
    Spec5, MergeTable,
    testing::Values(
        Row{"DroppedNotInTable", {{'d', 5, {"first 5"}}}, 1},
        Row{"FirstDroppedAgainAlone", {{'d', 5, {"first 5"}}, {'d', 5, {"first 5"}}}, 1},
        Row{"FirstDroppedAgainWithOthersBehind",
            {{'d', 5, {"first 5"}}, {'d', 6, {}}, {'d', 7, {}}, {'d', 5, {"tail 6..7", "first 5"}}, {'e', 8, {}}},
            0},
        Row{"NextAfterTheLast", {{'d', 5, {"first 5"}}, {'d', 6, {}}, {'d', 7, {}}}, 1},
        Row{"EnqueuedNotInTable", {{'e', 5, {}}}, 0},
        Row{"EnqueuedAlone", {{'d', 5, {"first 5"}}, {'e', 6, {}}, {'d', 7, {"first 7"}}}, 1},
        Row{"EnqueuedWithOthersBehind",
            {{'d', 5, {"first 5"}}, {'d', 6, {}}, {'d', 7, {}}, {'e', 8, {"tail 6..7"}}},
            0},
        Row{"PsnsWrap",
            {{'d', kLastPsn - 1, {"first 16777214"}},
             {'d', kLastPsn, {}},
             {'d', 0, {}},
             {'e', 1, {"tail 16777215..0"}}},
            0}),
    [](const auto& row) { return row.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Ours, MergeTable,
    testing::Values(
        Row{"AnotherAheadBeginsAnew",
            {{'d', 5, {"first 5"}}, {'d', 8, {"first 8"}}, {'d', 9, {}}, {'e', 10, {"tail 9..9"}}},
            0},
        Row{"AnotherAheadTellsTheTail",
            {{'d', 5, {"first 5"}}, {'d', 6, {}}, {'d', 9, {"tail 6..6", "first 9"}}, {'d', 10, {}}},
            1},
        Row{"OneOfTheTailAgain",
            {{'d', 5, {"first 5"}}, {'d', 6, {}}, {'d', 7, {}}, {'d', 6, {"tail 6..7", "first 6"}}, {'d', 7, {}}},
            1},
        Row{"OneBefore", {{'d', 5, {"first 5"}}, {'d', 3, {"first 3"}}, {'d', 4, {}}, {'e', 6, {"tail 4..4"}}}, 0}),
    [](const auto& row) { return row.param.name; });

TEST(DropTable, CountsBytesOfTcp) {
  DropTable table{{}};
  DropFlow tcp = flow(0);
  tcp.protocol = 6;
  const auto drop = [&](std::uint32_t number, std::uint32_t length) {
    std::vector<std::string> reported;
    for (const auto& report : table.dropped(tcp, {number, length}, 1_us, at(0_us))) reported.push_back(text(report));
    return reported;
  };
  EXPECT_THAT(drop(0xFFFF'FC00, 1000), ElementsAre("first 4294966272..4294967271"));
  EXPECT_THAT(drop(0xFFFF'FC00 + 1000, 1000), IsEmpty());
  EXPECT_THAT(drop(0xFFFF'FC00 + 2000, 500), IsEmpty());
  const auto report = table.enqueued(tcp);
  ASSERT_TRUE(report);
  EXPECT_EQ(text(*report), "tail 4294967272..1475");
}

TEST(DropTable, KeepsFlowsApart) {
  DropTable table{{}};
  for (std::uint32_t qp = 1; qp <= 3; ++qp) EXPECT_EQ(table.dropped(flow(qp), {qp * 10}, 1_us, at(0_us)).count, 1u);
  for (std::uint32_t qp = 1; qp <= 3; ++qp) EXPECT_EQ(table.dropped(flow(qp), {qp * 10 + 1}, 1_us, at(0_us)).count, 0u);
  EXPECT_FALSE(table.enqueued(flow(4)));
  const auto report = table.enqueued(flow(2));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->flow, flow(2));
  EXPECT_EQ(text(*report), "tail 21..21");
  EXPECT_EQ(table.flows(), 2u);
}

TEST(DropTable, StatesTheQueueingDelayAndQuotesItsFirstDrop) {
  DropTable table{{}};
  const std::array<std::byte, 3> first{std::byte{1}}, second{std::byte{2}}, third{std::byte{3}};
  const auto reports = table.dropped(flow(1), {5, 1, first}, 10_us, at(0_us));
  ASSERT_EQ(reports.count, 1u);
  EXPECT_EQ(reports.begin()->drain, 10_us);
  const auto quote = reports.begin()->quote();
  EXPECT_THAT(std::vector(quote.begin(), quote.end()), ElementsAre(std::byte{1}, std::byte{0}, std::byte{0}));
  EXPECT_EQ(table.dropped(flow(1), {6, 1, second}, 20_us, at(1_us)).count, 0u);
  EXPECT_EQ(table.dropped(flow(1), {7, 1, third}, 30_us, at(2_us)).count, 0u);
  const auto tail = table.enqueued(flow(1));
  ASSERT_TRUE(tail);
  EXPECT_EQ(tail->drain, 30_us);
  EXPECT_EQ(tail->quote()[0], std::byte{2});
}

TEST(DropTable, AQuoteHasItsBound) {
  DropTable table{{}};
  const std::vector<std::byte> whole(4000, std::byte{7});
  EXPECT_EQ(table.dropped(flow(1), {5, 1, whole}, 1_us, at(0_us)).begin()->quote().size(), DropReport::kQuoteMax);
}

TEST(DropTable, ReportsTheTailOfASilentFlow) {
  DropTable table{{.silence = 100_us}};
  EXPECT_FALSE(table.next_timeout());
  EXPECT_EQ(table.dropped(flow(1), {5}, 1_us, at(0_us)).count, 1u);
  EXPECT_EQ(table.dropped(flow(2), {9}, 1_us, at(10_us)).count, 1u);
  EXPECT_EQ(table.dropped(flow(1), {6}, 1_us, at(50_us)).count, 0u);
  EXPECT_EQ(table.next_timeout(), at(110_us));  // flow 2: its drop is the oldest
  EXPECT_FALSE(table.poll_silent(at(110_us)));  // it has nothing to report, and is gone
  EXPECT_EQ(table.flows(), 1u);
  EXPECT_FALSE(table.poll_silent(at(149_us)));
  const auto report = table.poll_silent(at(150_us));
  ASSERT_TRUE(report);
  EXPECT_EQ(text(*report), "tail 6..6");
  EXPECT_EQ(table.flows(), 0u);
  EXPECT_FALSE(table.next_timeout());
  EXPECT_EQ(table.counters().silent, 1u);
}

TEST(DropTable, AFullTableGivesUpTheFlowThatWasSilentLongest) {
  DropTable table{{.flows_max = 2}};
  EXPECT_EQ(table.dropped(flow(1), {10}, 1_us, at(0_us)).count, 1u);
  EXPECT_EQ(table.dropped(flow(2), {20}, 1_us, at(1_us)).count, 1u);
  EXPECT_EQ(table.dropped(flow(1), {11}, 1_us, at(2_us)).count, 0u);
  EXPECT_EQ(table.dropped(flow(2), {21}, 1_us, at(3_us)).count, 0u);
  const auto reports = table.dropped(flow(3), {30}, 1_us, at(4_us));
  ASSERT_EQ(reports.count, 2u);
  EXPECT_EQ(reports.reports[0].flow, flow(1));
  EXPECT_EQ(text(reports.reports[0]), "tail 11..11");
  EXPECT_EQ(reports.reports[1].flow, flow(3));
  EXPECT_EQ(text(reports.reports[1]), "first 30");
  EXPECT_FALSE(table.enqueued(flow(1)));
  EXPECT_EQ(table.counters().displaced, 1u);
  EXPECT_EQ(table.counters().flows_most, 2u);
}

// After any events each dropped packet was reported at least once, and no other.
TEST(DropTable, ReportsEachDropForAnyEvents) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random{seed};
    DropTable table{{.flows_max = 4, .silence = 20_us}};
    std::map<std::uint32_t, std::map<std::uint32_t, bool>> reported;  // by flow and number
    const auto record = [&reported](const DropReport& report) {
      for (std::uint32_t i = 0; i < report.length; ++i) {
        auto& of_flow = reported[report.flow.queue_pair];
        const auto found = of_flow.find((report.number + i) & 0xFF'FFFF);
        ASSERT_NE(found, of_flow.end());
        found->second = true;
      }
    };
    std::map<std::uint32_t, std::uint32_t> next;
    Instant now = at(0_us);
    for (int step = 0; step < 400; ++step) {
      now = now + Duration::from_ns(static_cast<std::int64_t>(random.below(8000)));
      while (const auto report = table.poll_silent(now)) record(*report);
      const auto qp = static_cast<std::uint32_t>(random.below(6));
      std::uint32_t& psn = next.try_emplace(qp, 0xFF'FFE0).first->second;
      if (random.below(8) == 0) psn = (psn + static_cast<std::uint32_t>(random.below(5)) - 2) & 0xFF'FFFF;
      if (random.below(3) != 0) {
        reported[qp].try_emplace(psn, false);
        for (const auto& report : table.dropped(flow(qp), {psn}, 1_us, now)) record(report);
      } else if (const auto report = table.enqueued(flow(qp))) {
        record(*report);
      }
      psn = (psn + 1) & 0xFF'FFFF;
    }
    while (const auto report = table.poll_silent(now + 1_ms)) record(*report);
    for (const auto& [qp, numbers] : reported) {
      for (const auto& [number, was_told] : numbers) ASSERT_TRUE(was_told) << "seed " << seed << " psn " << number;
    }
    ASSERT_EQ(table.flows(), 0u);
  }
}

}  // namespace
}  // namespace brdma::fabric
