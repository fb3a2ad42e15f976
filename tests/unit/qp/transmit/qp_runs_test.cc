// qp/transmit/small_runs.h and middle_runs.h: packets that leave in runs are those that leave one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "qp/transmit/middle_runs.h"
#include "qp/transmit/small_runs.h"
#include "transmitting_parts.h"

namespace brdma::qp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using wire::RcOp;

struct Running : test::TransmittingParts {
  std::vector<wire::Packet> run() {
    return written([&](PayloadCursor& cursor, TransmitBatch& batch) { return small().transmit(cursor, batch, now); });
  }
  std::vector<wire::Packet> run_middle() {
    return written([&](PayloadCursor& cursor, TransmitBatch& batch) {
      return middle().transmit(messages.back(), cursor, batch, now);
    });
  }
  // One by one, as the general path writes them.
  std::vector<wire::Packet> alone(int packets) {
    return written([&](PayloadCursor& cursor, TransmitBatch& batch) {
      while (packets-- > 0) {
        if (messages.all_left(scoreboard.next())) start().begin();
        EXPECT_TRUE(data().transmit(messages.back(), cursor, batch, now));
      }
      return true;
    });
  }
  void begin_long(std::uint32_t packets) {
    post(WorkOpcode::kRdmaWrite, packets * kMtu);
    start().begin();
  }
};

void expect_same(const std::vector<wire::Packet>& a, const std::vector<wire::Packet>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].bth.opcode, b[i].bth.opcode) << i;
    EXPECT_EQ(a[i].bth.psn, b[i].bth.psn) << i;
    EXPECT_EQ(a[i].bth.ack_request, b[i].bth.ack_request) << i;
    EXPECT_EQ(a[i].bth.solicited, b[i].bth.solicited) << i;
    EXPECT_EQ(a[i].bxth.msn, b[i].bxth.msn) << i;
    EXPECT_EQ(a[i].bxth.rsn, b[i].bxth.rsn) << i;
    EXPECT_EQ(a[i].bxth.packet_index, b[i].bxth.packet_index) << i;
    EXPECT_EQ(a[i].bxth.timestamp, b[i].bxth.timestamp) << i;
    EXPECT_EQ(a[i].reth.address, b[i].reth.address) << i;
    EXPECT_EQ(a[i].payload.size(), b[i].payload.size()) << i;
  }
}

void expect_same_state(Running& a, Running& b) {
  EXPECT_EQ(a.scoreboard.next(), b.scoreboard.next());
  EXPECT_EQ(a.scoreboard.flight().packets, b.scoreboard.flight().packets);
  EXPECT_EQ(a.scoreboard.flight().bytes, b.scoreboard.flight().bytes);
  EXPECT_EQ(a.scoreboard.flight().pipe, b.scoreboard.flight().pipe);
  EXPECT_EQ(a.next.msn, b.next.msn);
  EXPECT_EQ(a.next.rsn, b.next.rsn);
  EXPECT_EQ(a.queue.next(), b.queue.next());
  EXPECT_EQ(a.messages.size(), b.messages.size());
  EXPECT_EQ(a.admission.since_request(), b.admission.since_request());
  EXPECT_EQ(a.timers.progress(), b.timers.progress());
  EXPECT_EQ(a.count(Counter::kSentDataPackets), b.count(Counter::kSentDataPackets));
}

// --- small requests ---

TEST(SmallRuns, ARunIsWhatItsPacketsAreAlone) {
  for (const WorkOpcode opcode : {WorkOpcode::kRdmaWrite, WorkOpcode::kSend}) {
    Running run, one;
    for (Running* parts : {&run, &one})
      for (const std::uint32_t bytes : {64, 64, 64, 0}) parts->post(opcode, bytes, kSendSolicited);
    expect_same(run.run(), one.alone(4));
    expect_same_state(run, one);
  }
}

TEST(SmallRuns, ItEndsAtAnotherKind) {
  Running parts;
  parts.post(WorkOpcode::kRdmaWrite, 64);
  parts.post(WorkOpcode::kSend, 64);
  EXPECT_THAT(parts.psns(parts.run()), ElementsAre(1000U));
  EXPECT_THAT(parts.psns(parts.run()), ElementsAre(1001U));
  EXPECT_THAT(parts.run(), IsEmpty());
  EXPECT_FALSE(parts.added);
}

TEST(SmallRuns, ItEndsWhereTheCreditEnds) {
  Running parts;
  parts.identity.peer_credit = {64, 1u << 30};
  parts.send(62);
  parts.admission.on_asked();  // the last of them
  for (int i = 0; i < 4; ++i) parts.post(WorkOpcode::kRdmaWrite, 64);
  const auto packets = parts.run();
  EXPECT_THAT(parts.psns(packets), ElementsAre(1062U, 1063U));
  EXPECT_FALSE(packets.at(0).bth.ack_request);
  EXPECT_TRUE(packets.at(1).bth.ack_request);
  EXPECT_THAT(parts.run(), IsEmpty());
}

TEST(SmallRuns, EverythingElseIsLeftToOthers) {
  struct Case {
    const char* why;
    void (*change)(Running&);
  };
  const Case cases[] = {
      {"a standard peer", [](Running& parts) { parts.identity.bitmap_agreed = false; }},
      {"several paths", [](Running& parts) { parts.paths = std::make_unique<SendPaths>(2, Spraying::kRoundRobin); }},
      {"a fault", [](Running& parts) { parts.fault.set(0, CompletionStatus::kLocalProtectionError); }},
      {"the sender judges", [](Running& parts) { parts.judge = std::make_unique<SenderJudge>(parts.recovery); }},
      {"a receiver that is not ready", [](Running& parts) { (void)parts.rnr.on_nak(0, 7, true, parts.now); }},
      {"SQD", [](Running& parts) { parts.identity.state = QpState::kSqd; }},
      {"a READ is being cut", [](Running& parts) { parts.next.cut = 1; }},
      {"small ones are large commands", [](Running& parts) { parts.config.transfer.threshold_bytes = 64; }},
      {"its memory is gone", [](Running& parts) { parts.remove_region(); }},
  };
  for (const Case& one : cases) {
    Running parts;
    parts.post(WorkOpcode::kRdmaWrite, 64);
    one.change(parts);
    EXPECT_THAT(parts.run(), IsEmpty()) << one.why;
    EXPECT_EQ(parts.queue.next(), 0U) << one.why;
    EXPECT_FALSE(parts.added) << one.why;
  }
  Running fenced;
  fenced.post(WorkOpcode::kRdmaWrite, 64, kSendFence);
  EXPECT_THAT(fenced.run(), IsEmpty());
  Running large;
  large.post(WorkOpcode::kRdmaWrite, kCopiedBytesMax + 1);
  EXPECT_THAT(large.run(), IsEmpty());
  Running immediate;
  immediate.post(WorkOpcode::kRdmaWriteWithImm, 64);
  EXPECT_THAT(immediate.run(), IsEmpty());
  Running begun;
  begun.post(WorkOpcode::kRdmaWrite, 2 * begun.kMtu);
  begun.start().begin();
  begun.post(WorkOpcode::kRdmaWrite, 64);
  EXPECT_THAT(begun.run(), IsEmpty()) << "a message before it has not left";
  Running missing;
  missing.send(2);
  missing.report(1);
  missing.post(WorkOpcode::kRdmaWrite, 64);
  EXPECT_THAT(missing.run(), IsEmpty()) << "a packet is missing";
}

TEST(SmallRuns, ItEndsAtAFence) {
  Running parts;
  parts.post(WorkOpcode::kRdmaWrite, 64);
  parts.post(WorkOpcode::kRdmaWrite, 64, kSendFence);
  EXPECT_EQ(parts.run().size(), 1U);
}

TEST(SmallRuns, ItEndsWhereTheCreditForBytesEnds) {
  Running parts;
  parts.identity.peer_credit = {64, 2 * 64 + 63};
  for (int i = 0; i < 4; ++i) parts.post(WorkOpcode::kRdmaWrite, 64);
  EXPECT_EQ(parts.run().size(), 2U);
}

TEST(SmallRuns, ItEndsWithTheBatch) {
  Running parts;
  parts.config.segments_max = 2;
  for (int i = 0; i < 4; ++i) parts.post(WorkOpcode::kRdmaWrite, 64);
  EXPECT_EQ(parts.run().size(), 2U);
}

// --- MIDDLE packets ---

TEST(MiddleRuns, ARunIsWhatItsPacketsAreAlone) {
  Running run, one;
  run.begin_long(10);
  one.begin_long(10);
  (void)run.alone(1);
  (void)one.alone(1);
  const auto packets = run.run_middle();
  EXPECT_EQ(packets.size(), 8U) << "neither the first nor the last";
  for (const wire::Packet& packet : packets) EXPECT_EQ(packet.op, RcOp::kWriteMiddle);
  expect_same(packets, one.alone(8));
  expect_same_state(run, one);
}

TEST(MiddleRuns, NeitherTheFirstNorTheLastNorAnotherMessage) {
  Running parts;
  parts.begin_long(4);
  EXPECT_THAT(parts.run_middle(), IsEmpty()) << "the first";
  (void)parts.alone(1);
  EXPECT_EQ(parts.run_middle().size(), 2U);
  EXPECT_THAT(parts.run_middle(), IsEmpty()) << "the last";
  Running segmented;
  segmented.begin_long(10);
  segmented.messages.back().segment_packets = 4;
  (void)segmented.alone(1);
  EXPECT_THAT(segmented.run_middle(), IsEmpty());
}

TEST(MiddleRuns, EverythingElseIsLeftToOthers) {
  struct Case {
    const char* why;
    void (*change)(Running&);
  };
  const Case cases[] = {
      {"a standard peer", [](Running& parts) { parts.identity.bitmap_agreed = false; }},
      {"several paths", [](Running& parts) { parts.paths = std::make_unique<SendPaths>(2, Spraying::kRoundRobin); }},
      {"the first is missing", [](Running& parts) { parts.scoreboard.note_arrived(1); }},
      {"a READ", [](Running& parts) { parts.messages.back().kind = MessageKind::kRead; }},
      {"by reference", [](Running& parts) { parts.messages.back().by_reference = 16; }},
  };
  for (const Case& one : cases) {
    Running parts;
    parts.begin_long(10);
    (void)parts.alone(1);
    one.change(parts);
    EXPECT_THAT(parts.run_middle(), IsEmpty()) << one.why;
    EXPECT_EQ(parts.scoreboard.next(), 1U) << one.why;
  }
}

TEST(MiddleRuns, TheCreditAndTheBatchBoundIt) {
  Running parts;
  parts.config.segments_max = 4;
  parts.begin_long(20);
  (void)parts.alone(1);
  EXPECT_EQ(parts.run_middle().size(), 4U);
  parts.identity.peer_credit = {7, 1u << 30};
  const auto packets = parts.run_middle();
  EXPECT_EQ(packets.size(), 2U);
  EXPECT_TRUE(packets.back().bth.ack_request);
}

TEST(MiddleRuns, UnreadableMemoryIsLeftToThePacketAlone) {
  Running parts;
  parts.begin_long(10);
  (void)parts.alone(1);
  parts.remove_region();
  EXPECT_THAT(parts.run_middle(), IsEmpty());
  EXPECT_FALSE(parts.fault.is_set());
  EXPECT_EQ(parts.scoreboard.next(), 1U);
}

}  // namespace
}  // namespace brdma::qp
