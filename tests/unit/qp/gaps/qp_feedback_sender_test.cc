// tests design BR-21, BR-22: the message that names lost gaps, its fields, its limits (qp/gaps/feedback_sender.h).
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "qp/queues/transmit_batch.h"
#include "support/responder_parts.h"
#include "wire/control.h"

namespace brdma::test {
namespace {

using Sent = qp::FeedbackSender::Sent;

struct Sender : ReceiverParts {
  Sender() { recovery.adaptive = false; }

  [[nodiscard]] qp::TransmitBatch batch() {
    qp::TransmitBatch made(*buffer, config);
    made.begin({IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2)});
    return made;
  }
  // As the responder does.
  Sent poll(qp::TransmitBatch& to) {
    const Sent sent = feedback_sender().poll(to, now);
    if (sent == Sent::kAll) gaps().judge_all(now, now);
    return sent;
  }
  // Into a batch of its own, which is parsed.
  Sent poll() {
    qp::TransmitBatch to = batch();
    const Sent sent = poll(to);
    listed.clear();
    if (sent == Sent::kNothing) return sent;
    const ConstBytes packet{buffer->headers.data(), to.wire_bytes() - to.frame_overhead() - wire::kIcrcSize};
    bth = wire::parse_bth(packet.first<wire::kBthSize>());
    const auto parsed = wire::parse_ffm(packet.subspan(wire::kBthSize), bth.psn);
    EXPECT_TRUE(parsed);
    if (!parsed) return sent;
    ffm = *parsed;
    for (std::size_t i = 0; i < ffm.gap_count; ++i) listed.push_back(ffm.gap(i));
    return sent;
  }
  // 1000, 1002, 1004 ... are lost.
  void lose(std::uint32_t packets) {
    for (std::uint32_t i = 0; i < packets; ++i) arrives(packet(1001 + 2 * i));
    request_by_hand();
  }

  std::unique_ptr<TransmitBuffer> buffer = std::make_unique<TransmitBuffer>();
  wire::Bth bth;
  wire::Ffm ffm;
  std::vector<wire::FfmGap> listed;
};

TEST(FeedbackSender, ItsFieldsDescribeTheFirstGap) {
  Sender sender;
  sender.arrives(sender.packet(1002, /*path=*/3));
  sender.arrive(1003, 1009);
  ASSERT_TRUE(sender.feedback.due());
  EXPECT_EQ(sender.poll(), Sent::kAll);
  EXPECT_EQ(sender.bth.opcode, static_cast<std::uint8_t>(wire::Control::kFfm));
  EXPECT_EQ(sender.bth.dest_qpn, 18u);
  EXPECT_EQ(sender.bth.psn, Psn{1000});
  EXPECT_EQ(sender.ffm.source_qpn, 17u);
  EXPECT_EQ(sender.ffm.token, 99u);
  EXPECT_EQ(sender.ffm.path, 3u);
  EXPECT_EQ(sender.ffm.highest, Psn{1009});
  EXPECT_EQ(sender.ffm.base, Psn{1000});
  EXPECT_EQ(sender.ffm.cause, static_cast<std::uint8_t>(recovery::LossCause::kDepth));
  EXPECT_EQ(sender.ffm.depth, 9u);
  EXPECT_EQ(sender.ffm.repeat, 0u);
  EXPECT_EQ(sender.ffm.timestamp, static_cast<std::uint64_t>(sender.now.ns()));
  EXPECT_EQ(sender.ffm.serial, 0u);
  EXPECT_EQ(sender.ffm.promoted, 1u);
  const wire::FfmGap gap{.start = Psn{1000}, .length = 2, .cause = sender.ffm.cause, .repeat = 0};
  EXPECT_EQ(sender.listed, std::vector{gap});
  EXPECT_EQ(sender.count(Counter::kFfmSent), 1u);
  EXPECT_FALSE(sender.feedback.due());
}

TEST(FeedbackSender, AGapThatWaitsIsLeftOut) {
  Sender sender;
  sender.arrive(1001, 1004);
  sender.arrive(1006, 1009);  // 1000 is lost, 1005 is not
  EXPECT_EQ(sender.poll(), Sent::kAll);
  ASSERT_EQ(sender.listed.size(), 1u);
  EXPECT_EQ(sender.listed[0].start, Psn{1000});
  EXPECT_EQ(sender.state->gaps[1].feedbacks, 0u);
}

TEST(FeedbackSender, AGapIsNamedAgainAfterItsIntervalAlone) {
  Sender sender;
  sender.lose(1);
  ASSERT_EQ(sender.poll(), Sent::kAll);
  sender.pass(500_us - kTick);
  sender.gaps().on_time(sender.now);
  EXPECT_FALSE(sender.feedback.due());
  EXPECT_EQ(sender.poll(), Sent::kNothing);
  sender.pass(kTick);
  sender.gaps().on_time(sender.now);
  ASSERT_TRUE(sender.feedback.due());
  EXPECT_EQ(sender.poll(), Sent::kAll);
  EXPECT_EQ(sender.ffm.repeat, 1u);
  EXPECT_EQ(sender.ffm.serial, 1u);
  ASSERT_EQ(sender.listed.size(), 1u);
  EXPECT_EQ(sender.listed[0].repeat, 1u);
  EXPECT_EQ(sender.state->watch.repeat_at, sender.now + 1_ms) << "doubled";
}

TEST(FeedbackSender, AGapThatWasNamedRecentlyIsLeftOutOfTheNextMessage) {
  Sender sender;
  sender.lose(1);
  ASSERT_EQ(sender.poll(), Sent::kAll);
  sender.arrive(1003, 1011);  // 1002 is lost too
  ASSERT_TRUE(sender.feedback.due());
  sender.state->feedback.look = true;
  EXPECT_EQ(sender.poll(), Sent::kAll);
  ASSERT_EQ(sender.listed.size(), 1u);
  EXPECT_EQ(sender.listed[0].start, Psn{1002});
}

TEST(FeedbackSender, WhatDoesNotFitIntoAMessageIsInTheNext) {
  struct Case {
    std::uint32_t mtu, gaps_max;
  };
  for (const auto [mtu, gaps_max] : {Case{1024, 64}, Case{256, 32}}) {
    Sender sender;
    sender.mtu = mtu;
    sender.lose(gaps_max + 1);
    EXPECT_EQ(sender.poll(), Sent::kPart);
    ASSERT_EQ(sender.listed.size(), gaps_max);
    EXPECT_EQ(sender.listed.back().start, Psn{1000} + 2 * (gaps_max - 1));
    EXPECT_TRUE(sender.feedback.due());
    EXPECT_EQ(sender.poll(), Sent::kAll);
    ASSERT_EQ(sender.listed.size(), 1u);
    EXPECT_EQ(sender.listed[0].start, Psn{1000} + 2 * gaps_max);
    EXPECT_FALSE(sender.feedback.due());
    EXPECT_FALSE(sender.state->feedback.continued_at);
  }
}

TEST(FeedbackSender, AFullMessageIsComplete) {
  Sender sender;
  sender.lose(64);
  EXPECT_EQ(sender.poll(), Sent::kAll);
  EXPECT_EQ(sender.listed.size(), 64u);
}

TEST(FeedbackSender, WhileTheSenderWaitsForTheRnrTimerNoneLeaves) {
  Sender sender;
  sender.arrive(1001, 1009);
  ASSERT_TRUE(sender.feedback.due());
  sender.base_packet.refuse();
  EXPECT_EQ(sender.poll(), Sent::kNothing);
  EXPECT_FALSE(sender.feedback.due());
  EXPECT_TRUE(sender.state->feedback.look) << "afterwards all are looked at";
  EXPECT_TRUE(sender.state->feedback.unnamed) << "it still is to be named";
  EXPECT_EQ(sender.count(Counter::kFfmSent), 0u);
}

TEST(FeedbackSender, WithoutALostGapNoneLeaves) {
  Sender sender;
  sender.arrive(1001, 1001);
  sender.feedback.request();
  sender.state->feedback.look = true;
  sender.state->feedback.unnamed_count = 3;
  EXPECT_EQ(sender.poll(), Sent::kNothing);
  EXPECT_FALSE(sender.feedback.due());
  EXPECT_EQ(sender.state->feedback.unnamed_count, 0u);
}

TEST(FeedbackSender, AMessageThatDoesNotFitLeavesWithTheNextBatch) {
  Sender sender;
  sender.lose(1);
  qp::TransmitBatch full = sender.batch();
  const std::byte shorter[4]{};
  full.add_control(wire::Bth{}, shorter);
  EXPECT_EQ(sender.poll(full), Sent::kNothing);
  EXPECT_TRUE(sender.feedback.due());
  EXPECT_EQ(sender.state->gaps[0].feedbacks, 0u);
  EXPECT_EQ(sender.poll(), Sent::kAll);
  EXPECT_EQ(sender.listed.size(), 1u);
}

TEST(FeedbackSender, AFullMessageThatDoesNotFitLeavesWholeWithTheNextBatch) {
  Sender sender;
  sender.lose(65);
  qp::TransmitBatch full = sender.batch();
  const std::byte shorter[4]{};
  full.add_control(wire::Bth{}, shorter);
  EXPECT_EQ(sender.poll(full), Sent::kNothing);
  EXPECT_EQ(sender.poll(), Sent::kPart);
  ASSERT_EQ(sender.listed.size(), 64u);
  EXPECT_EQ(sender.listed[0].start, Psn{1000}) << "none is passed over";
  EXPECT_EQ(sender.poll(), Sent::kAll);
  EXPECT_EQ(sender.listed.size(), 1u);
}

TEST(FeedbackSender, ARepetitionIsASignThatAcknowledgementsAreLost) {
  Sender sender;
  sender.lose(1);
  const auto repeat = [&] {
    sender.pass(8_ms);
    sender.gaps().on_time(sender.now);
    return sender.poll();
  };
  ASSERT_EQ(sender.poll(), Sent::kAll);
  ASSERT_EQ(repeat(), Sent::kAll);
  EXPECT_EQ(sender.ack_loss.changes(), 0u) << "the first message is no sign";
  ASSERT_EQ(repeat(), Sent::kAll);
  EXPECT_EQ(sender.ack_loss.changes(), 1u) << "the second sign without a new packet";
}

TEST(FeedbackSender, CountsOfRepetitionsStopAtTheirLimits) {
  Sender sender;
  sender.lose(1);
  sender.named(0, 0xFFFF);
  sender.pass(8_ms);
  sender.gaps().on_time(sender.now);
  EXPECT_EQ(sender.poll(), Sent::kAll);
  EXPECT_EQ(sender.ffm.repeat, 0xFFFFu);
  EXPECT_EQ(sender.listed[0].repeat, wire::kFfmGapRepeatMax);
  EXPECT_EQ(sender.state->gaps[0].feedbacks, 0xFFFFu);
}

TEST(FeedbackSender, ADepthOfMoreThanSixteenBitsIsTheLargest) {
  Sender sender;
  sender.recovery.window_packets = 1u << 18;
  sender.window =
      bitmap::ReceiveWindow{Psn{1000}, qp::window_shape(sender.recovery), sender.environment.pools.segments};
  sender.arrives(sender.packet(1000 + 70'000));
  EXPECT_EQ(sender.poll(), Sent::kAll);
  EXPECT_EQ(sender.ffm.depth, 0xFFFFu);
  EXPECT_EQ(sender.listed[0].length, 70'000u);
}

}  // namespace
}  // namespace brdma::test
