// ECN into round-trip time (ER-1): the increment table and its other rules, the worked example, pairing, rewriting
// with the right ICRC, and packets that are not changed.
#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

#include "fabric/switch/rtt_translator.h"
#include "support/translated_flow.h"
#include "wire/packet.h"

namespace brdma::fabric {
namespace {

using Bytes = std::vector<std::byte>;

constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }
constexpr IpAddress kSender = IpAddress::v4(10, 0, 0, 1), kReceiver = IpAddress::v4(10, 0, 0, 2);

void window(MarkCounter& marks, int marked, const IncrementConfig& config) {
  for (int i = 0; i < config.window; ++i) marks.on_packet(i < marked, config);
}

TEST(RttIncrement, TableOfMarksInAWindow) {
  const IncrementConfig config{.longest = 2_us};
  const std::int64_t ns[] = {0, 0, 250, 250, 500, 1000, 1000, 2000, 2000};
  const int levels[] = {0, 0, 1, 1, 2, 3, 3, 4, 4};
  for (int marked = 0; marked <= 8; ++marked) {
    MarkCounter marks;
    window(marks, marked, config);
    EXPECT_EQ(marks.level(), levels[marked]) << marked;
    EXPECT_EQ(marks.increment(config).ns(), ns[marked]) << marked;
  }
}

// The last number of marked packets below each fifth, and the first in it.
TEST(RttIncrement, WindowsOfOtherSizes) {
  struct Row {
    std::uint8_t window;
    std::vector<int> first_of_level;  // marked packets from which each level holds; -1: never alone
  };
  for (const Row& row : {Row{1, {-1, -1, -1, 1}}, Row{5, {1, 2, 3, 4}}, Row{8, {2, 4, 5, 7}}, Row{10, {2, 4, 6, 8}},
                         Row{16, {4, 7, 10, 13}}, Row{255, {51, 102, 153, 204}}}) {
    const IncrementConfig config{.window = row.window};
    for (int marked = 0; marked <= row.window; ++marked) {
      int level = 0;
      for (int i = 0; i < 4; ++i) {
        const int first = row.first_of_level[static_cast<std::size_t>(i)];
        if (first >= 0 && marked >= first) level = i + 1;
      }
      MarkCounter marks;
      window(marks, marked, config);
      EXPECT_EQ(marks.level(), level) << marked << " of " << int{row.window};
    }
  }
}

TEST(RttIncrement, CountsKeepTheirMeaningUnlessWindowOrNChange) {
  const IncrementConfig table;
  EXPECT_TRUE(count_alike(table, {.longest = 9_us, .levels = 99, .pmax_ppm = 1}));
  EXPECT_TRUE(count_alike(table, {.rule = IncrementRule::kFixed}));
  EXPECT_FALSE(count_alike(table, {.window = 9}));
  EXPECT_FALSE(count_alike(table, {.rule = IncrementRule::kStepped}));
  const IncrementConfig stepped{.rule = IncrementRule::kStepped};
  EXPECT_TRUE(count_alike(stepped, {.rule = IncrementRule::kProbabilistic, .window = 9}));
  EXPECT_FALSE(count_alike(stepped, {.rule = IncrementRule::kStepped, .levels = 9}));
  EXPECT_FALSE(count_alike(stepped, table));
}

TEST(RttIncrement, ChangesOnlyWithAWholeWindow) {
  const IncrementConfig config;
  MarkCounter marks;
  for (int i = 0; i < 7; ++i) marks.on_packet(true, config);
  EXPECT_EQ(marks.level(), 0);
  marks.on_packet(true, config);
  EXPECT_EQ(marks.level(), 4);
  for (int i = 0; i < 7; ++i) marks.on_packet(false, config);
  EXPECT_EQ(marks.level(), 4);
  marks.on_packet(false, config);
  EXPECT_EQ(marks.level(), 0);
}

TEST(RttIncrement, FixedIsAllOrNothing) {
  const IncrementConfig config{.rule = IncrementRule::kFixed, .longest = 2_us};
  for (int marked = 0; marked <= 8; ++marked) {
    MarkCounter marks;
    window(marks, marked, config);
    EXPECT_EQ(marks.increment(config), marked >= 2 ? 2_us : Duration{}) << marked;
  }
}

TEST(RttIncrement, SteppedGoesUpAndDownByOne) {
  const IncrementConfig config{.rule = IncrementRule::kStepped, .longest = 100_us, .levels = 10};
  MarkCounter marks;
  marks.on_packet(false, config);
  EXPECT_EQ(marks.increment(config), Duration{});
  marks.on_packet(true, config);
  EXPECT_EQ(marks.increment(config), 1_us);  // 1 %
  marks.on_packet(true, config);
  EXPECT_EQ(marks.increment(config), 12_us);  // 1 % + 99 % / 9
  for (int i = 0; i < 20; ++i) marks.on_packet(true, config);
  EXPECT_EQ(marks.level(), 10);
  EXPECT_EQ(marks.increment(config), 100_us);
  marks.on_packet(false, config);
  EXPECT_EQ(marks.increment(config), 89_us);
}

TEST(RttIncrement, ProbabilisticHasAFloor) {
  const IncrementConfig config{
      .rule = IncrementRule::kProbabilistic, .longest = 100_us, .levels = 10, .pmax_ppm = 200'000};
  MarkCounter marks;
  EXPECT_EQ(marks.increment(config), Duration{});
  for (const std::int64_t expected : {20, 20, 23, 34}) {
    marks.on_packet(true, config);
    EXPECT_EQ(marks.increment(config), Duration::from_ns(expected * 1000));
  }
}

TEST(RttIncrement, LongestDelayOfASharedBuffer) {
  // 16 MB for 64 ports of 100 Gbit/s: 20 us.
  EXPECT_EQ(longest_delay(16'000'000, 64, Bandwidth::from_bps(100'000'000'000)), 20_us);
}

class Translator : public testing::Test {
 protected:
  void forward(int marked, std::uint8_t path = 0) {
    for (int i = 0; i < 8; ++i) pass_data(i < marked, path);
  }
  void pass_data(bool marked, std::uint8_t path = 0) {
    Bytes packet = flow.data(path);
    const Bytes before = packet;
    EXPECT_EQ(translator.pass(kSender, kReceiver, packet, marked, now), marked);
    EXPECT_EQ(packet, before);
  }
  wire::BitmapAck back(std::uint8_t path = 0, std::uint16_t bits = 0) {
    Bytes packet = flow.acknowledgement(path, bits);
    EXPECT_FALSE(translator.pass(kReceiver, kSender, packet, false, now));
    EXPECT_TRUE(flow.icrc_holds(packet, kReceiver, kSender));
    return test::TranslatedFlow::read(packet);
  }
  const test::TranslatedFlow flow{};
  Instant now = at(0_us);
  RttTranslator translator{{}};
};

// 100 Gbit/s, D = 2 us: 5 of 8 packets marked, the next acknowledgement passes with Tr + 1 us, and the sender's round
// trip is 1 us longer.
TEST_F(Translator, WorkedExample) {
  EXPECT_EQ(test::TranslatedFlow::measured(back()), 60_us - 100_ns);
  forward(5);
  const wire::BitmapAck ack = back();
  EXPECT_EQ(ack.tr, 501'000u);
  EXPECT_EQ(ack.ts_echo, 1'000'000u);
  EXPECT_EQ(test::TranslatedFlow::measured(ack), 61_us - 100_ns);
  forward(0);
  EXPECT_EQ(test::TranslatedFlow::measured(back()), 60_us - 100_ns);
  EXPECT_EQ(translator.counters().rewritten, 1u);
  EXPECT_EQ(translator.counters().marked, 5u);
}

TEST_F(Translator, TheOtherRewrite) {
  translator = RttTranslator{{.rewrite = Rewrite::kTs}};
  forward(8);
  const wire::BitmapAck ack = back();
  EXPECT_EQ(ack.tr, 500'000u);
  EXPECT_EQ(ack.ts_echo, 998'000u);
  EXPECT_EQ(test::TranslatedFlow::measured(ack), 62_us - 100_ns);
}

// tests design ER-17: settings change while traffic runs.
TEST_F(Translator, AFlowKeepsItsLevelAndItsCountsWhenDChanges) {
  forward(8);
  EXPECT_EQ(back().tr, 502'000u);
  for (int i = 0; i < 7; ++i) pass_data(false);  // of the next window all but one
  translator.configure({.longest = 6_us}, Rewrite::kTr);
  EXPECT_EQ(back().tr, 506'000u) << "at once, without a window of its own";
  pass_data(false);
  EXPECT_EQ(back().tr, 500'000u) << "the window had 7 of 8 packets when D changed";
  EXPECT_EQ(translator.counters().forward, 16u);
  EXPECT_EQ(translator.flows(), 1u);
}

TEST_F(Translator, RuleFloorAndTimestampChangeWithoutARestartWhereCountsMeanTheSame) {
  forward(3);
  EXPECT_EQ(back().tr, 500'250u);
  translator.configure({.rule = IncrementRule::kFixed}, Rewrite::kTr);
  EXPECT_EQ(back().tr, 502'000u);
  translator.configure({.rule = IncrementRule::kFixed}, Rewrite::kTs);
  EXPECT_EQ(back().tr, 500'000u);
  EXPECT_EQ(back().ts_echo, 998'000u);
  translator.configure({.rule = IncrementRule::kStepped, .longest = 100_us}, Rewrite::kTr);
  EXPECT_EQ(back().tr, 500'000u) << "levels of windows are no steps";
  pass_data(true);
  EXPECT_EQ(back().tr, 501'000u);
  translator.configure({.rule = IncrementRule::kProbabilistic, .longest = 100_us, .pmax_ppm = 50'000}, Rewrite::kTr);
  EXPECT_EQ(back().tr, 505'000u);
  translator.configure({.rule = IncrementRule::kProbabilistic, .longest = 100_us, .pmax_ppm = 70'000}, Rewrite::kTr);
  EXPECT_EQ(back().tr, 507'000u);
}

TEST_F(Translator, AnotherWindowOrNStartsTheFlowsAgain) {
  forward(8);
  pass_data(true);
  translator.configure({.window = 2}, Rewrite::kTr);
  EXPECT_EQ(back().tr, 500'000u);
  pass_data(true);
  EXPECT_EQ(back().tr, 500'000u) << "the packet before does not count";
  pass_data(true);
  EXPECT_EQ(back().tr, 502'000u);
  translator.configure({.rule = IncrementRule::kStepped, .levels = 200}, Rewrite::kTr);
  for (int i = 0; i < 200; ++i) pass_data(true);
  EXPECT_EQ(back().tr, 502'000u);
  translator.configure({.rule = IncrementRule::kStepped, .levels = 2}, Rewrite::kTr);
  EXPECT_EQ(back().tr, 500'000u) << "a level beyond N would add more than D";
}

TEST_F(Translator, KeepsPathsApart) {
  forward(8, 1);
  forward(0, 2);
  EXPECT_EQ(back(1).tr, 502'000u);
  EXPECT_EQ(back(2).tr, 500'000u);
  EXPECT_EQ(back(0).tr, 500'000u);
  EXPECT_EQ(translator.flows(), 2u);
}

TEST_F(Translator, TheIcrcIsRightWhateverFollows) {
  forward(8);
  for (const std::uint16_t bits : std::initializer_list<std::uint16_t>{0, 1, 33, 500, 4096})
    EXPECT_EQ(back(0, bits).tr, 502'000u) << bits;
}

TEST_F(Translator, PiggybackedAcks) {
  forward(8);
  wire::Packet packet;
  packet.bth.opcode = wire::opcode_of(wire::RcOp::kSendOnly, true);
  packet.bth.dest_qpn = flow.sender_qp;
  packet.bxth.source_qpn = flow.receiver_qp;
  packet.bxth.piggyback = true;
  packet.piggyback.echo_valid = true;
  packet.piggyback.ts_echo = 1'000'000;
  packet.piggyback.tr = 500'000;
  packet.piggyback.made = 500'100;
  Bytes bytes = flow.finish(packet, Bytes(400, std::byte{1}), kReceiver, kSender);
  EXPECT_TRUE(translator.pass(kReceiver, kSender, bytes, true, now)) << "it is a forward packet the other way, too";
  EXPECT_TRUE(flow.icrc_holds(bytes, kReceiver, kSender));
  EXPECT_EQ(wire::parse_packet(bytes).value().piggyback.tr, 502'000u);
  packet.piggyback.echo_valid = false;
  bytes = flow.finish(packet, Bytes(400, std::byte{1}), kReceiver, kSender);
  const Bytes before = bytes;
  translator.pass(kReceiver, kSender, bytes, false, now);
  EXPECT_EQ(bytes, before);
}

TEST_F(Translator, LeavesAloneWhatItCannotPair) {
  forward(8);
  Bytes standard = flow.data(0, false);
  EXPECT_FALSE(translator.pass(kSender, kReceiver, standard, true, now)) << "its mark stays";
  Bytes other = flow.acknowledgement();
  const Bytes before = other;
  EXPECT_FALSE(translator.pass(IpAddress::v4(10, 0, 0, 3), kSender, other, false, now));
  EXPECT_EQ(other, before);
  for (std::size_t size = 0; size < 60; ++size) {
    Bytes cut = flow.acknowledgement();
    cut.resize(size);
    EXPECT_FALSE(translator.pass(kReceiver, kSender, cut, true, now));
  }
  EXPECT_EQ(translator.counters().untranslated, 61u);
}

TEST_F(Translator, FlowsAge) {
  translator = RttTranslator{{.flows_max = 8, .silence = 1_ms}};
  for (std::uint8_t path = 0; path < 8; ++path) forward(8, path);
  EXPECT_EQ(translator.flows(), 8u);
  Bytes packet = flow.data(8);
  EXPECT_FALSE(translator.pass(kSender, kReceiver, packet, true, now));
  EXPECT_EQ(translator.counters().table_full, 1u);
  now = at(1_ms);
  forward(8, 8);
  EXPECT_EQ(back(8).tr, 502'000u);
  EXPECT_EQ(translator.flows(), 8u);
}

}  // namespace
}  // namespace brdma::fabric
