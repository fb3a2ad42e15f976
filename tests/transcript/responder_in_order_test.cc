// A responder's handling of requests in order, in both packet formats.
#include "support/responder_script.h"

namespace brdma {
namespace {

using test::kScriptMtu;
using test::ResponderScript;
using wire::RcOp;
using Script = ResponderScript;

class InOrder : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] static test::ScriptOptions options() {
    test::ScriptOptions options;
    options.bitmap_agreed = GetParam();
    return options;
  }
  // The same acknowledgement in this kind of peer's form: everything before `next` has arrived.
  [[nodiscard]] static std::string ack(std::uint32_t next, std::uint32_t msn) {
    if (GetParam()) return "back base=" + std::to_string(next) + " msn=" + std::to_string(msn);
    return "ack " + std::to_string((next - 1) & Psn::kMask) + " msn=" + std::to_string(msn);
  }
  [[nodiscard]] static std::string kind() { return GetParam() ? "bitmap " : ""; }
  [[nodiscard]] static std::string index(unsigned i) { return GetParam() ? " index=" + std::to_string(i) : ""; }
  Script rx{options()};
};
INSTANTIATE_TEST_SUITE_P(Kinds, InOrder, testing::Values(true, false),
                         [](const auto& kind) { return kind.param ? "Bitmap" : "Standard"; });

TEST_P(InOrder, WriteIsPlacedAndAcknowledgedOnRequest) {
  rx.at(0_us).gets(rx.write(1000, 0, 700)).gets(rx.write(1001, 1, 700));
  rx.sends({});
  EXPECT_TRUE(rx.holds(0, 1000));
  EXPECT_TRUE(rx.holds(256, 1001));
  rx.gets(Script::asking(rx.write(1002, 2, 700))).sends({ack(1003, 1)});
  EXPECT_TRUE(rx.holds(512, 1002, 188));
  rx.completes({}).counts(Counter::kWriteRequests, 1).counts(Counter::kAcksSent, 1);
}

TEST_P(InOrder, SendFillsTheOldestReceive) {
  rx.posts_receive(1000).posts_receive(1000);
  rx.at(0_us).gets(rx.send(1000, 0, 600)).gets(rx.send(1001, 1, 600));
  rx.completes({});
  rx.gets(Script::asking(rx.send(1002, 2, 600))).completes({"1 ok 600"});
  EXPECT_TRUE(rx.received(0, 1000));
  EXPECT_TRUE(rx.received(256, 1001));
  EXPECT_TRUE(rx.received(512, 1002, 88));
  rx.gets(rx.send(1003, 0, 8, /*rsn=*/1)).completes({"2 ok 8"}).sends({ack(1004, 2)});
  rx.counts(Counter::kReceives, 2);
}

TEST_P(InOrder, SendIsScatteredOverTheList) {
  const std::uint64_t at = reinterpret_cast<std::uintptr_t>(rx.receive_bytes.data());
  const Sge list[] = {{at, 10, rx.receive_region->key}, {at + 100, 0, 0}, {at + 200, 90, rx.receive_region->key}};
  ASSERT_TRUE(rx.responder->post_receive({77, list}).ok());
  const auto send = rx.send(1000, 0, 64);
  rx.at(0_us).gets(send).completes({"77 ok 64"});
  EXPECT_EQ(0, std::memcmp(rx.receive_bytes.data(), send.payload.data(), 10));
  EXPECT_EQ(0, std::memcmp(rx.receive_bytes.data() + 200, send.payload.data() + 10, 54));
}

TEST_P(InOrder, ImmediateDataIsHandedOver) {
  rx.posts_receive(100).posts_receive(0);
  auto send = rx.packet(RcOp::kSendOnlyImm, 1000, 5);
  send.immediate_be = 42;
  auto write = rx.write(1001, 0, 16, 64);
  write.op = RcOp::kWriteOnlyImm;
  write.bth.opcode = wire::opcode_of(write.op, write.bitmap);
  write.bxth.rsn = 1;
  write.immediate_be = 43;
  rx.at(0_us).gets(send).gets(write).completes({"1 ok 5 imm=42", "2 ok 16 write imm=43"});
  EXPECT_TRUE(rx.holds(64, 1001, 16));
}

TEST_P(InOrder, SolicitedOnlyWakesForASolicitedPacket) {
  rx.posts_receive(100).posts_receive(100);
  ASSERT_FALSE(rx.cq.arm(/*solicited_only=*/true));
  rx.at(0_us).gets(rx.send(1000, 0, 5));
  EXPECT_TRUE(rx.environment.notices.completions.empty());
  auto solicited = rx.send(1001, 0, 5, 1);
  solicited.bth.solicited = true;
  rx.gets(solicited);
  EXPECT_EQ(rx.environment.notices.completions.size(), 1u);
}

TEST_P(InOrder, EmptyMessages) {
  rx.posts_receive(0);
  auto write = rx.packet(RcOp::kWriteOnly, 1001);
  write.reth = {0xDEAD'0000, 0xBAD, 0};  // IBTA 9.7.4.1.3: the key of an empty access is not checked
  auto read = rx.read(1002, 0);
  read.reth = {0xDEAD'0000, 0xBAD, 0};
  rx.at(0_us).gets(rx.packet(RcOp::kSendOnly, 1000)).gets(write).gets(read);
  rx.completes({"1 ok 0"}).reports({kind() + "read_only 1002 0B" + index(0)});
  EXPECT_FALSE(rx.failed);
}

TEST_P(InOrder, ReadIsAnsweredFromMemoryAsItIsWhenSent) {
  for (std::size_t i = 0; i < 1000; ++i) rx.region_bytes[i] = static_cast<std::byte>(i * 3);
  rx.at(0_us).gets(Script::asking(rx.read(1000, 600, 100)));
  rx.region_bytes[100] = std::byte{0xEE};
  // No separate acknowledgement: the responses are one.
  rx.sends({kind() + "read_first 1000 256B" + index(0), kind() + "read_middle 1001 256B" + index(1),
            kind() + "read_last 1002 88B" + index(2)});
  ASSERT_EQ(rx.payloads.size(), 3u);
  EXPECT_EQ(rx.payloads[0][0], std::byte{0xEE});
  EXPECT_EQ(0, std::memcmp(rx.payloads[2].data(), &rx.region_bytes[612], 88));
  // It took three PSNs and counts as one message.
  rx.gets(Script::asking(rx.data(1003))).sends({ack(1004, 2)});
  rx.counts(Counter::kReadRequests, 1).counts(Counter::kSentDataPackets, 3);
}

TEST_P(InOrder, ReadOfExactlyTwoPackets) {
  rx.at(0_us).gets(rx.read(1000, 512));
  rx.sends({kind() + "read_first 1000 256B" + index(0), kind() + "read_last 1001 256B" + index(1)});
  rx.gets(rx.read(1002, 256)).sends({kind() + "read_only 1002 256B" + index(0)});
}

TEST_P(InOrder, AtomicsAnswerWhatWasThere) {
  std::uint64_t value = 40;
  std::memcpy(&rx.region_bytes[8], &value, 8);
  rx.at(0_us)
      .gets(rx.fetch_add(1000, 8, 2))
      .gets(rx.compare_swap(1001, 8, 41, 7))
      .gets(rx.compare_swap(1002, 8, 42, 9));
  rx.sends(
      {kind() + "atomic 1000 original=40", kind() + "atomic 1001 original=42", kind() + "atomic 1002 original=42"});
  std::memcpy(&value, &rx.region_bytes[8], 8);
  EXPECT_EQ(value, 9u);
  rx.counts(Counter::kAtomicRequests, 3);
}

TEST_P(InOrder, ResponsesKeepTheOrderOfTheirRequests) {
  rx.at(0_us).gets(rx.read(1000, 300)).gets(rx.fetch_add(1002, 0, 1)).gets(rx.read(1003, 8));
  rx.sends({kind() + "read_first 1000 256B" + index(0), kind() + "read_last 1001 44B" + index(1),
            kind() + "atomic 1002 original=0", kind() + "read_only 1003 8B" + index(0)});
}

TEST_P(InOrder, PsnsWrap) {
  auto wrapped = options();
  wrapped.first_psn = 0xFF'FFFE;
  Script wrap{wrapped};
  wrap.at(0_us).gets(wrap.data(0xFF'FFFE)).gets(wrap.data(0xFF'FFFF)).gets(Script::asking(wrap.data(0)));
  wrap.sends({ack(1, 3)});
}

TEST_P(InOrder, OneAcknowledgementForABurst) {
  for (std::uint32_t i = 0; i < 8; ++i) rx.at(0_us).gets(Script::asking(rx.data(1000 + i)));
  rx.sends({ack(1008, 8)});
}

TEST_P(InOrder, EstablishedIsReportedOnceAndOnlyBeforeReadyToSend) {
  rx.identity.state = QpState::kRtr;
  rx.at(0_us).gets(rx.data(1000));
  EXPECT_EQ(rx.async_event, 4);  // IBV_EVENT_COMM_EST
  rx.async_event = -1;
  rx.gets(rx.data(1001));
  EXPECT_EQ(rx.async_event, -1);
}

TEST(InOrderBitmap, ReadLeavesInOneBatchWithTheAcknowledgementBehindIt) {
  Script rx{{.segments_max = 64}};
  for (std::uint32_t i = 0; i < 16; ++i) rx.at(0_us).gets(rx.data(1000 + i));
  rx.gets(rx.read(1016, 8 * kScriptMtu)).forget();
  EXPECT_THAT(rx.batches, testing::ElementsAre(9u));
  Script standard{{.bitmap_agreed = false, .segments_max = 64}};
  standard.at(0_us).gets(standard.read(1000, 8 * kScriptMtu)).forget();
  EXPECT_THAT(standard.batches, testing::ElementsAre(2u, 5u, 1u));  // AETH makes First and Last longer
}

TEST(InOrderBitmap, AcknowledgesAfterSixteenPacketsOrFiveMicroseconds) {
  Script rx;
  for (std::uint32_t i = 0; i < 15; ++i) rx.at(0_us).gets(rx.data(1000 + i));
  rx.sends({});
  rx.gets(rx.data(1015)).sends({"back base=1016 msn=16"});
  rx.gets(rx.data(1016));
  rx.at(5_us - kTick).sends({});
  rx.at(5_us).sends({"back base=1017 msn=17"});
  rx.at(1000_us).sends({});
}

TEST(InOrderBitmap, ARequestedAcknowledgementMayWaitForData) {
  Script rx;
  rx.at(0_us).gets(Script::asking(rx.data(1000)));
  EXPECT_EQ(rx.responder->interest(Instant{}), TransmitInterest::kDeferrable);
  EXPECT_EQ(rx.responder->interest(Instant{} + 5_us), TransmitInterest::kForced);
  EXPECT_EQ(rx.responder->next_timeout(), Instant{} + 5_us);
  rx.responder->acknowledge_now();
  EXPECT_EQ(rx.responder->interest(Instant{}), TransmitInterest::kForced);
  rx.sends({"back base=1001 msn=1"});
}

TEST(InOrderBitmap, AcknowledgementEchoesTheNewestTimestampAndStatesCredit) {
  Script rx;
  rx.environment.active_qps = 4;
  rx.at(10_us).gets(rx.data(1000)).gets(rx.data(1001));
  rx.at(15_us).sends({"back base=1002 msn=2"});
  EXPECT_TRUE(rx.last_ack.echo_valid);
  EXPECT_EQ(rx.last_ack.ts_echo, 1'001'001u);
  EXPECT_EQ(rx.last_ack.tr, 10'000u);
  EXPECT_EQ(rx.last_ack.made, 15'000u);
  EXPECT_EQ(rx.last_ack.held(), 5_us);
  EXPECT_EQ(rx.last_ack.credit_packets, 64u);  // 256 / 4
  EXPECT_EQ(rx.last_ack.credit_bytes, 50u * 1024);
  EXPECT_EQ(rx.responder->own_credit().packets, 64u);
  rx.environment.active_qps = 1000;
  EXPECT_EQ(rx.responder->own_credit().packets, 8u);
}

TEST(InOrderStandard, RequestWithoutAckRequestIsCoveredByTheNextAck) {
  Script rx{{.bitmap_agreed = false}};
  for (std::uint32_t i = 0; i < 40; ++i) rx.at(0_us).gets(rx.data(1000 + i));
  rx.at(1000_us).sends({});
  EXPECT_EQ(rx.responder->next_timeout(), std::nullopt);
  rx.gets(Script::asking(rx.data(1040))).sends({"ack 1040 msn=41"});
}

TEST(InOrderStandard, AckDoesNotOvertakeResponses) {
  Script rx{{.bitmap_agreed = false}};
  rx.at(0_us).gets(rx.read(1000, 700)).gets(Script::asking(rx.data(1003)));
  rx.sends({"read_first 1000 256B", "read_middle 1001 256B", "read_last 1002 188B", "ack 1003 msn=2"});
}

TEST(InOrderStandard, AckDoesNotOvertakeAResponseThatDidNotFit) {
  Script rx{{.bitmap_agreed = false, .segments_max = 64}};
  rx.at(0_us).gets(rx.read(1000, 4 * kScriptMtu)).gets(Script::asking(rx.data(1004)));
  rx.sends({"read_first 1000 256B", "read_middle 1001 256B", "read_middle 1002 256B", "read_last 1003 256B",
            "ack 1004 msn=2"});
  EXPECT_THAT(rx.batches, testing::ElementsAre(2u, 1u, 2u));
}

TEST_P(InOrder, LongReadPassesTheWindow) {
  auto narrow = options();
  narrow.recovery.window_packets = 64;
  Script rx{narrow};
  rx.at(0_us).gets(rx.read(1000, 100 * kScriptMtu)).gets(Script::asking(rx.data(1100)));
  std::vector<std::string> lines;
  for (unsigned i = 0; i < 100; ++i) {
    const std::string place = i == 0 ? "first " : i == 99 ? "last " : "middle ";
    lines.push_back(kind() + "read_" + place + std::to_string(1000 + i) + " 256B" + index(i));
  }
  rx.reports(lines);
  EXPECT_EQ(rx.next_expected(), Psn{1101});
}

// A message whose first packets left before the agreement on bitmap mode continues in the other format, and the
// reverse.
TEST(MixedFormats, OneMessageInBoth) {
  Script rx;
  rx.posts_receive(1000);
  const auto as = [&rx](bool bitmap, auto make) {
    rx.identity.bitmap_agreed = bitmap;
    auto p = make();
    rx.identity.bitmap_agreed = true;
    return p;
  };
  rx.at(0_us).gets(as(false, [&] { return rx.write(1000, 0, 700); }));
  rx.gets(as(true, [&] { return rx.write(1001, 1, 700); })).gets(as(false, [&] { return rx.write(1002, 2, 700); }));
  rx.gets(as(true, [&] { return rx.send(1003, 0, 700); })).gets(as(false, [&] { return rx.send(1004, 1, 700); }));
  rx.gets(as(true, [&] { return rx.send(1005, 2, 700); })).completes({"1 ok 700"});
  EXPECT_TRUE(rx.holds(256, 1001) && rx.holds(512, 1002, 188));
  EXPECT_TRUE(rx.received(256, 1004) && rx.received(512, 1005, 188));
}

}  // namespace
}  // namespace brdma
