// qp/loss/sender_judgement.h: losses that the sender judges by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "qp/loss/sender_judgement.h"
#include "qp/state/environment.h"

namespace brdma::qp {
namespace {

using testing::IsEmpty;

struct Sender {
  explicit Sender(RecoveryMode mode) : judge((recovery.mode = mode, recovery)) {
    identity.recovery = &recovery;
    identity.attributes.path_mtu = PathMtu::k1024;
    scoreboard.begin_from(Psn{0});
  }
  SenderJudgement judgement() { return SenderJudgement{{identity, scoreboard, messages, judge}}; }
  void send(std::uint32_t packets) {
    messages.push_back(
        {.first = scoreboard.next(), .packets = packets, .length = packets * 1024, .kind = MessageKind::kWrite});
    for (std::uint32_t i = 0; i < packets; ++i) {
      const Sequence sequence = scoreboard.next();
      scoreboard.sent(1024, 0, now);
      judgement().on_sent(sequence, now);
    }
  }
  void arrives(Sequence sequence) {
    judgement().on_delivered(sequence, now);
    scoreboard.acknowledge(sequence, 1024);
    scoreboard.note_reported(sequence);
    scoreboard.note_arrived(sequence + 1);
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
  bitmap::SegmentPool segments;
  Scoreboard scoreboard{window_shape(recovery), segments};
  MessageTable messages;
  Instant now = Instant{} + 1_s;
};

// Spec 3, step 3: the packet that is expected next is missing, something later has arrived.
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

}  // namespace
}  // namespace brdma::qp
