// A responder's refusals: the NAK, and the queue pair's state afterwards.
#include "support/responder_script.h"

namespace brdma {
namespace {

using test::kScriptMtu;
using test::kScriptVa;
using wire::RcOp;
using Script = test::ResponderScript;

class Refusal : public testing::TestWithParam<bool> {
 protected:
  static test::ScriptOptions options() {
    test::ScriptOptions options;
    options.bitmap_agreed = GetParam();
    return options;
  }
  // NAK of the next PSN, in this kind of peer's form.
  static std::string nak(const std::string& what, std::uint32_t psn, std::uint32_t msn) {
    const std::string n = std::to_string(psn), m = " msn=" + std::to_string(msn);
    return GetParam() ? "b" + what + " base=" + n + m : what + " " + n + m;
  }
  void expect_invalid(const wire::Packet& packet) { expect_refused(packet, "nak_invalid", qp::kEventQpRequestError); }
  void expect_no_access(const wire::Packet& packet) { expect_refused(packet, "nak_access", qp::kEventQpAccessError); }
  // The first packet of a fresh queue pair, one receive posted.
  static void expect_refused(const wire::Packet& packet, const std::string& what, int event) {
    SCOPED_TRACE(testing::Message() << "opcode " << unsigned{packet.bth.opcode});
    Script rx{options()};
    rx.posts_receive(100);
    auto own = packet;
    own.reth.rkey = packet.reth.rkey == 0 ? rx.region->key : packet.reth.rkey;
    own.atomic.rkey = packet.atomic.rkey == 0 ? rx.region->key : packet.atomic.rkey;
    const test::Bytes before = rx.region_bytes;
    rx.at(0_us).gets(own).sends({nak(what, 1000, 0)}).fails(event);
    EXPECT_EQ(rx.region_bytes, before);
    // Nothing is accepted any more; the unused receive was flushed.
    rx.completes({"1 status 5"}).gets(rx.data(1000)).sends({}).drops(DropReason::kAfterError, 1);
    EXPECT_EQ(rx.responder->next_timeout(), std::nullopt);
  }
  // rkey 0 stands for the right one, which differs in each script.
  wire::Packet unkeyed(wire::Packet p) {
    p.reth.rkey = p.atomic.rkey = 0;
    return p;
  }
  Script maker{options()};
};
INSTANTIATE_TEST_SUITE_P(Kinds, Refusal, testing::Values(true, false),
                         [](const auto& kind) { return kind.param ? "Bitmap" : "Standard"; });

TEST_P(Refusal, PacketsOutOfPlace) {
  expect_invalid(unkeyed(maker.send(1000, 1, 600)));                     // SEND Middle first
  expect_invalid(unkeyed(maker.packet(RcOp::kSendLast, 1000, 8)));       // SEND Last first
  expect_invalid(unkeyed(maker.packet(RcOp::kWriteMiddle, 1000, 256)));  // WRITE Middle first
  expect_invalid(unkeyed(maker.packet(RcOp::kWriteLastImm, 1000, 8)));
}

TEST_P(Refusal, AnotherOperationInTheMiddleOfAMessage) {
  const auto inside_send = [&](const wire::Packet& packet) {
    Script rx{options()};
    rx.posts_receive(1000);
    rx.at(0_us).gets(rx.send(1000, 0, 600)).gets(packet).sends({nak("nak_invalid", 1001, 0)}).fails(2);
    rx.completes({"1 status 5"});
  };
  inside_send(maker.write(1001, 0, 4));
  inside_send(maker.read(1001, 4));
  inside_send(maker.fetch_add(1001, 0, 1));
  inside_send(maker.send(1001, 0, 600));
  Script rx{options()};
  rx.at(0_us).gets(rx.write(1000, 0, 600)).gets(rx.send(1001, 1, 600)).sends({nak("nak_invalid", 1001, 0)});
}

// MIDDLE packets have a fast path in the common case (qp/receive/fast_writes.h).
TEST_P(Refusal, MiddlePacketsThatContradictTheirFirst) {
  constexpr std::uint32_t kLength = 5 * kScriptMtu;
  const auto refuse = [&](const std::string& what, std::uint32_t length, const auto& change) {
    SCOPED_TRACE(what);
    Script rx{options()};
    rx.at(0_us);
    for (std::uint32_t i = 0; i < 3; ++i) rx.gets(rx.write(1000 + i, i, length));
    for (std::uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(rx.holds(i * kScriptMtu, 1000 + i, kScriptMtu)) << i;
    const test::Bytes before = rx.region_bytes;
    wire::Packet packet = rx.write(1003, 3, kLength);
    change(rx, packet);
    rx.gets(packet).sends({nak(what, 1003, 0)});
    EXPECT_EQ(rx.region_bytes, before);
    EXPECT_TRUE(rx.failed);
  };
  refuse("nak_invalid", kLength, [](Script&, wire::Packet& packet) { packet.payload = packet.payload.first(252); });
  refuse("nak_invalid", 4 * kScriptMtu, [](Script&, wire::Packet& packet) { packet.reth.length = 4 * kScriptMtu; });
  refuse("nak_access", kLength, [](Script& rx, wire::Packet&) { ASSERT_TRUE(rx.table().remove(rx.region).ok()); });
  if (!GetParam()) return;  // else only the first has the address
  refuse("nak_invalid", kLength, [](Script&, wire::Packet& packet) { packet.reth.address += 4; });
  refuse("nak_invalid", kLength, [](Script&, wire::Packet& packet) { packet.reth.length += 4; });
  refuse("nak_invalid", kLength, [](Script&, wire::Packet& packet) { ++packet.reth.rkey; });
}

// A duplicate or early packet does not change the next MIDDLE packet.
TEST_P(Refusal, AmongMiddlePacketsNothingElseIsTakenForTheNext) {
  constexpr std::uint32_t kLength = 6 * kScriptMtu;
  Script rx{options()};
  rx.at(0_us);
  for (const std::uint32_t i : {0u, 1u, 1u, 0u, 2u, 4u, 2u, 3u, 4u, 5u}) rx.gets(rx.write(1000 + i, i, kLength));
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_TRUE(rx.holds(i * kScriptMtu, 1000 + i, kScriptMtu)) << i;
  EXPECT_EQ(rx.next_expected(), Psn{1006});
  EXPECT_FALSE(rx.failed);
}

TEST_P(Refusal, PayloadThatDoesNotFitItsOpcode) {
  auto short_first = maker.write(1000, 0, 600);
  short_first.payload = short_first.payload.first(252);
  expect_invalid(unkeyed(short_first));
  auto long_only = maker.packet(RcOp::kWriteOnly, 1000, kScriptMtu + 4);
  long_only.reth = {kScriptVa, 0, kScriptMtu + 4};
  expect_invalid(unkeyed(long_only));
  auto short_send = maker.packet(RcOp::kSendFirst, 1000, 4);
  expect_invalid(unkeyed(short_send));
}

TEST_P(Refusal, WriteOfAnotherLengthThanAnnounced) {
  auto less = maker.packet(RcOp::kWriteOnly, 1000, 8);
  less.reth = {kScriptVa, 0, 12};
  expect_invalid(unkeyed(less));
  auto more = maker.packet(RcOp::kWriteFirst, 1000, kScriptMtu);
  more.reth = {kScriptVa, 0, kScriptMtu};  // nothing is left for a Last
  expect_invalid(unkeyed(more));
  auto huge = maker.packet(RcOp::kWriteFirst, 1000, kScriptMtu);
  huge.reth = {kScriptVa, 0, 0xFFFF'FFFF};
  expect_invalid(unkeyed(huge));
}

TEST_P(Refusal, KeysAndRanges) {
  auto write = maker.write(1000, 0, 64);
  write.reth.rkey = 0xBAD;
  expect_no_access(write);
  auto beyond = maker.write(1000, 0, 64);
  beyond.reth.address = kScriptVa + test::kScriptRegion - 63;
  expect_no_access(unkeyed(beyond));
  auto wrapping = maker.write(1000, 0, 64);
  wrapping.reth.address = ~std::uint64_t{0} - 8;
  expect_no_access(unkeyed(wrapping));
  auto first = maker.write(1000, 0, 600, test::kScriptRegion - 300);  // the First itself would fit
  expect_no_access(unkeyed(first));
  auto read = maker.read(1000, 2000, test::kScriptRegion - 1999);
  expect_no_access(unkeyed(read));
  auto atomic = maker.fetch_add(1000, test::kScriptRegion, 1);
  expect_no_access(unkeyed(atomic));
  auto local = maker.write(1000, 0, 64);  // a region for local use only
  Script rx{options()};
  local.reth = {reinterpret_cast<std::uintptr_t>(rx.receive_bytes.data()), rx.receive_region->key, 64};
  rx.at(0_us).gets(local).sends({nak("nak_access", 1000, 0)}).counts(Counter::kRemoteAccessErrors, 1);
}

TEST_P(Refusal, MisalignedAtomic) { expect_invalid(unkeyed(maker.fetch_add(1000, 4, 1))); }

TEST_P(Refusal, OperationsThatTheQueuePairDoesNotAllow) {
  auto closed = options();
  closed.access = 0;
  for (const auto& packet : {maker.write(1000, 0, 4), maker.read(1000, 4), maker.fetch_add(1000, 0, 1)}) {
    Script rx{closed};
    rx.at(0_us).gets(packet).sends({nak("nak_invalid", 1000, 0)}).fails(2);
  }
  closed = options();
  closed.max_dest_rd_atomic = 0;
  for (const auto& packet : {maker.read(1000, 4), maker.fetch_add(1000, 0, 1)}) {
    Script rx{closed};
    rx.at(0_us).gets(packet).sends({nak("nak_invalid", 1000, 0)}).fails(2);
  }
}

TEST_P(Refusal, SendLongerThanItsReceive) {
  Script rx{options()};
  rx.posts_receive(300).posts_receive(300);
  rx.at(0_us).gets(rx.send(1000, 0, 400)).gets(rx.send(1001, 1, 400));
  rx.sends({nak("nak_invalid", 1001, 0)}).completes({"1 status 1", "2 status 5"}).fails(2);
}

TEST_P(Refusal, ReceiveWhoseMemoryIsGone) {
  Script rx{options()};
  rx.posts_receive(300);
  ASSERT_TRUE(rx.table().remove(rx.receive_region).ok());
  rx.at(0_us).gets(rx.send(1000, 0, 8)).sends({nak("nak_operation", 1000, 0)}).completes({"1 status 4"}).fails(2);
}

TEST_P(Refusal, WriteWhoseRegionGoesAwayInTheMiddle) {
  Script rx{options()};
  const auto last = rx.write(1001, 1, 300);
  rx.at(0_us).gets(rx.write(1000, 0, 300));
  ASSERT_TRUE(rx.table().remove(rx.region).ok());
  rx.gets(last).sends({nak("nak_access", 1001, 0)}).fails(3);
  EXPECT_FALSE(rx.holds(256, 1001, 44));
}

TEST_P(Refusal, ReadWhoseRegionGoesAwayBeforeItIsSent) {
  Script rx{options()};
  rx.at(0_us).gets(rx.read(1000, 600)).gets(rx.read(1003, 8));
  ASSERT_TRUE(rx.table().remove(rx.region).ok());
  // Not of the base, so that no BitmapAck can carry it.
  rx.sends({std::string{GetParam() ? "bitmap " : ""} + "nak_access 1000 msn=0"});
  EXPECT_FALSE(rx.failed);
  EXPECT_TRUE(rx.responder->next_timeout().has_value());
  rx.at(0_us).fails(3);
}

TEST_P(Refusal, NothingPostedThenPosted) {
  Script rx{options()};
  rx.identity.attributes.min_rnr_timer = 12;
  rx.at(0_us).gets(rx.send(1000, 0, 8)).sends({nak("rnr(12)", 1000, 0)});
  // Packets sent before the NAK arrived are dropped: they come again behind the first.
  rx.gets(rx.send(1001, 0, 8, 1)).gets(rx.data(1002)).at(500_us).sends({}).drops(DropReason::kAfterError, 2);
  rx.gets(Script::again(rx.send(1000, 0, 8))).sends({nak("rnr(12)", 1000, 0)});
  rx.posts_receive(8).posts_receive(8);
  rx.gets(Script::again(rx.send(1000, 0, 8))).gets(Script::again(rx.send(1001, 0, 8, 1)));
  rx.completes({"1 ok 8", "2 ok 8"}).counts(Counter::kSentRnr, 2).drops(DropReason::kReceiverNotReady, 2);
  EXPECT_FALSE(rx.failed);
}

TEST_P(Refusal, AMessageIsHeldForTheReceiveThatComesInTime) {
  auto held = options();
  held.recovery.rnr_hold = 10_ms;
  Script rx{held};
  rx.at(0_us).gets(rx.send(1000, 0, 8)).at(900_us).sends({}).completes({});
  rx.posts_receive(8).at(901_us).completes({"1 ok 8"});
  rx.counts(Counter::kSentRnr, 0).counts(Counter::kHeldForReceive, 1).drops(DropReason::kReceiverNotReady, 0);
  EXPECT_FALSE(rx.failed);
}

// Once for a message: packets retransmitted after the NAK get another one at once.
TEST_P(Refusal, TheHoldEndsWithAnRnrNak) {
  auto held = options();
  held.recovery.rnr_hold = 10_ms;
  Script rx{held};
  rx.identity.attributes.min_rnr_timer = 12;
  const Duration hold = GetParam() ? 10_ms : 1_ms;
  rx.at(0_us).gets(rx.send(1000, 0, 8)).at(hold - kTick).sends({});
  rx.at(hold).sends({nak("rnr(12)", 1000, 0)});
  rx.at(hold + 640_us).gets(Script::again(rx.send(1000, 0, 8))).sends({nak("rnr(12)", 1000, 0)});
  rx.posts_receive(8).at(hold + 641_us).completes({"1 ok 8"}).counts(Counter::kSentRnr, 2);
  rx.gets(rx.send(1001, 0, 8, 1))
      .at(hold + 642_us)
      .completes({})
      .posts_receive(8)
      .at(hold + 643_us)
      .completes({"2 ok 8"});
  rx.counts(Counter::kSentRnr, 2).counts(Counter::kHeldForReceive, 2);
  EXPECT_FALSE(rx.failed);
}

// A lost SEND comes again and finds no receive: it is not missing any more, and nobody asks for it.
TEST_P(Refusal, AHeldMessageIsNoGap) {
  auto held = options();
  held.recovery.rnr_hold = 10_ms;
  Script rx{held};
  rx.at(0_us).gets(rx.data(1001)).at(51_us).counts(Counter::kGapsPromotedAge, 1).forget();
  rx.at(100_us).gets(Script::again(rx.send(1000, 0, 8)));
  EXPECT_EQ(rx.responder->snapshot().gaps, 0U);
  rx.counts(Counter::kHeldForReceive, 1).counts(Counter::kGapsRecovered, 1);
  rx.at(900_us).sends({});
  rx.posts_receive(8).at(901_us).completes({"1 ok 8"}).counts(Counter::kSentRnr, 0);
  EXPECT_FALSE(rx.failed);
}

TEST_P(Refusal, WriteWithImmediateWaitsForItsReceive) {
  Script rx{options()};
  auto write = rx.write(1000, 0, 16);
  write.op = RcOp::kWriteOnlyImm;
  write.bth.opcode = wire::opcode_of(write.op, write.bitmap);
  rx.at(0_us).gets(write).sends({nak("rnr(12)", 1000, 0)});
  EXPECT_FALSE(rx.holds(0, 1000, 16));
  rx.posts_receive(0).gets(write).completes({"1 ok 16 write imm=0"});
  EXPECT_TRUE(rx.holds(0, 1000, 16));
}

TEST_P(Refusal, SendWithInvalidateNamesNoWindow) {
  auto send = maker.packet(RcOp::kSendOnlyInvalidate, 1000, 4);
  expect_no_access(unkeyed(send));
}

TEST_P(Refusal, CompletionQueueOverrunEndsTheQueuePair) {
  Script rx{options()};
  CompletionQueue tiny{1, nullptr};
  rx.identity.receive_cq = &tiny;
  rx.posts_receive(8).posts_receive(8);
  rx.at(0_us).gets(rx.send(1000, 0, 8)).gets(rx.send(1001, 0, 8, 1));
  EXPECT_TRUE(rx.failed);
  EXPECT_EQ(rx.environment.notices.completions.size(), 1u);
}

TEST(RefusalBitmap, WritePacketsThatContradictTheirMessage) {
  const auto after_first = [](auto change) {
    Script rx;
    auto middle = rx.write(1001, 1, 700);
    change(middle.reth);
    rx.at(0_us).gets(rx.write(1000, 0, 700)).gets(middle).sends({"bnak_invalid base=1001 msn=0"});
  };
  after_first([](wire::Reth& reth) { reth.address += 4; });
  after_first([](wire::Reth& reth) { reth.length += 4; });
  after_first([](wire::Reth& reth) { reth.rkey += 1; });
}

TEST(RefusalBitmap, ReadThatIsHeldAndNotServedIsNotReplacedByAnother) {
  test::ScriptOptions options;
  options.max_dest_rd_atomic = 1;
  Script rx{options};
  // 82 responses have room. The next request waits at the base, where other packets cannot take its PSNs.
  for (std::uint32_t i = 1; i < 82; ++i) rx.at(0_us).gets(rx.read(1000 + i, 8));
  rx.gets(rx.read(1082, 600)).gets(rx.read(1000, 8));
  EXPECT_EQ(rx.next_expected(), Psn{1082});
  rx.gets(rx.data(1082)).gets(rx.data(1083)).forget();
  EXPECT_FALSE(rx.failed);
  rx.gets(Script::again(rx.read(1082, 600)))
      .reports({"bitmap read_first 1082 256B index=0", "bitmap read_middle 1083 256B index=1",
                "bitmap read_last 1084 88B index=2"});
}

}  // namespace
}  // namespace brdma
