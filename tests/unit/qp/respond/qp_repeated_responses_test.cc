// tests design DN-10: a switch reports dropped responses, or acknowledgements (qp/respond/repeated_responses.h).
#include <gtest/gtest.h>

#include "qp/respond/repeated_responses.h"
#include "support/responder_parts.h"

namespace brdma::qp {
namespace {

using Kind = Response::Kind;

constexpr std::uint32_t kMtu = test::ResponderParts::kMtu, kKey = 77, kMessage = 3;

// Requests that may be reported, and switches' reports.
struct Responding : test::ResponderParts {
  [[nodiscard]] static Response response(std::uint32_t psn, std::uint32_t bytes) {
    Response response;
    response.kind = Kind::kRead;
    response.bitmap = true;
    response.psn = Psn{psn};
    response.rkey = kKey;
    response.address = kStart;
    response.bytes_left = bytes;
    response.message = kMessage;
    return response;
  }
  void log_it(const Response& response, bool is_read = true) {
    log_response(log, identity, response, is_read, kMtu, now);
  }
  // A READ was executed, and its responses have left.
  void read(std::uint32_t psn, std::uint32_t bytes) { log_it(response(psn, bytes)); }
  // Returns how many bytes leave again.
  std::uint64_t report(const wire::Edn& edn) { return repeated().on_report(edn, now); }
  std::uint64_t report(std::uint32_t first, std::uint32_t last) {
    return report({.first = Psn{first}, .last = Psn{last}, .responses = true});
  }
  std::uint64_t report_at(std::uint32_t psn, Instant left) {
    wire::Edn edn{.first = Psn{psn}, .last = Psn{psn}, .responses = true};
    edn.timestamp = wire::timestamp_of(left);
    return report(edn);
  }
  std::uint64_t report_acknowledgement(std::uint32_t psn) {
    return report({.first = Psn{psn}, .last = Psn{psn}, .acknowledgement = true});
  }
  // The first response in the queue leaves.
  void leave() {
    on_left_again(environment, log.get(), resources.front(), now);
    resources.pop();
  }
  [[nodiscard]] bool have_just_left(std::uint32_t first, std::uint32_t count) {
    return repeated().have_just_left(Psn{first}, count, now);
  }
};

TEST(RepeatedResponses, NamedOnesLeaveAgainBeforeWaitingOnes) {
  Responding responder;
  responder.read(1000, 4 * kMtu);
  responder.resources.push(responder.response(1008, kMtu));
  EXPECT_EQ(responder.report(1001, 1002), 2 * kMtu);
  ASSERT_EQ(responder.resources.size(), 2U);
  const Response& again = responder.resources.front();
  EXPECT_EQ(again.kind, Kind::kRead);
  EXPECT_TRUE(again.bitmap && again.replay && again.unasked);
  EXPECT_EQ(again.psn, Psn{1001});
  EXPECT_EQ(again.msn, Responding::kMsn);
  EXPECT_EQ(again.rkey, kKey);
  EXPECT_EQ(again.address, Responding::kStart + kMtu);
  EXPECT_EQ(again.bytes_left, 2 * kMtu);
  EXPECT_EQ(again.message, kMessage);
  EXPECT_EQ(again.packet_index, 1U);
  EXPECT_EQ(responder.count(Counter::kEdnResponses), 0U);
}

TEST(RepeatedResponses, TheLastOneIsAsShortAsItWas) {
  Responding responder;
  responder.read(1000, 2 * kMtu + 452);
  EXPECT_EQ(responder.report(1002, 1002), 452U);
  EXPECT_EQ(responder.resources.front().bytes_left, 452U);
}

TEST(RepeatedResponses, AReportMayNameResponsesToSeveralRequests) {
  Responding responder;
  responder.read(1000, 2 * kMtu);
  responder.read(1002, 2 * kMtu);
  EXPECT_EQ(responder.report(1001, 1002), 2 * kMtu);
  EXPECT_EQ(responder.resources.size(), 2U);
}

TEST(RepeatedResponses, OfRequestsThatHaveNotComeNothingLeaves) {
  Responding responder;
  responder.read(1008, 2 * kMtu);
  EXPECT_EQ(responder.report(1010, 1010), 0U);
  EXPECT_EQ(responder.count(Counter::kEdnStale), 1U);
  EXPECT_EQ(responder.report(1008, 1012), 2 * kMtu);
  EXPECT_EQ(responder.count(Counter::kEdnPacketsUnsent), 3U);
}

TEST(RepeatedResponses, AfterAnErrorNothingLeaves) {
  Responding responder;
  responder.read(1000, kMtu);
  responder.halted = true;
  EXPECT_EQ(responder.report(1000, 1000), 0U);
  EXPECT_EQ(responder.count(Counter::kEdnStale), 1U);
  EXPECT_TRUE(responder.resources.empty());
}

TEST(RepeatedResponses, OneReportCausesABoundedNumber) {
  Responding responder;
  responder.window = bitmap::ReceiveWindow{Psn{6000}, {}, responder.environment.pools.segments};
  responder.read(1000, 2000 * kMtu);
  EXPECT_EQ(responder.report(1000, 2999), 1024 * kMtu);
  EXPECT_EQ(responder.count(Counter::kEdnPacketsUnsent), 976U);
}

TEST(RepeatedResponses, WhatWaitsLeavesOnce) {
  Responding responder;
  responder.read(1000, 4 * kMtu);
  responder.resources.push(responder.response(1000, 4 * kMtu));
  EXPECT_EQ(responder.report(1001, 1002), 0U);
  EXPECT_EQ(responder.count(Counter::kEdnPacketsPending), 2U);
  EXPECT_EQ(responder.resources.size(), 1U);
}

TEST(RepeatedResponses, WithoutRoomTheRequesterAsksAgain) {
  Responding responder;
  responder.read(1000, 4 * kMtu);
  responder.resources.remember_atomic(Psn{1005}, 42, 5);
  while (responder.resources.room_for_replay()) responder.resources.push(Response{});
  const std::size_t full = responder.resources.size();
  EXPECT_EQ(responder.report(1001, 1002), 0U);
  EXPECT_EQ(responder.count(Counter::kEdnPacketsPending), 2U);
  EXPECT_EQ(responder.report(1005, 1005), 0U);
  EXPECT_EQ(responder.count(Counter::kEdnPacketsPending), 3U);
  EXPECT_EQ(responder.resources.size(), full);
}

TEST(RepeatedResponses, AReadNeedsItsRightStill) {
  Responding responder;
  responder.read(1000, 4 * kMtu);
  responder.log_it(responder.response(1004, 0), /*is_read=*/false);  // of a FLUSH
  responder.identity.attributes.access = 0;
  EXPECT_EQ(responder.report(1001, 1002), 0U);
  EXPECT_EQ(responder.count(Counter::kEdnPacketsGone), 2U);
  EXPECT_TRUE(responder.resources.empty());
  responder.report(1004, 1004);
  EXPECT_EQ(responder.resources.size(), 1U);
}

TEST(RepeatedResponses, OfAnUnknownOneNothingLeaves) {
  Responding responder;
  responder.read(1000, 4 * kMtu);
  EXPECT_EQ(responder.report(1005, 1006), 0U);
  EXPECT_EQ(responder.count(Counter::kEdnResponses), 1U);
  EXPECT_TRUE(responder.resources.empty());
}

TEST(RepeatedResponses, AnAtomicsResultLeavesAgain) {
  Responding responder;
  responder.resources.remember_atomic(Psn{1003}, 42, 5);
  EXPECT_EQ(responder.report(1003, 1003), 0U) << "it reads no memory";
  ASSERT_EQ(responder.resources.size(), 1U);
  const Response& again = responder.resources.front();
  EXPECT_EQ(again.kind, Kind::kAtomic);
  EXPECT_TRUE(again.bitmap && again.replay && again.unasked);
  EXPECT_EQ(again.psn, Psn{1003});
  EXPECT_EQ(again.original, 42U);
  EXPECT_EQ(again.msn, 5U);
  EXPECT_EQ(responder.report(1003, 1003), 0U);
  EXPECT_EQ(responder.count(Counter::kEdnPacketsPending), 1U) << "it waits";
  EXPECT_EQ(responder.count(Counter::kEdnResponses), 0U);
}

TEST(RepeatedResponses, AStandardPeersAtomicDoesNot) {
  Responding responder;
  responder.bitmap = false;
  responder.resources.remember_atomic(Psn{1003}, 42, 5);
  EXPECT_EQ(responder.report(1003, 1003), 0U);
  EXPECT_EQ(responder.count(Counter::kEdnResponses), 1U);
  EXPECT_TRUE(responder.resources.empty());
}

TEST(RepeatedResponses, WithoutATimestampNotTwiceWithinTheQuietTime) {
  Responding responder;
  responder.read(1000, 4 * kMtu);
  EXPECT_EQ(responder.report(1001, 1001), kMtu);
  responder.leave();
  EXPECT_EQ(responder.count(Counter::kRetransmittedEdn), 1U);
  responder.pass(responder.recovery.resend_interval_min - 1_us);
  EXPECT_EQ(responder.report(1001, 1001), 0U);
  EXPECT_EQ(responder.count(Counter::kEdnPacketsRecent), 1U);
  responder.pass(1_us);
  EXPECT_EQ(responder.report(1001, 1001), kMtu);
}

TEST(RepeatedResponses, ATimestampNamesTheTransmission) {
  Responding responder;
  responder.read(1000, 4 * kMtu);
  const Instant first = responder.now + 1_us;
  responder.pass(10_us);
  EXPECT_EQ(responder.report_at(1001, first), kMtu);
  const Instant second = responder.now;
  responder.leave();
  responder.pass(1_us);
  EXPECT_EQ(responder.report_at(1001, first), 0U) << "an old notice";
  EXPECT_EQ(responder.count(Counter::kEdnPacketsRecent), 1U);
  EXPECT_EQ(responder.report_at(1001, second), kMtu);
}

TEST(RepeatedResponses, IntoAQueueThatStaysFullOnce) {
  Responding responder;
  responder.read(1000, 4 * kMtu);
  wire::Edn edn{.first = Psn{1001}, .last = Psn{1001}, .responses = true};
  edn.drain = 50_us;
  EXPECT_EQ(responder.report(edn), kMtu);
  responder.leave();
  responder.pass(1_s);
  EXPECT_EQ(responder.report(edn), 0U);
  EXPECT_EQ(responder.count(Counter::kEdnPacketsRecent), 1U);
}

// The peer requests without knowing of it for four quiet times.
TEST(RepeatedResponses, WhatHasJustLeftIsNotSentForARequestToo) {
  Responding responder;
  EXPECT_FALSE(responder.have_just_left(1001, 1)) << "nothing was sent";
  responder.read(1000, 4 * kMtu);
  responder.report(1001, 1001);
  responder.leave();
  const Duration quiet = responder.recovery.resend_interval_min;
  EXPECT_FALSE(responder.have_just_left(1001, 2));
  EXPECT_EQ(responder.count(Counter::kReplaysEdn), 0U);
  responder.pass(quiet * 4);
  EXPECT_TRUE(responder.have_just_left(1001, 1));
  EXPECT_EQ(responder.count(Counter::kReplaysEdn), 1U);
  responder.pass(1_us);
  EXPECT_FALSE(responder.have_just_left(1001, 1));
  responder.round_trip = quiet * 2;
  EXPECT_TRUE(responder.have_just_left(1001, 1)) << "a round trip is longer";
}

TEST(RepeatedResponses, AnAnswerToARequestCountsApart) {
  Responding responder;
  responder.read(1000, 4 * kMtu);
  on_left_again(responder.environment, responder.log.get(), responder.response(1001, kMtu), responder.now);
  EXPECT_EQ(responder.count(Counter::kRetransmittedEdn), 0U);
  EXPECT_FALSE(responder.have_just_left(1001, 1));
}

TEST(RepeatedResponses, AnAcknowledgementIsReplacedByANewOne) {
  Responding responder;
  EXPECT_EQ(responder.report_acknowledgement(1009), 0U);
  EXPECT_EQ(responder.count(Counter::kEdnAcks), 1U);
  EXPECT_TRUE(responder.ack.forced());
  EXPECT_EQ(responder.log, nullptr);
}

TEST(RepeatedResponses, AnAcknowledgementBehindTheLastOneIsNot) {
  Responding responder;
  responder.report_acknowledgement(1008);
  EXPECT_EQ(responder.count(Counter::kEdnStale), 1U);
  EXPECT_FALSE(responder.ack.pending());
}

TEST(RepeatedResponses, AnAcknowledgementOfWhatHasNotComeIsForged) {
  Responding responder;
  responder.report_acknowledgement(1011);
  EXPECT_EQ(responder.count(Counter::kEdnStale), 1U);
  EXPECT_FALSE(responder.ack.pending());
  responder.window.receive(Psn{1015});
  responder.report_acknowledgement(1016);
  EXPECT_EQ(responder.count(Counter::kEdnStale), 2U);
  responder.report_acknowledgement(1015);
  EXPECT_TRUE(responder.ack.forced());
}

TEST(RepeatedResponses, BeforeTheFirstRequestThereIsNoAcknowledgement) {
  Responding responder;
  responder.established = false;
  responder.report_acknowledgement(1009);
  EXPECT_EQ(responder.count(Counter::kEdnStale), 1U);
  EXPECT_FALSE(responder.ack.pending());
}

TEST(LogResponse, KeepsThoseThatASwitchReportsAndWeCanMakeAgain) {
  Responding responder;
  Response standard = responder.response(1000, kMtu);
  standard.bitmap = false;
  responder.log_it(standard);
  EXPECT_EQ(responder.log, nullptr);
  Response by_reference = responder.response(1000, kMtu);
  by_reference.by_reference = true;
  responder.log_it(by_reference);
  EXPECT_EQ(responder.log, nullptr);
  responder.recovery.edn = false;
  responder.read(1000, kMtu);
  EXPECT_EQ(responder.log, nullptr);
  responder.recovery.edn = true;
  responder.read(1000, kMtu);
  ASSERT_NE(responder.log, nullptr);
  EXPECT_NE(responder.log->find(Psn{1000}), nullptr);
}

}  // namespace
}  // namespace brdma::qp
