// qp/transmit/data_packets.h and request_packets.h: a new packet as it leaves alone, and what is noted of it; which one
// asks for an acknowledgement (qp/send/ack_requests.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "qp/transmit/data_packets.h"
#include "qp/transmit/request_packets.h"
#include "transmitting_parts.h"
#include "wire/read_copy.h"

namespace brdma::qp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using wire::RcOp;

struct Writing : test::TransmittingParts {
  Message& begin() {
    start().begin();
    return messages.back();
  }
  // The next packets of the newest message, at most so many.
  std::vector<wire::Packet> leave(int packets = 1, std::uint8_t path = 0) {
    return written(
        [&](PayloadCursor& cursor, TransmitBatch& batch) {
          bool all = true;
          while (all && packets-- > 0) all = data().transmit(messages.back(), cursor, batch, now);
          return all;
        },
        path);
  }
  std::vector<wire::Packet> request(std::uint8_t path = 0) {
    return written([&](PayloadCursor& cursor,
                       TransmitBatch& batch) { return requests().transmit(messages.back(), cursor, batch, now); },
                   path);
  }
  bool asks_next() { return leave().at(0).bth.ack_request; }
};

// --- WRITE and SEND ---

TEST(DataPackets, AMessageContinuesPacketByPacket) {
  Writing parts;
  parts.post(WorkOpcode::kRdmaWrite, 2 * parts.kMtu + 5);
  parts.begin();
  const auto packets = parts.leave(3);
  ASSERT_EQ(packets.size(), 3U);
  const RcOp ops[] = {RcOp::kWriteFirst, RcOp::kWriteMiddle, RcOp::kWriteLast};
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(packets[i].op, ops[i]);
    EXPECT_EQ(packets[i].bth.psn, Psn{1000 + i});
    EXPECT_EQ(packets[i].bxth.packet_index, i);
    EXPECT_FALSE(packets[i].bxth.retransmitted);
    EXPECT_TRUE(parts.carries(packets[i], i * parts.kMtu));
  }
  EXPECT_EQ(packets[2].payload.size(), 5U);
  EXPECT_EQ(parts.scoreboard.next(), 3U);
  EXPECT_EQ(parts.scoreboard.flight().bytes, 2 * parts.kMtu + 5);
  EXPECT_EQ(parts.count(Counter::kSentDataPackets), 3U);
}

TEST(DataPackets, UnreadableMemoryIsAFaultAndNothingLeaves) {
  Writing parts;
  parts.post(WorkOpcode::kRdmaWrite, 10);
  parts.begin();
  parts.remove_region();
  EXPECT_THAT(parts.leave(), IsEmpty());
  EXPECT_FALSE(parts.added);
  EXPECT_EQ(parts.fault.due(0), CompletionStatus::kLocalProtectionError);
  EXPECT_TRUE(parts.scoreboard.empty());
}

TEST(DataPackets, AFullBatchTakesNoMore) {
  Writing parts;
  parts.config.segments_max = 2;
  parts.post(WorkOpcode::kRdmaWrite, 4 * parts.kMtu);
  parts.begin();
  EXPECT_EQ(parts.leave(4).size(), 2U);
  EXPECT_FALSE(parts.added);
  EXPECT_EQ(parts.scoreboard.next(), 2U) << "what did not fit has not left";
}

TEST(DataPackets, TheFirstOfAFlightStartsTheTimers) {
  Writing parts;
  parts.post(WorkOpcode::kRdmaWrite, 2 * parts.kMtu);
  parts.begin();
  (void)parts.leave();
  EXPECT_EQ(parts.timers.progress(), parts.now);
  const Instant first = parts.now;
  parts.pass(1_ms);
  (void)parts.leave();
  EXPECT_EQ(parts.timers.progress(), first);
}

TEST(DataPackets, TheStartOfEachSegmentIsCounted) {
  Writing parts;
  parts.config.transfer.threshold_bytes = 16 * parts.kMtu;
  parts.config.transfer.segment_bytes = 8 * parts.kMtu;
  parts.identity.peer_reads_operations = true;
  parts.post(WorkOpcode::kRdmaWrite, 64 * parts.kMtu);
  const Message& message = parts.begin();
  ASSERT_NE(message.segment_packets, 0U);
  while (parts.scoreboard.next() < message.end()) (void)parts.leave(16);
  const std::uint64_t segments = (64 + message.segment_packets - 1u) / message.segment_packets;
  EXPECT_EQ(parts.count(Counter::kOperationsSent), segments);
}

TEST(DataPackets, OnSeveralPathsItNamesItsPathAndThoseBeforeItThere) {
  Writing parts;
  parts.paths = std::make_unique<SendPaths>(2, Spraying::kRoundRobin);
  parts.post(WorkOpcode::kRdmaWrite, 3 * parts.kMtu);
  parts.begin();
  (void)parts.leave(1, 1);
  (void)parts.leave(1, 0);
  const auto packets = parts.leave(1, 1);
  EXPECT_EQ(packets.at(0).bxth.path, 1U);
  EXPECT_EQ(packets.at(0).bxth.before.distance, 2U);
  EXPECT_EQ(parts.scoreboard.entry(0).path, 1U);
  EXPECT_EQ(parts.scoreboard.entry(1).path, 0U);
}

// --- requests for acknowledgements ---

TEST(AckRequests, TheLastOfAllPostedOnesAsks) {
  Writing parts;
  parts.post(WorkOpcode::kRdmaWrite, 2 * parts.kMtu);
  parts.post(WorkOpcode::kRdmaWrite, 10);
  parts.begin();
  EXPECT_FALSE(parts.asks_next());
  EXPECT_FALSE(parts.asks_next()) << "another is posted";
  parts.begin();
  EXPECT_TRUE(parts.asks_next());
}

TEST(AckRequests, LocalOperationsBehindItSendNothing) {
  Writing parts;
  parts.post(WorkOpcode::kRdmaWrite, 10);
  parts.post(WorkOpcode::kLocalInvalidate, 0);
  parts.begin();
  EXPECT_TRUE(parts.asks_next());
}

TEST(AckRequests, AStandardPeerIsAskedWhereTheApplicationWaits) {
  for (const bool bitmap : {true, false}) {
    Writing parts;
    parts.identity.bitmap_agreed = bitmap;
    parts.post(WorkOpcode::kRdmaWrite, 10, kSendSignaled);
    parts.post(WorkOpcode::kRdmaWrite, 10);
    parts.post(WorkOpcode::kRdmaWrite, 10);
    parts.begin();
    EXPECT_EQ(parts.asks_next(), !bitmap);
    parts.begin();
    EXPECT_FALSE(parts.asks_next()) << "unsignaled";
  }
}

TEST(AckRequests, OnePeriodically) {
  Writing parts;
  const SendLimits limits{parts.environment, parts.identity, parts.scoreboard, parts.congestion, parts.admission};
  const std::uint32_t interval = limits.request_interval();
  parts.congestion = {};
  parts.post(WorkOpcode::kRdmaWrite, 120 * parts.kMtu);
  parts.begin();
  std::uint32_t since = 0;
  for (std::uint32_t i = 0; i < std::min(2 * interval, 119U); ++i) {
    ++since;
    const bool asks = parts.asks_next();
    EXPECT_EQ(asks, since == interval) << i;
    if (asks) since = 0;
  }
}

TEST(AckRequests, TheLastThatCreditAdmitsAsks) {
  Writing parts;
  parts.identity.peer_credit = {64, 1u << 30};
  parts.send(62);
  parts.admission.on_asked();  // the last of them
  parts.post(WorkOpcode::kRdmaWrite, 8 * parts.kMtu);
  parts.begin();
  EXPECT_FALSE(parts.asks_next());
  EXPECT_TRUE(parts.asks_next());
}

TEST(AckRequests, SoDoesTheLastThatAReceiverThatIsNotReadyGets) {
  Writing parts;
  parts.post(WorkOpcode::kRdmaWrite, 8 * parts.kMtu);
  parts.begin();
  EXPECT_TRUE(parts.rnr.on_nak(0, 7, true, parts.now));
  EXPECT_TRUE(parts.asks_next());
}

// --- requests with responses ---

TEST(RequestPackets, AReadRequestAsksForItsChunk) {
  Writing parts;
  parts.post(WorkOpcode::kRdmaRead, 3 * parts.kMtu);
  const Message& message = parts.begin();
  const auto packets = parts.request();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].op, RcOp::kReadRequest);
  EXPECT_EQ(packets[0].reth.length, 3 * parts.kMtu);
  EXPECT_EQ(packets[0].reth.address, parts.kRemote);
  EXPECT_TRUE(packets[0].bth.ack_request);
  EXPECT_FALSE(packets[0].bxth.retransmitted);
  EXPECT_EQ(parts.scoreboard.next(), 3U) << "a PSN for each response";
  EXPECT_EQ(parts.packets_in_flight(), 1U) << "for the peer's credit it is one packet";
  EXPECT_TRUE(message.in_flight_counted);
}

TEST(RequestPackets, TheIntervalOfAcknowledgementsBeginsAgainWithIt) {
  Writing parts;
  parts.post(WorkOpcode::kRdmaWrite, 2 * parts.kMtu);
  parts.post(WorkOpcode::kRdmaRead, parts.kMtu);
  parts.begin();
  (void)parts.leave(2);
  EXPECT_EQ(parts.admission.since_request(), 2U);
  parts.begin();
  (void)parts.request();
  EXPECT_EQ(parts.admission.since_request(), 0U);
}

TEST(RequestPackets, AnAtomicWriteCarriesItsData) {
  Writing parts;
  parts.post(WorkOpcode::kAtomicWrite, 8);
  parts.begin();
  const auto packets = parts.request();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].op, RcOp::kAtomicWrite);
  EXPECT_EQ(packets[0].payload.size(), 8U);
}

TEST(RequestPackets, OneOfAPacedReadTakesTokens) {
  Writing parts;
  parts.recovery.congestion.control = CongestionControl::kTimely;
  choose_response_pace(parts.environment, parts.identity, parts.signals);
  ASSERT_NE(parts.pace(), nullptr);
  const auto before = parts.pace()->rate.allowance(parts.now);
  parts.post(WorkOpcode::kRdmaRead, 3 * parts.kMtu);
  parts.begin();
  (void)parts.request();
  EXPECT_LT(parts.pace()->rate.allowance(parts.now), before);
}

// --- copies of READ requests (qp/read/request_copies.h) ---

struct Copying : Writing {
  Copying() {
    identity.peer_knows_copies = true;
    responses.on_request_lost();
  }
  std::vector<wire::Packet> next_read() {
    post(WorkOpcode::kRdmaRead, kMtu);
    begin();
    return request();
  }
};

TEST(RequestCopies, AReadLeavesAgainWithTheNextOne) {
  Copying parts;
  EXPECT_THAT(parts.psns(parts.next_read()), ElementsAre(1000U));
  const auto packets = parts.next_read();
  EXPECT_THAT(parts.psns(packets), ElementsAre(1000U, 1001U));
  EXPECT_TRUE(wire::is_copy(packets[0]));
  EXPECT_FALSE(wire::is_copy(packets[1]));
  EXPECT_EQ(parts.count(Counter::kReadsCopied), 1U);
  EXPECT_EQ(parts.responses.copies_left(), ResponseAdmission::kCopiesAfterLoss - 1);
}

TEST(RequestCopies, EachOnceAndOnlyWhileItIsNeeded) {
  struct Case {
    const char* why;
    void (*change)(Copying&);
  };
  const Case cases[] = {
      {"no request was lost", [](Copying& parts) { parts.responses = ResponseAdmission{}; }},
      {"the peer does not know copies", [](Copying& parts) { parts.identity.peer_knows_copies = false; }},
      {"it is known to have arrived", [](Copying& parts) { parts.messages.back().request_received = true; }},
      {"it was copied", [](Copying& parts) { parts.messages.back().copied = true; }},
      {"it was lost itself", [](Copying& parts) { parts.lose(0); }},
      {"an atomic", [](Copying& parts) { parts.messages.back().kind = MessageKind::kAtomic; }},
  };
  for (const Case& one : cases) {
    Copying parts;
    (void)parts.next_read();
    one.change(parts);
    EXPECT_THAT(parts.psns(parts.next_read()), ElementsAre(1001U)) << one.why;
  }
}

TEST(RequestCopies, ABatchWithoutRoomForBothLeavesTheNextOneWhereItIs) {
  Copying parts;
  (void)parts.next_read();
  parts.config.segments_max = 1;
  EXPECT_THAT(parts.psns(parts.next_read()), ElementsAre(1000U));
  EXPECT_FALSE(parts.added);
  EXPECT_EQ(parts.scoreboard.next(), 1U);
  EXPECT_THAT(parts.psns(parts.request()), ElementsAre(1001U)) << "the next batch";
}

}  // namespace
}  // namespace brdma::qp
