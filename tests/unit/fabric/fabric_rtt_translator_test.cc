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
  for (int i = 0; i < MarkCounter::kWindow; ++i) marks.on_packet(i < marked, config);
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
    for (int i = 0; i < 8; ++i) {
      Bytes packet = flow.data(path);
      const Bytes before = packet;
      EXPECT_EQ(translator.pass(kSender, kReceiver, packet, i < marked, now), i < marked);
      EXPECT_EQ(packet, before);
    }
  }
  wire::BitmapAck back(std::uint8_t path = 0, std::uint16_t bits = 0) {
    Bytes packet = flow.acknowledgement(path, bits);
    EXPECT_FALSE(translator.pass(kReceiver, kSender, packet, false, now));
    EXPECT_TRUE(flow.icrc_holds(packet, kReceiver, kSender));
    return test::TranslatedFlow::read(packet);
  }
  const test::TranslatedFlow flow;
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
