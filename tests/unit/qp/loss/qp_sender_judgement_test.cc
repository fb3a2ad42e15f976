// qp/loss/sender_judgement.h: losses that the sender judges by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "qp/loss/sender_judgement.h"
#include "qp/state/environment.h"

namespace brdma::qp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Sender {
  explicit Sender(RecoveryMode mode) : judge((recovery.mode = mode, recovery)) {
    identity.recovery = &recovery;
    identity.attributes.path_mtu = PathMtu::k1024;
    scoreboard.begin_from(Psn{0});
  }
  SenderJudgement judgement() { return SenderJudgement{{identity, scoreboard, messages, segments, judge}}; }
  // A WRITE, in segments of so many packets (a power of two; 0: undivided).
  void send(std::uint32_t packets, std::uint8_t segment_packets = 0) {
    const Message& message = messages.push_back({.first = scoreboard.next(),
                                                 .packets = packets,
                                                 .length = packets * 1024,
                                                 .kind = MessageKind::kWrite,
                                                 .segment_packets = segment_packets});
    for (std::uint32_t i = 0; i < packets; ++i) {
      const Sequence sequence = scoreboard.next();
      scoreboard.sent(1024, 0, now);
      if (segment_packets != 0) segments.on_sent(message, sequence);
      judge.on_sent(sequence, now);
    }
  }
  // A READ of so many responses.
  Sequence read(std::uint32_t responses) {
    const Sequence first = scoreboard.next();
    messages.push_back({.first = first, .packets = responses, .length = responses * 1024, .kind = MessageKind::kRead});
    scoreboard.sent_request(responses, 0, now);
    return first;
  }
  // An acknowledgement reports the request.
  void request_arrives(Sequence first) {
    Message& message = messages[messages.find(first)];
    judgement().on_request_arrived(first, now);
    message.request_received = true;
    for (Sequence at = first; at < message.end(); ++at) scoreboard.note_reported(at);
    scoreboard.note_arrived(message.end());
  }
  void arrives(Sequence sequence) {
    const Message& message = messages[messages.find(sequence)];
    judgement().on_delivered(sequence, now);
    segments.on_arrived(message, sequence);
    if (scoreboard.entry(sequence).transmissions > 1) segments.on_repeated(message, sequence);
    scoreboard.acknowledge(sequence, 1024);
    scoreboard.note_reported(sequence);
    scoreboard.note_arrived(sequence + 1);
  }
  // Packet `sequence` counts as lost, and leaves again.
  void leaves_again(Sequence sequence) {
    scoreboard.request_retransmission(sequence, 1024);
    scoreboard.left_again(sequence, 1024, 0, now);
    judge.on_sent(sequence, now);
  }
  std::vector<Sequence> overdue() {
    std::vector<Sequence> lost;
    judgement().by_time(5_ms, now, [&](Sequence at, Counter cause) {
      EXPECT_EQ(cause, Counter::kRetransmittedWait);
      lost.push_back(at);
    });
    return lost;
  }
  // The packets that an acknowledgement of `highest` shows lost, and why.
  std::vector<std::pair<Sequence, Counter>> acknowledged(std::uint32_t highest) {
    wire::BitmapAck ack;
    ack.base = Psn{0};
    ack.highest = Psn{highest};
    std::vector<std::pair<Sequence, Counter>> lost;
    judgement().on_acknowledgement(ack, 0, now, [&](Sequence at, Counter cause) { lost.emplace_back(at, cause); });
    return lost;
  }

  RecoveryConfig recovery;
  SenderJudge judge;
  Identity identity;
  bitmap::SegmentPool pool;
  Scoreboard scoreboard{window_shape(recovery), pool};
  Segments segments;
  MessageTable messages;
  Instant now = Instant{} + 1_s;
};

// tests design WT-3: the packet that is expected next is missing, something later has arrived.
TEST(SenderJudgement, ByDelaysTheExpectedPacketLeavesAtOnce) {
  Sender sender(RecoveryMode::kWan);
  sender.send(4);
  EXPECT_THAT(sender.acknowledged(0), IsEmpty()) << "nothing beyond it";
  sender.now = sender.now + 1_ms;
  sender.arrives(2);
  const auto lost = sender.acknowledged(2);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].first, 0U);
  EXPECT_EQ(lost[0].second, Counter::kRetransmittedExpected);
  sender.scoreboard.request_retransmission(0, 1024);
  EXPECT_THAT(sender.acknowledged(2), IsEmpty()) << "it is about to leave";
}

TEST(SenderJudgement, TheFeedbackModeLeavesTheExpectedPacketToTheReceiver) {
  Sender sender(RecoveryMode::kWanFeedback);
  sender.send(4);
  sender.now = sender.now + 1_ms;
  sender.arrives(2);
  EXPECT_THAT(sender.acknowledged(2), IsEmpty());
}

TEST(SenderJudgement, AsTcpOnlyHolesBeforeWhatHasArrivedAreJudged) {
  Sender sender(RecoveryMode::kSelective);
  sender.send(40);
  sender.now = sender.now + 1_ms;
  sender.arrives(0);
  for (Sequence at = 2; at < 20; ++at) sender.arrives(at);
  sender.now = sender.now + 20_ms;
  const auto lost = sender.acknowledged(19);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].first, 1U);
  EXPECT_EQ(lost[0].second, Counter::kRetransmittedAck);
}

TEST(SenderJudgement, AsTcpARequestIsLostOnceALaterOneHasArrived) {
  Sender sender(RecoveryMode::kSelective);
  std::vector<Sequence> requests;
  for (int i = 0; i < 4; ++i) requests.push_back(sender.read(4));
  sender.now = sender.now + 1_ms;
  sender.request_arrives(requests[0]);
  EXPECT_THAT(sender.acknowledged(3), IsEmpty());
  sender.request_arrives(requests[2]);
  const auto lost = sender.acknowledged(11);
  ASSERT_FALSE(lost.empty());
  EXPECT_EQ(lost.front(), (std::pair{requests[1], Counter::kRetransmittedAck}));
  EXPECT_LT(lost.back().first, requests[2]) << "it and no other";
}

// The first request's responses come behind the third request: that is no reordering of what was sent.
TEST(SenderJudgement, AsTcpResponsesShowNothingOfTheOrderOfRequests) {
  Sender sender(RecoveryMode::kSelective);
  for (int i = 0; i < 3; ++i) sender.read(2);
  sender.now = sender.now + 1_ms;
  for (const Sequence first : {0U, 2U, 4U}) sender.request_arrives(first);
  sender.judgement().on_delivered(0, sender.now);
  sender.judgement().on_delivered(1, sender.now);
  EXPECT_FALSE(sender.judge.selective()->judge.reordering_seen());
}

// A receiver reports no packet of a segment before it has the segment's start: two segments of four packets, the start
// of the second (4) and its last packet (7) are lost.
TEST(SenderJudgement, WhatWaitsForTheStartOfItsSegmentIsNotLost) {
  Sender sender(RecoveryMode::kWan);
  sender.send(12, 4);
  sender.now = sender.now + 1_ms;
  for (const Sequence at : {0, 1, 2, 3, 8, 9, 10, 11}) sender.arrives(at);
  sender.acknowledged(11);
  sender.now = sender.now + 10_ms;
  EXPECT_THAT(sender.overdue(), ElementsAre(4)) << "of 5, 6 and 7 nothing is known";
  sender.leaves_again(4);
  sender.now = sender.now + 1_ms;
  for (const Sequence at : {4, 5, 6}) sender.arrives(at);
  EXPECT_THAT(sender.acknowledged(11), ElementsAre(std::pair{Sequence{7}, Counter::kRetransmittedWait}));
  sender.leaves_again(7);
  EXPECT_THAT(sender.acknowledged(11), IsEmpty()) << "once";
}

TEST(SenderJudgement, WithTheStartOnlyWhatHasWaitedLongEnoughIsLost) {
  Sender sender(RecoveryMode::kWan);
  sender.send(1);
  sender.now = sender.now + 10_ms;
  sender.arrives(0);
  sender.send(4, 4);
  sender.now = sender.now + 2_ms;
  sender.leaves_again(1);
  sender.now = sender.now + 2_ms;
  sender.arrives(1);
  EXPECT_THAT(sender.acknowledged(1), IsEmpty()) << "T is 10 ms, they left 4 ms ago";
}

TEST(SenderJudgement, AsTcpWhatWaitsForTheStartOfItsSegmentIsNotLostEither) {
  Sender sender(RecoveryMode::kSelective);
  sender.send(40, 4);
  sender.now = sender.now + 1_ms;
  for (Sequence at = 0; at < 4; ++at) sender.arrives(at);
  for (Sequence at = 8; at < 40; ++at) sender.arrives(at);
  sender.now = sender.now + 20_ms;
  EXPECT_THAT(sender.acknowledged(39), ElementsAre(std::pair{Sequence{4}, Counter::kRetransmittedAck}));
}

}  // namespace
}  // namespace brdma::qp
