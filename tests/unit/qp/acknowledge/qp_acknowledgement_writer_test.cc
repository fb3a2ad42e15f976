// qp/acknowledge/acknowledgement_writer.h: what an acknowledgement states, alone and piggybacked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "support/responder_parts.h"

namespace brdma::qp {
namespace {

using wire::RcOp;

constexpr std::uint32_t kMsn = test::ResponderParts::kMsn;
constexpr std::uint64_t kToken = 0x1122'3344'5566'7788;

struct Writing : test::ResponderParts {
  Writing() {
    config.segments_max = 8;
    config.receive_packets = 500;
    config.receive_bytes = 1 << 20;
    identity.peer_token = kToken;
    identity.peer_reads_piggybacks = identity.peer_reads_ranges = true;
    begin_batch();
    ack.on_packet(/*asked=*/true, /*bitmap=*/true, now);
  }
  void begin_batch() {
    batch.emplace(*buffer, config);
    batch->begin({.source = IpAddress::v4(10, 0, 0, 1), .destination = IpAddress::v4(10, 0, 0, 2)});
  }
  // A packet of bitmap mode has come.
  void see(std::uint8_t path, std::uint64_t timestamp) { echo.note(path, timestamp, 300_us, now); }
  void receive(std::uint32_t first, std::uint32_t last) {
    room().begin();
    for (std::uint32_t psn = first; psn <= last; ++psn) window.receive(Psn{psn});
  }
  bool write(bool responses_wait = false) { return writer().write(*batch, bitmap, responses_wait, now); }
  // The bytes of the batch's last packet. The batch is finished then.
  ConstBytes last_packet() {
    Transmit out;
    if (!batch->finish(out)) return {};
    for (const Slice& slice : out.slices) {
      const auto* const data = static_cast<const std::byte*>(slice.data);
      sent.insert(sent.end(), data, data + slice.size);
    }
    const std::size_t begin = (sent.size() - 1) / out.segment_bytes * out.segment_bytes;
    return ConstBytes{sent}.subspan(begin);
  }
  // The BitmapAck that has left.
  wire::BitmapAck bitmap_ack() {
    const ConstBytes bytes_sent = last_packet();
    const auto packet = wire::parse_packet(bytes_sent);
    if (!packet.ok()) return {};
    EXPECT_EQ(packet.value().bth.dest_qpn, 18U);
    EXPECT_EQ(packet.value().bth.psn, window.base());
    return wire::parse_bitmap_ack(packet.value().payload, packet.value().bth.psn).value_or(wire::BitmapAck{});
  }
  static bool bit(const wire::BitmapAck& stated, std::size_t i) {
    return (stated.bits[i / 8] & static_cast<std::byte>(0x80u >> (i % 8))) != std::byte{0};
  }
  // A data packet of the requester in the same batch.
  void add_data(std::uint32_t size) {
    wire::Packet packet;
    packet.op = RcOp::kWriteOnly;
    packet.bitmap = true;
    packet.bth.opcode = wire::opcode_of(packet.op, true);
    packet.reth.length = size;
    const Slice slice{bytes.data(), size};
    batch->add(packet, {&slice, 1}, size);
  }

  std::unique_ptr<TransmitBuffer> buffer = std::make_unique<TransmitBuffer>();
  std::optional<TransmitBatch> batch;
  std::vector<std::byte> sent;
};

// --- BitmapAck ---

TEST(AcknowledgementWriter, WhileNothingIsMissingItStatesTheBase) {
  Writing responder;
  responder.see(3, 0x1234);
  responder.pass(5_us);
  EXPECT_TRUE(responder.write());
  EXPECT_FALSE(responder.ack.pending());
  EXPECT_EQ(responder.ack.reported(), Psn{1010});
  EXPECT_TRUE(responder.ack.repeats()) << "data repeats it";
  EXPECT_FALSE(responder.echo.valid()) << "echoed once";
  EXPECT_EQ(responder.count(Counter::kAcksSent), 1U);
  const wire::BitmapAck stated = responder.bitmap_ack();
  EXPECT_EQ(stated.source_qpn, 17U);
  EXPECT_EQ(stated.token, kToken);
  EXPECT_EQ(stated.syndrome, wire::kSyndromeAck);
  EXPECT_EQ(stated.msn, kMsn);
  EXPECT_EQ(stated.base, Psn{1010});
  EXPECT_EQ(stated.highest, Psn{1009});
  EXPECT_EQ(stated.bit_count, 0U);
  EXPECT_EQ(stated.judged, 0U);
  EXPECT_EQ(stated.credit_packets, 500U);
  EXPECT_EQ(stated.credit_bytes, 1U << 20);
  EXPECT_TRUE(stated.echo_valid);
  EXPECT_EQ(stated.path, 3U);
  EXPECT_EQ(stated.ts_echo, 0x1234U);
  EXPECT_EQ(stated.held(), 5_us);
  EXPECT_EQ(stated.waited, Duration{}) << "the peer does not read it";
  EXPECT_FALSE(stated.operations_valid);
}

TEST(AcknowledgementWriter, TheWaitingTimeIsForPeersThatReadIt) {
  Writing responder;
  responder.identity.peer_reads_waited = true;
  responder.see(0, 1);
  EXPECT_TRUE(responder.write());
  EXPECT_EQ(responder.bitmap_ack().waited, wire::waited_of(wire::waited_units(300_us)));
}

TEST(AcknowledgementWriter, WhatLiesBeyondTheBaseIsInItsBits) {
  Writing responder;
  responder.receive(1012, 1013);
  responder.receive(1016, 1016);
  EXPECT_TRUE(responder.write());
  const wire::BitmapAck stated = responder.bitmap_ack();
  EXPECT_EQ(stated.base, Psn{1010});
  EXPECT_EQ(stated.highest, Psn{1016});
  ASSERT_EQ(stated.bit_count, 7U);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(Writing::bit(stated, i), i == 2 || i == 3 || i == 6) << i;
  EXPECT_EQ(stated.range_count, 0U);
}

TEST(AcknowledgementWriter, ABaseThatIsHeldHasNotArrived) {
  Writing responder;
  responder.receive(1010, 1010);
  EXPECT_TRUE(responder.write());
  const wire::BitmapAck stated = responder.bitmap_ack();
  EXPECT_EQ(stated.highest, Psn{1009});
  EXPECT_EQ(stated.bit_count, 0U);
}

TEST(AcknowledgementWriter, ABaseThatIsHeldBeforeOthersHasNotEither) {
  Writing responder;
  responder.receive(1010, 1011);
  EXPECT_TRUE(responder.write());
  const wire::BitmapAck stated = responder.bitmap_ack();
  ASSERT_EQ(stated.bit_count, 2U);
  EXPECT_FALSE(Writing::bit(stated, 0));
  EXPECT_TRUE(Writing::bit(stated, 1));
}

TEST(AcknowledgementWriter, ItStatesUpToWhereGapsCountAsLost) {
  Writing responder;
  responder.receive(1012, 1012);
  responder.receive(1015, 1015);
  bitmap::GapTable& gaps = responder.out_of_order->gaps;
  gaps.open(Psn{1009}, Psn{1012}, /*path=*/0, responder.now, responder.now);
  gaps.open(Psn{1012}, Psn{1015}, /*path=*/0, responder.now, responder.now);
  gaps[0].state = bitmap::GapState::kPromoted;
  EXPECT_TRUE(responder.write());
  const wire::BitmapAck stated = responder.bitmap_ack();
  EXPECT_EQ(stated.judged, 2U);
}

// No bit reports it, so it would seem to be among those.
TEST(AcknowledgementWriter, ABaseThatIsHeldIsNotJudged) {
  Writing responder;
  responder.receive(1010, 1010);
  responder.receive(1015, 1015);
  bitmap::GapTable& gaps = responder.out_of_order->gaps;
  gaps.open(Psn{1010}, Psn{1015}, /*path=*/0, responder.now, responder.now);
  gaps[0].state = bitmap::GapState::kPromoted;
  EXPECT_TRUE(responder.write());
  EXPECT_EQ(responder.bitmap_ack().judged, 0U);
}

TEST(AcknowledgementWriter, BeyondTheBitsAreRangesForPeersThatReadThem) {
  for (const bool reads : {true, false}) {
    Writing responder;
    responder.identity.peer_reads_ranges = reads;
    responder.window = bitmap::ReceiveWindow{Psn{1010}, {.window = 16384}, responder.environment.pools.segments};
    responder.receive(1012, 1012);
    responder.receive(1010 + 5000, 1010 + 5001);
    EXPECT_TRUE(responder.write());
    EXPECT_EQ(responder.count(Counter::kAckRangesSent), reads ? 1U : 0U);
    const wire::BitmapAck stated = responder.bitmap_ack();
    EXPECT_EQ(stated.highest, Psn{1010 + 5001});
    EXPECT_EQ(stated.bit_count, 4096U);
    ASSERT_EQ(stated.range_count, reads ? 1U : 0U);
    if (reads) {
      EXPECT_EQ(stated.range(0).start, Psn{1010 + 5000});
      EXPECT_EQ(stated.range(0).length, 2U);
    }
  }
}

TEST(AcknowledgementWriter, WithASmallMtuHalfOfTheRoomIsForRanges) {
  Writing responder;
  responder.mtu = 256;
  responder.receive(1010 + 2047, 1010 + 2047);
  EXPECT_TRUE(responder.write());
  EXPECT_EQ(responder.bitmap_ack().bit_count, 2048U) << "all are in the bits";
  Writing other;
  other.mtu = 256;
  other.receive(1010 + 2048, 1010 + 2048);
  EXPECT_TRUE(other.write());
  const wire::BitmapAck stated = other.bitmap_ack();
  EXPECT_EQ(stated.bit_count, 1024U);
  EXPECT_EQ(stated.range_count, 1U);
}

TEST(AcknowledgementWriter, OneThatDoesNotFitStaysPending) {
  for (const bool missing : {false, true}) {
    Writing responder;
    if (missing) responder.receive(1012, 1012);
    for (std::size_t i = 0; i < responder.config.segments_max; ++i) responder.add_data(100);
    EXPECT_FALSE(responder.write());
    EXPECT_TRUE(responder.ack.pending());
    EXPECT_EQ(responder.count(Counter::kAcksSent), 0U);
  }
}

TEST(AcknowledgementWriter, TheLastOneLeavesSeveralTimes) {
  Writing responder;
  responder.ack.force_last();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(responder.write());
    EXPECT_TRUE(responder.ack.forced()) << "a copy follows";
    responder.begin_batch();
  }
  EXPECT_TRUE(responder.write());
  EXPECT_FALSE(responder.ack.pending());
  EXPECT_EQ(responder.count(Counter::kAcksSent), 4U);
}

// --- standard ---

TEST(AcknowledgementWriter, AStandardPeerGetsTheLastPsnBeforeTheBase) {
  Writing responder;
  responder.bitmap = false;
  responder.receive(1012, 1013);
  EXPECT_TRUE(responder.write());
  const auto packet = wire::parse_packet(responder.last_packet());
  ASSERT_TRUE(packet.ok());
  EXPECT_EQ(packet.value().op, RcOp::kAcknowledge);
  EXPECT_FALSE(packet.value().bitmap);
  EXPECT_EQ(packet.value().bth.psn, Psn{1009});
  EXPECT_EQ(packet.value().bth.dest_qpn, 18U);
  EXPECT_EQ(packet.value().aeth.syndrome, wire::kSyndromeAck);
  EXPECT_EQ(packet.value().aeth.msn, kMsn);
  EXPECT_FALSE(responder.ack.repeats()) << "no data carries it";
}

TEST(AcknowledgementWriter, ItDoesNotOvertakeResponses) {
  Writing responder;
  EXPECT_TRUE(responder.write(/*responses_wait=*/true)) << "a BitmapAck covers requests only";
  Writing other;
  other.bitmap = false;
  EXPECT_FALSE(other.write(/*responses_wait=*/true));
  EXPECT_TRUE(other.ack.pending());
  EXPECT_TRUE(other.write());
}

// --- NAKs ---

TEST(AcknowledgementWriter, ANakOfBitmapModeIsOfTheBase) {
  Writing responder;
  EXPECT_TRUE(
      responder.writer().refuse(*responder.batch, {wire::kSyndromeNakRemoteAccess, 5}, Psn{1010}, true, responder.now));
  EXPECT_FALSE(responder.ack.pending()) << "it acknowledges all before";
  const wire::BitmapAck stated = responder.bitmap_ack();
  EXPECT_EQ(stated.syndrome, wire::kSyndromeNakRemoteAccess);
  EXPECT_EQ(stated.msn, 5U);
  EXPECT_EQ(stated.base, Psn{1010});
}

TEST(AcknowledgementWriter, AStandardOneNamesItsPacket) {
  Writing responder;
  EXPECT_TRUE(
      responder.writer().refuse(*responder.batch, {wire::kSyndromeNakSequence, 5}, Psn{1008}, false, responder.now));
  const auto packet = wire::parse_packet(responder.last_packet());
  ASSERT_TRUE(packet.ok());
  EXPECT_EQ(packet.value().bth.psn, Psn{1008});
  EXPECT_EQ(packet.value().aeth.syndrome, wire::kSyndromeNakSequence);
}

// --- piggybacked ---

TEST(AcknowledgementWriter, OnDataTravelsOnlyTheMostCommonOne) {
  Writing responder;
  EXPECT_TRUE(responder.writer().may_piggyback());
  responder.identity.peer_reads_piggybacks = false;
  EXPECT_FALSE(responder.writer().may_piggyback());
  responder.identity.peer_reads_piggybacks = true;
  responder.receive(1012, 1012);
  EXPECT_FALSE(responder.writer().may_piggyback()) << "bits would be needed";
}

TEST(AcknowledgementWriter, OnDataItStatesTheSame) {
  Writing responder;
  responder.see(3, 0x1234);
  responder.pass(5_us);
  const wire::Piggyback stated = responder.writer().piggyback(responder.now);
  EXPECT_EQ(stated.base, Psn{1010});
  EXPECT_EQ(stated.msn, kMsn);
  EXPECT_EQ(stated.syndrome, wire::kSyndromeAck);
  EXPECT_EQ(stated.path, 3U);
  EXPECT_TRUE(stated.echo_valid);
  EXPECT_EQ(stated.ts_echo, 0x1234U);
  EXPECT_EQ(stated.held(), 5_us);
  EXPECT_EQ(stated.waited, 300_us);
  EXPECT_EQ(stated.credit_packets, 500U);
  EXPECT_EQ(stated.credit_bytes, 1U << 20);
}

TEST(AcknowledgementWriter, TheLastDataPacketOfTheBatchCarriesIt) {
  Writing responder;
  responder.see(3, 0x1234);
  responder.add_data(100);
  responder.ack.repeat_with_data();
  EXPECT_TRUE(responder.writer().add_to_data(*responder.batch, responder.now));
  EXPECT_FALSE(responder.ack.pending());
  EXPECT_FALSE(responder.ack.repeats()) << "it has";
  EXPECT_FALSE(responder.echo.valid()) << "echoed once";
  EXPECT_EQ(responder.count(Counter::kAcksPiggybacked), 1U);
  EXPECT_EQ(responder.count(Counter::kAcksSent), 1U);
  EXPECT_EQ(responder.batch->packets(), 1U);
  const auto packet = wire::parse_packet(responder.last_packet());
  ASSERT_TRUE(packet.ok());
  EXPECT_TRUE(packet.value().bxth.piggyback);
}

TEST(AcknowledgementWriter, WithoutDataNothingCarriesIt) {
  Writing responder;
  EXPECT_FALSE(responder.writer().add_to_data(*responder.batch, responder.now));
  EXPECT_TRUE(responder.ack.pending());
  EXPECT_EQ(responder.count(Counter::kAcksPiggybacked), 0U);
}

}  // namespace
}  // namespace brdma::qp
