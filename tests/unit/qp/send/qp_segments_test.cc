// qp/send/segments.h: which commands leave in segments, and which segments are in progress.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "qp/send/segments.h"

namespace brdma::qp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SendWqe wqe(std::uint32_t bytes, WorkOpcode opcode = WorkOpcode::kRdmaWrite) {
  SendWqe made;
  made.opcode = opcode;
  made.length = bytes;
  return made;
}

// A message of 10 packets, in segments of 4: [0, 4), [4, 8), [8, 10) from `first` on.
Message message(Sequence first, std::uint8_t first_operation) {
  return {.first = first,
          .packets = 10,
          .length = 10 * 1024,
          .kind = MessageKind::kWrite,
          .segment_packets = 4,
          .first_operation = first_operation};
}

// Sends the packets [from, to) of it; returns how many segments began.
int send(Segments& segments, const Message& message, Sequence from, Sequence to) {
  int begun = 0;
  for (Sequence at = from; at < to; ++at) begun += segments.on_sent(message, at) ? 1 : 0;
  return begun;
}

std::vector<Sequence> completed(const Segments& segments, std::uint8_t next, std::uint8_t beyond = 0) {
  wire::BitmapAck ack;
  ack.operations_next = next;
  ack.operations_beyond = beyond;
  std::vector<Sequence> firsts;
  segments.for_each_completed(ack, [&](const registry::SentOperation& one) { firsts.push_back(one.first); });
  return firsts;
}

TEST(Segments, AreOfWritesAndSendsFromTheThresholdOn) {
  TransferConfig config;
  EXPECT_TRUE(Segments::is_large(wqe(config.threshold_bytes), config));
  EXPECT_FALSE(Segments::is_large(wqe(config.threshold_bytes - 1), config));
  EXPECT_TRUE(Segments::is_large(wqe(1 << 20, WorkOpcode::kSendWithInvalidate), config));
  EXPECT_FALSE(Segments::is_large(wqe(1 << 20, WorkOpcode::kRdmaRead), config));
  config.threshold_bytes = 0;
  EXPECT_FALSE(Segments::is_large(wqe(1 << 20), config));
}

TEST(Segments, OnlyIfCutAndThePeerKnowsThem) {
  TransferConfig config;
  config.segment_bytes = 64 * 1024;
  Identity id;
  id.attributes.path_mtu = PathMtu::k1024;
  id.bitmap_agreed = id.peer_reads_operations = true;
  EXPECT_EQ(Segments::packets_of_each(wqe(1 << 20), config, id), 64);
  EXPECT_EQ(Segments::packets_of_each(wqe(1024), config, id), 0);
  id.peer_reads_operations = false;
  EXPECT_EQ(Segments::packets_of_each(wqe(1 << 20), config, id), 0);
  id.peer_reads_operations = true;
  id.bitmap_agreed = false;
  EXPECT_EQ(Segments::packets_of_each(wqe(1 << 20), config, id), 0);
  id.bitmap_agreed = true;
  config.segment_bytes = 0;
  EXPECT_EQ(Segments::packets_of_each(wqe(1 << 20), config, id), 0);
}

// Only their starts count, each once.
TEST(Segments, TellWhichBeganWithARepeatedPacket) {
  Segments segments;
  const Message one = message(100, 0);
  send(segments, one, 100, 110);
  const auto late = [&] {
    std::vector<Sequence> firsts;
    segments.take_started_late([&](const registry::SentOperation& segment) { firsts.push_back(segment.first); });
    return firsts;
  };
  segments.on_repeated(one, 105);
  EXPECT_THAT(late(), IsEmpty());
  segments.on_repeated(one, 104);
  segments.on_repeated(one, 108);
  EXPECT_THAT(late(), ElementsAre(104U, 108U));
  EXPECT_THAT(late(), IsEmpty());
  segments.on_repeated({.first = 110, .packets = 1, .length = 1, .kind = MessageKind::kWrite}, 110);
  EXPECT_THAT(late(), IsEmpty()) << "an undivided message";
}

TEST(Segments, BeginWithTheirFirstPacketAndEndWithTheBase) {
  Segments segments;
  const Message one = message(100, 0);
  EXPECT_EQ(send(segments, one, 100, 110), 3);
  EXPECT_EQ(segments.size(), 3U);
  EXPECT_EQ(segments.next_number(), 3);
  EXPECT_EQ(segments.retire_before(103), 0U);
  EXPECT_EQ(segments.retire_before(108), 2U);
  EXPECT_EQ(segments.retire_before(110), 1U);
  EXPECT_EQ(segments.size(), 0U);
  EXPECT_EQ(segments.next_number(), 3) << "numbers go on";
  segments.restart();
  EXPECT_EQ(segments.next_number(), 0);
}

TEST(Segments, AnAcknowledgementCompletesThoseThatItNames) {
  Segments segments;
  const Message one = message(0, 0);
  send(segments, one, 0, 10);
  EXPECT_THAT(completed(segments, 0), IsEmpty());
  EXPECT_THAT(completed(segments, 1), ElementsAre(0));
  EXPECT_THAT(completed(segments, 0, 0x40), ElementsAre(8)) << "the second beyond the next";
  for (Sequence at = 0; at < 4; ++at) segments.on_arrived(one, at);
  EXPECT_THAT(completed(segments, 2), ElementsAre(4)) << "the first is known to be complete";
  segments.on_reopened(one, 3);
  EXPECT_THAT(completed(segments, 2), ElementsAre(0, 4));
}

TEST(Segments, AnAcknowledgementOfWhatHasNotLeftIsWrong) {
  Segments segments;
  const Message one = message(0, 0);
  send(segments, one, 0, 6);
  wire::BitmapAck ack;
  ack.operations_next = 1;
  EXPECT_FALSE(segments.names_unsent(ack, 6));
  ack.operations_next = 2;
  EXPECT_TRUE(segments.names_unsent(ack, 6)) << "6 and 7 have not left";
  EXPECT_FALSE(segments.names_unsent(ack, 8));
}

TEST(Segments, WaitForANumber) {
  Segments segments;
  Message many = message(0, 0);
  many.packets = 4 * (registry::kUnderWayMax + 1);
  many.length = many.packets * 1024;
  EXPECT_EQ(send(segments, many, 0, 4 * registry::kUnderWayMax), static_cast<int>(registry::kUnderWayMax));
  EXPECT_TRUE(segments.full());
  EXPECT_FALSE(segments.may_leave(many, 4 * registry::kUnderWayMax)) << "it would begin one";
  EXPECT_TRUE(segments.may_leave(many, 4 * registry::kUnderWayMax - 1));
  EXPECT_EQ(segments.retire_before(4), 1U);
  EXPECT_TRUE(segments.may_leave(many, 4 * registry::kUnderWayMax));
  segments.forget_flight();
  EXPECT_EQ(segments.size(), 0U);
}

}  // namespace
}  // namespace brdma::qp
