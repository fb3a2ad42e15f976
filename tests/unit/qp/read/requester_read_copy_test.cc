// Copies of READ requests on a path that loses (qp/read/request_copies.h, docs/reference/wire.md).
#include <gtest/gtest.h>

#include <map>

#include "support/two_engines.h"
#include "wire/control.h"
#include "wire/read_copy.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kBytes = 4096;  // a READ's: four responses

bool is_request(const Sent& sent) { return sent.from == 0 && sent.data(); }
bool is_copy(const Sent& sent) { return is_request(sent) && wire::is_copy(sent.packet()); }

// Posts READs, so many in flight.
void read(TwoEngines& pair, int count) {
  for (int i = 0; i < count; ++i) {
    ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, kBytes, 1)).ok());
    pair.run_for(5_us);
  }
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), static_cast<std::size_t>(count));
}

// How often the responder sent each response.
std::map<std::uint32_t, int> answers(TwoEngines& pair) {
  std::map<std::uint32_t, int> sent;
  for (const Sent& each : pair.wire) {
    const bool answer = each.from == 1 && each.bth().opcode < wire::kTransportControl && !each.data();
    if (answer && wire::is_read_response(each.packet().op)) ++sent[each.psn()];
  }
  return sent;
}

TEST(ReadCopies, WithoutLossThereAreNone) {
  TwoEngines pair;
  read(pair, 8);
  EXPECT_EQ(pair.sent_by(0, is_request), 8u);
  EXPECT_EQ(pair.side[0].count(Counter::kReadsCopied), 0u);
}

// Feedback recovers the first loss. The second one's copy arrives before anybody misses it.
TEST(ReadCopies, AfterALossTheCopyWithTheNextRequestStandsInForALostOne) {
  TwoEngines pair;
  const std::uint32_t first = pair.options.first_psn[0];
  pair.drop = [=](const Sent& s) { return is_request(s) && s.copy == 1 && s.psn() == first; };
  read(pair, 4);
  const auto feedback = pair.side[1].count(Counter::kFfmSent);
  const auto reissued = pair.side[0].count(Counter::kReadsReissued);
  EXPECT_GE(feedback, 1u);
  EXPECT_GE(reissued, 1u);

  pair.wire.clear();
  const std::uint32_t second = first + 4 * (kBytes / 1024) + 4;  // of the next READs the second
  pair.drop = [=](const Sent& s) { return is_request(s) && !is_copy(s) && s.psn() == second; };
  read(pair, 4);
  EXPECT_EQ(pair.sent_by(0, [=](const Sent& s) { return is_copy(s) && s.psn() == second; }), 1u);
  EXPECT_EQ(pair.side[1].count(Counter::kFfmSent), feedback);
  EXPECT_EQ(pair.side[0].count(Counter::kReadsReissued), reissued);
  const auto sent = answers(pair);
  EXPECT_EQ(sent.size(), 16u);
  for (const auto& [psn, times] : sent) EXPECT_EQ(times, 1) << psn;
}

// The original comes behind its copy, or a copy behind the original: answered once.
TEST(ReadCopies, WhoeverComesSecondIsDropped) {
  for (const bool original_late : {false, true}) {
    TwoEngines pair;
    const std::uint32_t first = pair.options.first_psn[0];
    pair.drop = [=](const Sent& s) { return is_request(s) && s.copy == 1 && s.psn() == first; };
    read(pair, 4);
    pair.wire.clear();
    pair.drop = nullptr;
    const std::uint32_t second = first + 4 * (kBytes / 1024) + 4;
    pair.extra_delay = [=](const Sent& s) {
      return is_request(s) && s.psn() == second && is_copy(s) != original_late ? 30_us : Duration{};
    };
    read(pair, 4);
    for (const auto& [psn, times] : answers(pair)) EXPECT_EQ(times, 1) << psn;
    EXPECT_GE(pair.side[1].statistics.drops[static_cast<std::size_t>(DropReason::kDuplicate)], 1u);
  }
}

// Without GSO a copy fills a batch, and the request that it leaves with has the next one, at once.
TEST(ReadCopies, ARequestFollowsACopyThatFillsItsBatch) {
  PairOptions options;
  options.segments_max = 1;
  TwoEngines pair{options};
  const std::uint32_t first = pair.options.first_psn[0];
  pair.drop = [=](const Sent& s) { return is_request(s) && s.copy == 1 && s.psn() == first; };
  read(pair, 4);
  pair.wire.clear();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, kBytes, 1)).ok());
  pair.round();
  EXPECT_GE(pair.sent_by(0, is_copy), 2u);
  EXPECT_EQ(pair.sent_by(0, [](const Sent& s) { return is_request(s) && !is_copy(s); }), 4u);
}

// They end some time after the last loss.
TEST(ReadCopies, TheyEnd) {
  TwoEngines pair;
  const std::uint32_t first = pair.options.first_psn[0];
  pair.drop = [=](const Sent& s) { return is_request(s) && s.copy == 1 && s.psn() == first; };
  for (int i = 0; i < 50; ++i) read(pair, 4);
  const auto copied = pair.side[0].count(Counter::kReadsCopied);
  EXPECT_GT(copied, 100u);
  EXPECT_LE(copied, 128u);
  read(pair, 4);
  EXPECT_EQ(pair.side[0].count(Counter::kReadsCopied), copied);
}

}  // namespace
}  // namespace brdma::test
