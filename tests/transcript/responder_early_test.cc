// Packets that come before their turn: placed, held, or dropped silently (design BR-2).
#include "support/responder_script.h"

namespace brdma {
namespace {

using test::kScriptMtu;
using wire::RcOp;
using Script = test::ResponderScript;

test::ScriptOptions standard() { return {.bitmap_agreed = false}; }

wire::Packet with_immediate(wire::Packet p, RcOp op, std::uint32_t immediate, std::uint32_t rsn) {
  p.op = op;
  p.bth.opcode = wire::opcode_of(op, p.bitmap);
  p.immediate_be = immediate;
  p.bxth.rsn = rsn;
  return p;
}

TEST(EarlyBitmap, WriteIsPlacedAtOnceButItsLastPacketIsNot) {
  Script rx;
  rx.at(0_us).gets(rx.write(1001, 1, 700)).gets(rx.write(1002, 2, 700));
  EXPECT_TRUE(rx.holds(256, 1001));
  EXPECT_FALSE(rx.holds(512, 1002, 188)) << "who polls on the last byte would believe that all is there";
  rx.gets(rx.write(1000, 0, 700));
  EXPECT_TRUE(rx.holds(0, 1000) && rx.holds(256, 1001) && rx.holds(512, 1002, 188));
  rx.counts(Counter::kPlacedEarly, 1).counts(Counter::kHeldPackets, 1).counts(Counter::kOutOfSequence, 2);
  rx.sends({"back base=1003 msn=1"});
}

TEST(EarlyBitmap, SendGoesIntoTheReceiveThatItsNumberNames) {
  Script rx;
  rx.posts_receive(1000).posts_receive(1000).posts_receive(1000);
  // Three SENDs of two packets; the last comes first, the first last.
  rx.at(0_us).gets(rx.send(1004, 0, 300, 2)).gets(rx.send(1005, 1, 300, 2));
  EXPECT_TRUE(rx.received(2 * Script::kReceiveStride, 1004));
  EXPECT_FALSE(rx.received(2 * Script::kReceiveStride + 256, 1005, 44));
  rx.gets(rx.send(1002, 0, 300, 1)).gets(rx.send(1003, 1, 300, 1)).completes({});
  rx.gets(rx.send(1001, 1, 300, 0)).completes({});
  rx.gets(rx.send(1000, 0, 300, 0)).completes({"1 ok 300", "2 ok 300", "3 ok 300"});
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(rx.received(i * Script::kReceiveStride, 1000 + 2 * i));
    EXPECT_TRUE(rx.received(i * Script::kReceiveStride + 256, 1001 + 2 * i, 44));
  }
}

TEST(EarlyBitmap, NumbersGoOnFromWhatWasCompleted) {
  Script rx;
  rx.posts_receive(1000).posts_receive(1000).posts_receive(1000);
  rx.at(0_us).gets(rx.send(1000, 0, 8, 0));
  rx.gets(rx.send(1001, 0, 600, 1)).gets(rx.send(1003, 2, 600, 1)).gets(rx.send(1004, 0, 8, 2));
  rx.gets(rx.send(1002, 1, 600, 1)).completes({"1 ok 8", "2 ok 600", "3 ok 8"});
  EXPECT_TRUE(rx.received(Script::kReceiveStride + 256, 1002));
}

TEST(EarlyBitmap, SendWithoutItsReceiveIsNotKept) {
  Script rx;
  rx.posts_receive(1000);
  rx.at(0_us).gets(rx.send(1001, 0, 300, 1)).gets(rx.send(1003, 0, 8, 2)).drops(DropReason::kEarlyNoReceive, 2);
  rx.posts_receive(1000).gets(rx.send(1001, 0, 300, 1));
  rx.gets(rx.send(1000, 0, 8, 0)).gets(rx.send(1002, 1, 300, 1)).completes({"1 ok 8", "2 ok 300"});
}

TEST(EarlyBitmap, WriteWithImmediateWaitsForItsReceiveToo) {
  Script rx;
  const auto write = with_immediate(rx.write(1001, 0, 16), RcOp::kWriteOnlyImm, 7, 0);
  rx.at(0_us).gets(write).drops(DropReason::kEarlyNoReceive, 1);
  rx.posts_receive(0).gets(write).completes({});
  rx.gets(rx.data(1000)).completes({"1 ok 16 write imm=7"});
}

TEST(EarlyBitmap, AtomicsAndReadsWaitAndAreDoneInOrder) {
  Script rx;
  rx.at(0_us).gets(rx.read(1003, 300)).gets(rx.fetch_add(1002, 0, 10)).gets(rx.fetch_add(1001, 0, 1)).reports({});
  std::uint64_t value = 0;
  std::memcpy(&value, rx.region_bytes.data(), 8);
  EXPECT_EQ(value, 0u);
  rx.gets(rx.fetch_add(1000, 0, 100));
  rx.reports({"bitmap atomic 1000 original=0", "bitmap atomic 1001 original=100", "bitmap atomic 1002 original=101",
              "bitmap read_first 1003 256B index=0", "bitmap read_last 1004 44B index=1"});
}

TEST(EarlyBitmap, ReadMarksAllItsResponses) {
  Script rx;
  rx.at(0_us).gets(rx.read(1001, 700)).sends({});
  rx.at(5_us).sends({"back base=1000 msn=0 bits=0111"});
  rx.gets(rx.data(1002)).drops(DropReason::kDuplicate, 1);
  rx.gets(Script::asking(rx.data(1004)));
  rx.gets(rx.data(1000))
      .reports({"bitmap read_first 1001 256B index=0", "bitmap read_middle 1002 256B index=1",
                "bitmap read_last 1003 188B index=2"});
  rx.gets(Script::asking(rx.data(1005))).sends({"back base=1006 msn=4"});
}

TEST(EarlyBitmap, ReadThatClaimsOthersPsnsIsNotKept) {
  Script rx;
  rx.at(0_us).gets(rx.data(1003)).gets(rx.read(1001, 700)).drops(DropReason::kEarlyInvalid, 1);
  rx.gets(rx.read(1000, 5 * kScriptMtu)).sends({"bnak_invalid base=1000 msn=0 bits=0001"});
}

TEST(EarlyBitmap, FaultsAreJudgedInOrderOnly) {
  Script rx;
  rx.posts_receive(100);
  auto bad_key = rx.write(1001, 0, 600);
  bad_key.reth.rkey = 0xBAD;
  auto too_far = rx.write(1001, 1, 600, test::kScriptRegion - 512);  // its own bytes fit, the whole message does not
  auto not_last = rx.write(1001, 0, 600);
  not_last.reth.length = 256;
  auto short_middle = rx.write(1001, 1, 600);
  short_middle.payload = short_middle.payload.first(100);
  auto wild_index = rx.write(1001, 1, 600);
  wild_index.bxth.packet_index = 0xFF'FFFF;
  auto wild_send = rx.send(1001, 1, 600, 0);
  wild_send.bxth.packet_index = 0xFF'FFFF;
  auto misaligned = rx.fetch_add(1001, 4, 1);
  const wire::Packet faulty[] = {bad_key,
                                 too_far,
                                 not_last,
                                 short_middle,
                                 wild_index,
                                 wild_send,
                                 misaligned,
                                 rx.send(1001, 0, 600, 0),
                                 rx.read(1001, 8, test::kScriptRegion)};
  const test::Bytes before = rx.region_bytes;
  for (const auto& packet : faulty) rx.at(0_us).gets(packet);
  rx.sends({}).drops(DropReason::kEarlyInvalid, std::size(faulty)).completes({});
  EXPECT_EQ(rx.region_bytes, before);
  EXPECT_FALSE(rx.failed);
  rx.gets(rx.data(1000)).gets(bad_key).sends({"bnak_access base=1001 msn=1"}).fails(qp::kEventQpAccessError);
}

// A placed packet that, in order, belongs to a different message.
TEST(EarlyBitmap, LyingAboutOnesPlaceIsFoundOut) {
  Script rx;
  rx.posts_receive(1000).posts_receive(1000);
  rx.at(0_us).gets(rx.send(1001, 1, 700, 1)).gets(rx.send(1000, 0, 700, 0));
  rx.sends({"bnak_invalid base=1001 msn=0"}).completes({"1 status 5", "2 status 5"});
}

TEST(EarlyBitmap, WindowEndsWhereItWasAnnounced) {
  test::ScriptOptions options;
  options.recovery.window_packets = 64;
  Script rx{options};
  rx.at(0_us).gets(rx.data(1064)).drops(DropReason::kOutOfWindow, 1);
  rx.gets(rx.data(1063)).counts(Counter::kHeldPackets, 1);
  rx.gets(rx.read(1062, 2 * kScriptMtu)).drops(DropReason::kEarlyInvalid, 1);
  rx.gets(rx.read(1050, 15 * kScriptMtu)).drops(DropReason::kOutOfWindow, 2);
  rx.gets(rx.data(1000 + 0x70'0000)).drops(DropReason::kOutOfWindow, 3);
}

TEST(EarlyBitmap, HoldingIsBounded) {
  test::ScriptOptions options;
  options.recovery.hold_bytes_max = 4 * kScriptMtu;  // of small buffers as well as large ones: MTU is 256 here
  Script rx{options};
  for (std::uint32_t i = 1; i <= 5; ++i) rx.at(0_us).gets(rx.data(1000 + i));
  rx.drops(DropReason::kHoldFull, 1).counts(Counter::kHeldPackets, 4);
  rx.gets(rx.write(1006, 0, 600));  // placed: needs no room
  rx.counts(Counter::kPlacedEarly, 1).sends({});
  rx.gets(rx.data(1000)).sends({"back base=1005 msn=5 bits=01"});
  rx.gets(rx.data(1005)).gets(rx.data(1009)).counts(Counter::kHeldPackets, 5);  // there is room again
}

TEST(EarlyBitmap, LatePacketDoesNotUndoALaterWrite) {
  Script rx;
  // Messages A (1000..1002), B (1003..1005) and C (1006..1008) to one buffer. A's middle and B's first are late.
  for (const std::uint32_t psn : {1000u, 1002u}) rx.at(0_us).gets(rx.write(psn, psn - 1000, 768));
  for (const std::uint32_t psn : {1004u, 1005u}) rx.gets(rx.write(psn, psn - 1003, 768));
  rx.gets(rx.write(1006, 0, 768));
  EXPECT_TRUE(rx.holds(256, 1004));
  rx.gets(rx.write(1003, 0, 768));
  EXPECT_TRUE(rx.holds(0, 1006)) << "B's first packet undid C's";
  rx.gets(rx.write(1001, 1, 768));
  EXPECT_TRUE(rx.holds(256, 1004)) << "A's middle packet undid B's";
  EXPECT_TRUE(rx.holds(512, 1005));
  rx.gets(rx.write(1007, 1, 768)).gets(rx.write(1008, 2, 768));
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(rx.holds(i * 256, 1006 + i));
  rx.sends({"back base=1009 msn=3"});
}

TEST(EarlyBitmap, OverlapByPart) {
  Script rx;
  // B begins 100 bytes into A's second packet.
  rx.at(0_us).gets(rx.write(1000, 0, 600)).gets(rx.write(1003, 0, 600, 356));
  const auto late = rx.write(1001, 1, 600);
  rx.gets(late);
  EXPECT_TRUE(rx.holds(256, 1001, 100));
  EXPECT_TRUE(rx.holds(356, 1003));
}

TEST(EarlyStandard, EverythingIsHeldAndDoneInOrder) {
  Script rx{standard()};
  rx.posts_receive(1000).posts_receive(1000);
  rx.at(0_us).gets(rx.write(1001, 1, 700)).gets(rx.write(1002, 2, 700)).gets(rx.send(1003, 0, 300));
  rx.gets(rx.send(1004, 1, 300)).gets(rx.fetch_add(1005, 1024, 1)).gets(rx.read(1006, 8)).gets(rx.send(1007, 0, 4));
  EXPECT_FALSE(rx.holds(256, 1001));
  rx.sends({}).completes({}).counts(Counter::kHeldPackets, 7);
  rx.gets(rx.write(1000, 0, 700)).completes({"1 ok 300", "2 ok 4"});
  EXPECT_TRUE(rx.holds(0, 1000) && rx.holds(256, 1001) && rx.holds(512, 1002, 188));
  rx.sends({"atomic 1005 original=0", "read_only 1006 8B", "ack 1007 msn=5"});
}

TEST(EarlyStandard, ReceiveMissingForAHeldSend) {
  Script rx{standard()};
  rx.at(0_us).gets(rx.send(1001, 0, 8)).gets(rx.send(1002, 0, 8)).gets(rx.data(1000));
  rx.sends({"rnr(12) 1001 msn=1"});
  // The receive is posted before the peer comes back: no need to wait for it.
  rx.posts_receive(8).at(0_us).completes({"1 ok 8"}).sends({"rnr(12) 1002 msn=2"});
  rx.posts_receive(8).gets(rx.send(1002, 0, 8)).completes({"2 ok 8"});
  rx.gets(rx.data(1003)).counts(Counter::kSentRnr, 2);
}

// A standard SEND from before the agreement on bitmap mode has been acknowledged as arrived: the RNR NAK may be lost,
// and that SEND will not come again (random world 56055).
TEST(EarlyStandard, RnrNakIsRepeatedForWhatIsSentAgainBehindAHeldSend) {
  Script rx{standard()};
  rx.at(0_us).gets(rx.send(1001, 0, 8)).gets(rx.data(1000)).sends({"rnr(12) 1001 msn=1"});
  rx.identity.bitmap_agreed = true;
  rx.gets(rx.data(1002)).forget();
  rx.at(500_us).gets(rx.data(1003)).sends({});  // in flight when the first left
  rx.at(1000_us).gets(Script::again(rx.data(1002))).sends({"brnr(12) base=1001 msn=1"});
  rx.posts_receive(8).at(1000_us).completes({"1 ok 8"});
}

TEST(EarlyStandard, FaultOfAHeldPacketIsAnsweredWhenItsTurnComes) {
  Script rx{standard()};
  auto bad = rx.write(1001, 0, 8);
  bad.reth.rkey = 0xBAD;
  rx.at(0_us).gets(bad).sends({});
  rx.gets(rx.data(1000)).sends({"nak_access 1001 msn=1"}).fails(qp::kEventQpAccessError);
}

TEST(GoBackN, NothingIsHeld) {
  Script rx{{.mode = RecoveryMode::kGoBackN}};
  rx.at(0_us).gets(rx.data(1002)).gets(rx.data(1003)).sends({"nak_sequence 1000 msn=0"});
  rx.drops(DropReason::kOutOfOrder, 2).counts(Counter::kSentSeqNak, 1);
  // Once, until the right PSN comes; then armed again.
  rx.at(1000_us).gets(rx.data(1004)).sends({});
  rx.gets(rx.data(1000)).gets(rx.data(1002)).sends({"nak_sequence 1001 msn=1"});
  rx.gets(rx.data(1001)).gets(rx.data(1002)).gets(Script::asking(rx.data(1003))).sends({"ack 1003 msn=4"});
  rx.counts(Counter::kHeldPackets, 0);
}

}  // namespace
}  // namespace brdma
