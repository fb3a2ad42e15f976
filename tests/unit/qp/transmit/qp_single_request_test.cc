// qp/transmit/single_request.h: a single small request is what a run of one packet is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "qp/transmit/single_request.h"
#include "transmitting_parts.h"

namespace brdma::qp {
namespace {

using testing::IsEmpty;

struct Alone : test::TransmittingParts {
  // `room`: behind BXTH, for an acknowledgement.
  std::vector<wire::Packet> leave(std::size_t room = 0) {
    return batch_of([&](TransmitBatch& batch) { return single().transmit(batch, room, now); });
  }
};

TEST(SingleRequest, ItIsARunOfOnePacket) {
  for (const WorkOpcode opcode : {WorkOpcode::kRdmaWrite, WorkOpcode::kSend}) {
    Alone single, run;
    for (Alone* parts : {&single, &run}) parts->post(opcode, 64, kSendSolicited);
    const auto a = single.leave();
    const auto b = run.written(
        [&](PayloadCursor& cursor, TransmitBatch& batch) { return run.small().transmit(cursor, batch, run.now); });
    ASSERT_EQ(a.size(), 1U);
    ASSERT_EQ(b.size(), 1U);
    EXPECT_EQ(single.on_wire, run.on_wire) << "byte by byte";
    EXPECT_TRUE(a[0].bth.ack_request);
    EXPECT_TRUE(single.carries(a[0], 0));
    EXPECT_EQ(single.next.msn, run.next.msn);
    EXPECT_EQ(single.next.rsn, run.next.rsn);
    EXPECT_EQ(single.scoreboard.next(), run.scoreboard.next());
    EXPECT_EQ(single.scoreboard.flight().bytes, run.scoreboard.flight().bytes);
    EXPECT_EQ(single.admission.since_request(), run.admission.since_request());
    EXPECT_EQ(single.queue.next(), 1U);
    EXPECT_EQ(single.messages.back().packets, 1U);
  }
}

TEST(SingleRequest, EverythingElseIsLeftToOthers) {
  struct Case {
    const char* why;
    void (*change)(Alone&);
  };
  const Case cases[] = {
      {"another is posted", [](Alone& parts) { parts.post(WorkOpcode::kRdmaWrite, 64); }},
      {"a standard peer", [](Alone& parts) { parts.identity.bitmap_agreed = false; }},
      {"losses", [](Alone& parts) { (void)parts.sent().repairing(); }},
      {"a rate",
       [](Alone& parts) {
         parts.recovery.congestion.control = CongestionControl::kTimely;
         parts.rate().configure();
       }},
      {"the wait after an RNR NAK", [](Alone& parts) { (void)parts.rnr.on_nak(0, 7, false, parts.now + 1_ms); }},
      {"several paths", [](Alone& parts) { parts.paths = std::make_unique<SendPaths>(2, Spraying::kRoundRobin); }},
      {"SQD", [](Alone& parts) { parts.identity.state = QpState::kSqd; }},
      {"a READ is being cut", [](Alone& parts) { parts.next.cut = 1; }},
      {"small ones are large commands", [](Alone& parts) { parts.config.transfer.threshold_bytes = 64; }},
      {"no credit for its packet",
       [](Alone& parts) {
         parts.identity.peer_credit = {0, 1u << 30};
       }},
      {"no credit for its bytes",
       [](Alone& parts) {
         parts.identity.peer_credit = {1, 63};
       }},
      {"its memory is gone", [](Alone& parts) { parts.remove_region(); }},
  };
  for (const Case& one : cases) {
    Alone parts;
    parts.post(WorkOpcode::kRdmaWrite, 64);
    one.change(parts);
    EXPECT_THAT(parts.leave(), IsEmpty()) << one.why;
    EXPECT_FALSE(parts.added) << one.why;
    EXPECT_EQ(parts.queue.next(), 0U) << one.why;
    EXPECT_TRUE(parts.messages.empty()) << one.why;
  }
  Alone busy;
  busy.send(1);
  busy.post(WorkOpcode::kRdmaWrite, 64);
  EXPECT_THAT(busy.leave(), IsEmpty()) << "something is in flight";
  Alone begun;
  begun.post(WorkOpcode::kRdmaWrite, 64);
  begun.start().begin();
  begun.post(WorkOpcode::kRdmaWrite, 64);
  EXPECT_THAT(begun.leave(), IsEmpty()) << "a message before it has begun";
  Alone scattered;
  scattered.post_scattered(WorkOpcode::kRdmaWrite, 32, 32);
  EXPECT_THAT(scattered.leave(), IsEmpty()) << "its memory is in two pieces";
}

TEST(SingleRequest, AFullBatchTakesNoMore) {
  for (const std::size_t room : {std::size_t{0}, wire::kPiggybackSize}) {
    Alone first, second;
    first.config.segments_max = 1;
    for (Alone* parts : {&first, &second}) parts->post(WorkOpcode::kRdmaWrite, 64);
    (void)first.batch_of([&](TransmitBatch& batch) {
      EXPECT_TRUE(first.single().transmit(batch, 0, first.now));
      EXPECT_FALSE(second.single().transmit(batch, room, second.now));
      return true;
    });
    EXPECT_EQ(second.queue.next(), 0U);
  }
}

TEST(SingleRequest, WithAnAcknowledgementItIsNoLongerThanThePathMtuAllows) {
  for (const std::uint32_t bytes : {220U, 224U}) {
    Alone parts;
    parts.identity.attributes.path_mtu = PathMtu::k256;
    parts.post(WorkOpcode::kRdmaWrite, bytes);
    (void)parts.batch_of(
        [&](TransmitBatch& batch) { return parts.single().transmit(batch, wire::kPiggybackSize, parts.now); });
    EXPECT_EQ(parts.added, bytes == 220) << bytes;
  }
}

}  // namespace
}  // namespace brdma::qp
