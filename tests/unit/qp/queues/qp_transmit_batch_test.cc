// TransmitBatch: the layout of a GSO message, and the rules of which packets may follow each other.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "qp/queues/transmit_batch.h"

namespace brdma::qp {
namespace {

class TransmitBatchTest : public testing::Test {
 protected:
  TransmitBatchTest() { config.segments_max = 8; }
  TransmitBatch batch(bool v6 = false) {
    TransmitBatch made(*buffer, config);
    TransmitBatch::Destination to{IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2)};
    if (v6) to.source.bytes[0] = to.destination.bytes[0] = 0xFD;
    made.begin(to);
    return made;
  }
  static wire::Packet packet(wire::RcOp op, bool bitmap, std::uint32_t psn) {
    wire::Packet p;
    p.op = op;
    p.bitmap = bitmap;
    p.bth.opcode = wire::opcode_of(op, bitmap);
    p.bth.psn = Psn{psn};
    return p;
  }
  bool add(TransmitBatch& to, const wire::Packet& p, std::size_t bytes, std::size_t pieces = 1) {
    std::vector<Slice> slices;
    for (std::size_t i = 0; i < pieces && bytes > 0; ++i) {
      const std::size_t size = i + 1 == pieces ? bytes - i * (bytes / pieces) : bytes / pieces;
      slices.push_back(Slice{payload.data() + i * (bytes / pieces), size});
    }
    if (!to.fits(TransmitBatch::packet_bytes(p, bytes), slices.size(), p.bitmap)) return false;
    to.add(p, slices, bytes);
    return true;
  }
  static std::vector<std::vector<std::byte>> segments(const Transmit& out) {
    std::vector<std::byte> all;
    for (const Slice& slice : out.slices) {
      const auto* data = static_cast<const std::byte*>(slice.data);
      all.insert(all.end(), data, data + slice.size);
    }
    std::vector<std::vector<std::byte>> each;
    for (std::size_t at = 0; at < all.size(); at += out.segment_bytes) {
      const std::size_t end = std::min<std::size_t>(at + out.segment_bytes, all.size());
      each.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return each;
  }
  static std::uint32_t right_icrc(const std::vector<std::byte>& bytes, std::uint16_t ip_id) {
    return wire::packet_icrc({IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2), 0xC000, 4791, ip_id}, bytes);
  }

  EngineConfig config;
  std::unique_ptr<TransmitBuffer> buffer = std::make_unique<TransmitBuffer>();
  std::vector<std::byte> payload = std::vector<std::byte>(8192, std::byte{7});
};

TEST_F(TransmitBatchTest, TrailerAndNextHeadersShareASlice) {
  TransmitBatch b = batch();
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(add(b, packet(wire::RcOp::kSendMiddle, true, i), 1024));
  Transmit out;
  ASSERT_TRUE(b.finish(out));
  EXPECT_EQ(out.slices.size(),
            7u);  // headers, payload, trailer + headers, payload, trailer + headers, payload, trailer
  EXPECT_EQ(out.slices[1].data, payload.data());  // the application's memory itself
  EXPECT_EQ(out.slices[2].size, 4u + 44u);
  EXPECT_EQ(out.segments, 3u);
  EXPECT_EQ(out.segment_bytes, 44 + 1024 + 4);
}

TEST_F(TransmitBatchTest, PayloadlessPacketsAreOneSlice) {
  TransmitBatch b = batch();
  for (std::uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(add(b, packet(wire::RcOp::kReadRequest, true, i), 0));
  Transmit out;
  ASSERT_TRUE(b.finish(out));
  EXPECT_EQ(out.slices.size(), 1u);
  EXPECT_EQ(out.bytes, 4u * (44 + 16 + 4));
}

TEST_F(TransmitBatchTest, AShorterPacketIsTheLast) {
  TransmitBatch b = batch();
  EXPECT_TRUE(add(b, packet(wire::RcOp::kSendMiddle, true, 0), 1024));
  EXPECT_FALSE(add(b, packet(wire::RcOp::kSendMiddle, true, 1), 1028));
  EXPECT_TRUE(add(b, packet(wire::RcOp::kSendLast, true, 1), 1021, 2)) << "as long, with its pad";
  EXPECT_TRUE(add(b, packet(wire::RcOp::kSendOnly, true, 2), 1020));
  EXPECT_FALSE(b.fits(60, 0, true));
}

TEST_F(TransmitBatchTest, PadMakesFourByteMultiplesAndIsZero) {
  TransmitBatch b = batch();
  EXPECT_TRUE(add(b, packet(wire::RcOp::kSendOnly, false, 0), 5));
  Transmit out;
  ASSERT_TRUE(b.finish(out));
  const auto bytes = segments(out).at(0);
  ASSERT_EQ(bytes.size(), 12u + 5 + 3 + 4);
  EXPECT_EQ(wire::parse_bth(ConstBytes{bytes}.first<wire::kBthSize>()).pad, 3);
  EXPECT_EQ(bytes[17], std::byte{0});
  EXPECT_EQ(bytes[19], std::byte{0});
  EXPECT_EQ(wire::stored_icrc(bytes), right_icrc(bytes, 0));
}

// The bytes before BTH depend on the size, and are cached while that stays.
TEST_F(TransmitBatchTest, SmallPacketsHaveTheirIcrcWhateverTheSizeOfTheOneBefore) {
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * 7);
  for (const std::size_t bytes : {4u, 5u, 64u, 180u, 240u}) {
    TransmitBatch b = batch();
    for (const std::size_t each : {bytes, bytes, bytes - 4}) {
      ASSERT_TRUE(add(b, packet(wire::RcOp::kSendOnly, true, 0), each));
    }
    Transmit out;
    ASSERT_TRUE(b.finish(out));
    const auto all = segments(out);
    ASSERT_EQ(all.size(), 3u);
    EXPECT_LT(all[2].size(), all[1].size());
    for (const auto& each : all) EXPECT_EQ(wire::stored_icrc(each), right_icrc(each, 0)) << bytes;
  }
}

TEST_F(TransmitBatchTest, StandardPacketsCountTheIdentificationBitmapOnesDoNot) {
  for (const bool bitmap : {false, true}) {
    TransmitBatch b = batch();
    for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(add(b, packet(wire::RcOp::kSendMiddle, bitmap, i), 256));
    Transmit out;
    ASSERT_TRUE(b.finish(out));
    EXPECT_EQ(out.standard, !bitmap);
    const auto each = segments(out);
    ASSERT_EQ(each.size(), 3u);
    for (std::uint16_t i = 0; i < 3; ++i) {
      EXPECT_EQ(wire::stored_icrc(each[i]), right_icrc(each[i], bitmap ? std::uint16_t{0} : i));
    }
  }
}

TEST_F(TransmitBatchTest, WithUnknownIdentificationsAStandardPacketLeavesFirstOrAlone) {
  config.ip_id_counts_in_batch = false;
  TransmitBatch b = batch();
  EXPECT_TRUE(add(b, packet(wire::RcOp::kSendMiddle, false, 0), 256));
  EXPECT_FALSE(add(b, packet(wire::RcOp::kSendMiddle, false, 1), 256));
  TransmitBatch six = batch(/*v6=*/true);
  EXPECT_TRUE(add(six, packet(wire::RcOp::kSendMiddle, false, 0), 256));
  EXPECT_TRUE(add(six, packet(wire::RcOp::kSendMiddle, false, 1), 256)) << "IPv6 has none";
}

TEST_F(TransmitBatchTest, SegmentsBytesAndSlicesAreBounded) {
  TransmitBatch b = batch();
  std::uint32_t n = 0;
  while (add(b, packet(wire::RcOp::kSendMiddle, true, n), 256)) ++n;
  EXPECT_EQ(n, 8u);
  config.batch_bytes_max = 1000;
  TransmitBatch small = batch();
  for (n = 0; add(small, packet(wire::RcOp::kSendMiddle, true, n), 256);) ++n;
  EXPECT_EQ(n, 3u);  // 296 bytes each
  config.batch_bytes_max = 65507;
  config.segments_max = 64;
  TransmitBatch pieces = batch();
  for (n = 0; add(pieces, packet(wire::RcOp::kSendMiddle, true, n), 512, 32);) ++n;
  Transmit out;
  ASSERT_TRUE(pieces.finish(out));
  EXPECT_LE(out.slices.size(), kSlicesMax);
  EXPECT_EQ(n, 31u);  // 33 slices each, and one for the last trailer
  TransmitBatch copied = batch();
  for (n = 0; add(copied, packet(wire::RcOp::kSendMiddle, true, n), kCopiedBytesMax, 32);) ++n;
  ASSERT_TRUE(copied.finish(out));
  EXPECT_EQ(out.slices.size(), 1u);
  EXPECT_EQ(n, 64u);
}

// Small packets one behind the other: a run takes as many as when each is requested alone, whatever ends the batch.
TEST_F(TransmitBatchTest, RoomIsWhatFits) {
  config.segments_max = 64;
  const wire::RunHeaders headers{packet(wire::RcOp::kWriteOnly, true, 0)};
  for (const std::uint32_t bytes_max : {1000u, 65507u}) {
    for (const std::uint64_t rate : {std::uint64_t{0}, std::uint64_t{900}}) {
      for (const std::size_t size : {0u, 63u, 64u, 256u}) {
        config.batch_bytes_max = bytes_max;
        TransmitBatch b = batch();
        if (rate != 0) b.limit(rate);
        b.keep_last_segment(true);
        const std::size_t bytes = TransmitBatch::packet_bytes(headers.size(), size);
        const std::size_t room = b.room(bytes);
        std::size_t added = 0;
        const Slice slice{payload.data(), size};
        for (; b.fits(bytes, 0, true); ++added) b.add_of_run(headers, {}, {&slice, 1}, size);
        EXPECT_EQ(added, room) << bytes_max << " " << rate << " " << size;
        EXPECT_GT(room, 1u);
        EXPECT_EQ(b.room(bytes), 0u);
      }
    }
  }
}

TEST_F(TransmitBatchTest, OfAShorterOneThereIsRoomForOne) {
  const wire::RunHeaders headers{packet(wire::RcOp::kWriteOnly, true, 0)};
  TransmitBatch b = batch();
  ASSERT_TRUE(add(b, packet(wire::RcOp::kSendMiddle, true, 0), 200));
  EXPECT_EQ(b.room(TransmitBatch::packet_bytes(headers.size(), 64)), 1u);
  EXPECT_EQ(b.room(TransmitBatch::packet_bytes(headers.size(), 256)), 0u);
}

// MIDDLE packets of a message, added as a run: equal to the bit to single ones, behind any packets that are in the
// batch already, before others, and with a piggybacked ACK in the last if that has room.
TEST_F(TransmitBatchTest, ARunOfMiddlePacketsEqualsSinglePackets) {
  struct Before {
    std::size_t bytes;  // of the payload of one in the batch already, in addition to theirs
    std::size_t count;  // of the run, at most
  };
  config.segments_max = 64;
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * 7 + i / 256);
  wire::Piggyback said;
  said.msn = 9;
  const auto compare = [&](wire::RcOp op, std::size_t size, std::optional<Before> before) {
    wire::Packet any = packet(op, true, 0xFF'FFFE);
    any.reth = {0x1122'3344'FFFF'FF00, 0x5566'7788, 99};
    any.bxth.timestamp = 0x1234'5678'9ABC;
    const wire::RunHeaders headers{any};
    const std::size_t count = std::min(payload.size() / size, before ? before->count : 64);
    const auto run = [&](bool together) {
      TransmitBatch b = batch();
      if (before) {
        const std::size_t more = headers.size() - wire::headers_size(packet(wire::RcOp::kSendMiddle, true, 1));
        EXPECT_TRUE(add(b, packet(wire::RcOp::kSendMiddle, true, 1), size + more + before->bytes));
      }
      wire::RunHeaders::Own own{.psn = any.bth.psn, .msn = 3, .rsn = 4, .packet_index = 0xFF'FFFD, .reth = any.reth};
      EXPECT_TRUE(b.takes_middle(size, count));
      if (together) {
        b.add_middle({headers, own}, own, payload.data(), size, count, true);
      } else {
        for (std::size_t i = 0; i < count; ++i) {
          const Slice slice{payload.data() + i * size, size};
          own.ack_request = i + 1 == count;
          b.add_of_run(headers, own, {&slice, 1}, size);
          own.psn = own.psn + 1;
          own.packet_index = (own.packet_index + 1) & 0xFF'FFFF;
          own.reth.address += size;
        }
      }
      EXPECT_EQ(own.psn, any.bth.psn + static_cast<std::uint32_t>(count));
      const bool room = before && before->bytes > 0;
      EXPECT_EQ(b.piggyback(said, 8192), room);
      EXPECT_EQ(add(b, packet(wire::RcOp::kSendOnly, true, 1), 5), !room) << "behind a shorter one";
      Transmit out;
      EXPECT_TRUE(b.finish(out));
      EXPECT_EQ(out.segments, count + (before ? 1 : 0) + (room ? 0 : 1));
      return segments(out);
    };
    const auto alone = run(false), together = run(true);
    EXPECT_EQ(together, alone) << static_cast<int>(op) << " " << size;
    for (const auto& each : together) EXPECT_EQ(wire::stored_icrc(each), right_icrc(each, 0));
  };
  for (const wire::RcOp op : {wire::RcOp::kWriteMiddle, wire::RcOp::kSendMiddle, wire::RcOp::kReadResponseMiddle}) {
    for (const std::size_t size : {512u, 1024u, 2048u}) {
      compare(op, size, std::nullopt);
      compare(op, size, Before{0, 64});
      compare(op, size, Before{200, 1});  // of which only the last may be shorter than the first
    }
  }
}

TEST_F(TransmitBatchTest, ARunOfMiddlePacketsNeedsRoomForItsPieces) {
  config.segments_max = 64;
  TransmitBatch b = batch();
  EXPECT_FALSE(b.takes_middle(kCopiedBytesMax, 2)) << "those are copied";
  EXPECT_FALSE(b.takes_middle(1022, 2)) << "those have a pad";
  EXPECT_TRUE(b.takes_middle(1024, 511));
  EXPECT_FALSE(b.takes_middle(1024, 512));
}

TEST_F(TransmitBatchTest, TheLastSegmentCanBeKeptForAControlPacket) {
  TransmitBatch b = batch();
  b.keep_last_segment(true);
  std::uint32_t n = 0;
  while (add(b, packet(wire::RcOp::kSendMiddle, true, n), 256)) ++n;
  EXPECT_EQ(n, 7u);
  b.keep_last_segment(false);
  const std::vector<std::byte> body(44);
  ASSERT_TRUE(b.fits(wire::kBthSize + body.size() + wire::kIcrcSize, 0, true));
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kBitmapAck);
  b.add_control(bth, body);
  Transmit out;
  ASSERT_TRUE(b.finish(out));
  EXPECT_EQ(out.segments, 8u);
  const auto last = segments(out).back();
  EXPECT_EQ(last.size(), 60u);
  EXPECT_EQ(wire::stored_icrc(last), right_icrc(last, 0));
}

constexpr std::size_t kRoomy = 4096 + 60;

TEST_F(TransmitBatchTest, AnAcknowledgementIsPiggybackedOnASmallPacket) {
  for (const std::size_t bytes : {0u, 5u, 64u}) {
    for (const std::size_t pieces : {1u, 2u}) {
      TransmitBatch b = batch();
      wire::Packet p = packet(wire::RcOp::kWriteOnly, true, 7);
      p.reth = {.address = 0x1000, .rkey = 0x55, .length = static_cast<std::uint32_t>(bytes)};
      ASSERT_TRUE(add(b, p, bytes, pieces));
      ASSERT_TRUE(b.piggyback({.msn = 5, .base = Psn{77}, .tr = 9}, kRoomy));
      // A packet of the same length may still follow, and a shorter one closes the batch.
      ASSERT_TRUE(add(b, packet(wire::RcOp::kSendOnly, true, 8), 4));
      Transmit out;
      ASSERT_TRUE(b.finish(out));
      const auto each = segments(out);
      ASSERT_EQ(each.size(), 2u);
      EXPECT_EQ(out.segment_bytes, TransmitBatch::packet_bytes(p, bytes) + wire::kPiggybackSize);
      EXPECT_EQ(wire::stored_icrc(each[0]), right_icrc(each[0], 0));
      EXPECT_EQ(wire::stored_icrc(each[1]), right_icrc(each[1], 0));
      const auto parsed = wire::parse_packet(each[0]);
      ASSERT_TRUE(parsed.ok());
      EXPECT_TRUE(parsed.value().bxth.piggyback);
      EXPECT_EQ(parsed.value().piggyback.base, Psn{77});
      EXPECT_EQ(parsed.value().piggyback.msn, 5u);
      EXPECT_EQ(parsed.value().piggyback.tr, 9u);
      EXPECT_EQ(parsed.value().reth.address, 0x1000u);
      EXPECT_EQ(parsed.value().payload.size(), bytes);
      EXPECT_FALSE(wire::parse_packet(each[1]).value().bxth.piggyback);
    }
  }
}

TEST_F(TransmitBatchTest, AnAcknowledgementGoesOnlyWhereThereIsRoom) {
  const wire::Piggyback said;
  {
    TransmitBatch b = batch();
    EXPECT_FALSE(b.piggyback(said, kRoomy)) << "no packet";
    ASSERT_TRUE(add(b, packet(wire::RcOp::kSendOnly, true, 0), 64));  // 112 bytes
    EXPECT_FALSE(b.piggyback(said, 151));
    ASSERT_TRUE(add(b, packet(wire::RcOp::kSendOnly, true, 1), 64));
    EXPECT_FALSE(b.piggyback(said, kRoomy)) << "a later segment longer than the first";
    ASSERT_TRUE(add(b, packet(wire::RcOp::kSendOnly, true, 2), 24));
    EXPECT_TRUE(b.piggyback(said, kRoomy)) << "now as long";
    ASSERT_TRUE(add(b, packet(wire::RcOp::kSendOnly, true, 3), 20));
    EXPECT_TRUE(b.piggyback(said, kRoomy)) << "shorter: the last";
    EXPECT_FALSE(b.fits(44, 0, true));
    Transmit out;
    ASSERT_TRUE(b.finish(out));
    const auto each = segments(out);
    ASSERT_EQ(each.size(), 4u);
    for (const auto& bytes : each) EXPECT_EQ(wire::stored_icrc(bytes), right_icrc(bytes, 0));
    EXPECT_EQ(each[3].size(), 108u);
  }
  {
    TransmitBatch b = batch();
    ASSERT_TRUE(add(b, packet(wire::RcOp::kSendOnly, true, 0), 64));
    EXPECT_TRUE(b.piggyback(said, 152)) << "both sides of the limit";
  }
  {
    TransmitBatch b = batch();
    ASSERT_TRUE(add(b, packet(wire::RcOp::kSendOnly, false, 0), 64));
    EXPECT_FALSE(b.piggyback(said, kRoomy)) << "a standard packet";
  }
  {
    TransmitBatch b = batch();
    ASSERT_TRUE(add(b, packet(wire::RcOp::kSendOnly, true, 0), 64));
    wire::Bth bth;
    bth.opcode = static_cast<std::uint8_t>(wire::Control::kBitmapAck);
    b.add_control(bth, std::vector<std::byte>(44));
    EXPECT_FALSE(b.piggyback(said, kRoomy)) << "the last is a control packet";
  }
  {
    config.batch_bytes_max = 143;
    TransmitBatch b = batch();
    ASSERT_TRUE(add(b, packet(wire::RcOp::kSendOnly, true, 0), 64));
    EXPECT_FALSE(b.piggyback(said, kRoomy)) << "the batch's own limit";
  }
}

TEST_F(TransmitBatchTest, NothingAddedIsNothingToSend) {
  TransmitBatch b = batch();
  Transmit out;
  EXPECT_FALSE(b.finish(out));
}

}  // namespace
}  // namespace brdma::qp
