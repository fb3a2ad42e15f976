// qp/acknowledge/acknowledgement_schedule.h: when an acknowledgement is due, how often it leaves, and what it echoes.
#include <gtest/gtest.h>

#include "qp/acknowledge/acknowledgement_schedule.h"

namespace brdma::qp {
namespace {

constexpr Duration kDelay = 100_us;
constexpr std::uint32_t kPackets = 64;
constexpr Instant kStart = Instant{} + 1_s;

bool due(const AcknowledgementSchedule& ack, Duration since_start) {
  return ack.due(kDelay, kPackets, kStart + since_start);
}
bool deferrable(const AcknowledgementSchedule& ack, Duration since_start) {
  return ack.deferrable(kDelay, kPackets, kStart + since_start);
}

TEST(AcknowledgementSchedule, WaitsForMorePacketsUpToADelay) {
  AcknowledgementSchedule ack;
  EXPECT_FALSE(due(ack, 1_s)) << "of nothing";
  ack.on_packet(false, true, kStart);
  ack.on_packet(false, true, kStart + 90_us);
  EXPECT_TRUE(ack.pending());
  EXPECT_EQ(ack.deadline(kDelay), kStart + kDelay) << "of the first";
  EXPECT_FALSE(due(ack, 99_us));
  EXPECT_TRUE(due(ack, 100_us));
  EXPECT_TRUE(deferrable(ack, 99_us));
  EXPECT_FALSE(deferrable(ack, 100_us));
}

TEST(AcknowledgementSchedule, WaitsForSoManyAtMost) {
  AcknowledgementSchedule ack;
  for (std::uint32_t i = 1; i < kPackets; ++i) ack.on_packet(false, true, kStart);
  EXPECT_FALSE(due(ack, 0_us));
  ack.on_packet(false, true, kStart);
  EXPECT_TRUE(due(ack, 0_us));
  EXPECT_FALSE(deferrable(ack, 0_us));
  ack.on_sent(Psn{64});
  ack.on_packet(false, true, kStart);
  EXPECT_FALSE(due(ack, 0_us)) << "counted from 0 again";
}

TEST(AcknowledgementSchedule, ARequestedOneIsDueAndMayWaitForData) {
  AcknowledgementSchedule ack;
  ack.on_packet(false, true, kStart);
  ack.on_packet(true, true, kStart + 50_us);
  EXPECT_TRUE(due(ack, 50_us));
  EXPECT_TRUE(deferrable(ack, 149_us)) << "from the packet that asked";
  EXPECT_FALSE(deferrable(ack, 150_us));
}

TEST(AcknowledgementSchedule, AStandardPeerAsks) {
  AcknowledgementSchedule ack;
  ack.on_packet(false, false, kStart);
  EXPECT_FALSE(ack.pending());
  ack.on_packet(true, false, kStart);
  EXPECT_TRUE(due(ack, 0_us));
}

TEST(AcknowledgementSchedule, AForcedOneWaitsForNothing) {
  AcknowledgementSchedule ack;
  ack.force(kStart);
  EXPECT_TRUE(due(ack, 0_us));
  EXPECT_FALSE(deferrable(ack, 0_us));
  ack.on_sent(Psn{1});
  EXPECT_FALSE(ack.pending());
  EXPECT_FALSE(ack.forced());
  EXPECT_EQ(ack.reported(), Psn{1});
  ack.force_pending();
  EXPECT_FALSE(ack.forced()) << "nothing is pending";
}

TEST(AcknowledgementSchedule, ACopyForcesUnlessARequestedOneIsDue) {
  AcknowledgementSchedule ack;
  ack.on_packet(true, true, kStart);
  ack.on_copy(kStart);
  EXPECT_FALSE(ack.forced());
  ack.on_sent(Psn{1});
  ack.on_copy(kStart);
  EXPECT_TRUE(ack.forced());
}

TEST(AcknowledgementSchedule, TimeForces) {
  AcknowledgementSchedule ack;
  ack.on_packet(false, true, kStart);
  ack.on_time(kDelay, kStart + 99_us);
  EXPECT_FALSE(ack.forced());
  ack.on_time(kDelay, kStart + 100_us);
  EXPECT_TRUE(ack.forced());
}

TEST(AcknowledgementSchedule, TheLastOneLeavesSeveralTimes) {
  AcknowledgementSchedule ack;
  ack.force_last(3);
  int sent = 0;
  for (; due(ack, 0_us); ++sent) {
    ack.on_sent(Psn{1});
    ack.continue_copies();
  }
  EXPECT_EQ(sent, 4);
}

TEST(AcknowledgementSchedule, OneThatLeftAloneIsRepeatedInTheNextTwoBatches) {
  AcknowledgementSchedule ack;
  EXPECT_FALSE(ack.repeats());
  ack.on_sent_alone();
  EXPECT_TRUE(ack.repeats());
  ack.on_sent_with_data();
  EXPECT_TRUE(ack.repeats());
  ack.on_sent_with_data();
  EXPECT_FALSE(ack.repeats());
  ack.on_sent_with_data();
  EXPECT_FALSE(ack.repeats());
  ack.repeat_with_data();
  ack.on_sent_with_data();
  EXPECT_FALSE(ack.repeats()) << "data that was lost: once";
}

TEST(TimestampEcho, IsSentOnce) {
  TimestampEcho echo;
  EXPECT_FALSE(echo.valid());
  echo.note(3, 77, 5_us, kStart);
  EXPECT_TRUE(echo.valid());
  EXPECT_EQ(echo.path(), 3);
  EXPECT_EQ(echo.timestamp(), 77U);
  EXPECT_EQ(echo.waited(), 5_us);
  EXPECT_EQ(echo.newest_arrival(), kStart - 5_us);
  EXPECT_EQ(echo.received(), 1'000'000'000U);
  echo.on_sent();
  EXPECT_FALSE(echo.valid());
  EXPECT_EQ(echo.newest_arrival(), kStart - 5_us) << "still known";
}

TEST(TimestampEcho, WaitsTwoSecondsAtMost) {
  TimestampEcho echo;
  echo.note(0, 1, 0_us, kStart);
  EXPECT_EQ(echo.made(kStart + 7_us), 1'000'007'000U);
  EXPECT_EQ(echo.made(kStart + 2_s), 3'000'000'000U);
  EXPECT_EQ(echo.made(kStart + 20_s), 3'000'000'000U);
  EXPECT_EQ(echo.made(kStart - 1_us), 1'000'000'000U) << "never before the arrival";
}

TEST(TimestampEcho, OnlyAValidOneIsKept) {
  TimestampEcho echo;
  echo.keep();
  EXPECT_FALSE(echo.kept());
  echo.note(0, 1, 0_us, kStart);
  echo.keep();
  EXPECT_TRUE(echo.kept());
  echo.release();
  EXPECT_FALSE(echo.kept());
}

TEST(AcknowledgementLoss, TwoSignsWithoutANewPacketChangeThePath) {
  AcknowledgementLoss loss;
  loss.on_sign(Psn{10});
  loss.on_sign(Psn{11});
  EXPECT_EQ(loss.changes(), 0U);
  loss.on_sign(Psn{11});
  EXPECT_EQ(loss.changes(), 1U);
  loss.on_sign(Psn{11});
  EXPECT_EQ(loss.changes(), 1U);
  loss.on_sign(Psn{11});
  EXPECT_EQ(loss.changes(), 2U);
}

}  // namespace
}  // namespace brdma::qp
