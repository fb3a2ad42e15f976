// Headers of a run equal those of single packets.
#include <gtest/gtest.h>

#include <array>

#include "base/random.h"
#include "wire/run_headers.h"

namespace brdma::wire {
namespace {

std::uint32_t bits24(Random& random) { return static_cast<std::uint32_t>(random.below(1u << 24)); }

Packet some_packet(RcOp op, Random& random) {
  Packet packet;
  packet.bth.opcode = opcode_of(op, true);
  packet.bth.dest_qpn = bits24(random);
  packet.bth.psn = Psn{bits24(random)};
  packet.bth.ack_request = random.below(2) == 0;
  packet.bth.solicited = random.below(2) == 0;
  packet.bth.pad = static_cast<std::uint8_t>(random.below(4));
  packet.bxth.path = static_cast<std::uint8_t>(random.below(256));
  packet.bxth.source_qpn = bits24(random);
  packet.bxth.msn = bits24(random);
  packet.bxth.rsn = bits24(random);
  packet.bxth.packet_index = bits24(random);
  packet.bxth.timestamp = random.next() & kTimestampMask;
  packet.bxth.token = random.next();
  packet.aeth = {static_cast<std::uint8_t>(random.below(256)), bits24(random)};
  packet.reth = {random.next(), static_cast<std::uint32_t>(random.next()), static_cast<std::uint32_t>(random.next())};
  return packet;
}

TEST(RunHeaders, EqualThoseOfSinglePackets) {
  Random random{1, "run headers"};
  for (int i = 0; i < 1000; ++i) {
    const RcOp op = std::array{RcOp::kWriteOnly, RcOp::kSendOnly, RcOp::kWriteMiddle, RcOp::kSendMiddle,
                               RcOp::kReadResponseMiddle}[i % 5];
    const Packet first = some_packet(op, random);
    const OpcodeShape shape = opcode_shape(first.bth.opcode);
    const bool whole = i % 2 == 0 || shape.has(OpcodeShape::kAeth);
    const RunHeaders headers =
        whole ? RunHeaders{first} : RunHeaders{first.bth, first.bxth, shape.has(OpcodeShape::kReth)};
    Packet packet = some_packet(op, random);
    packet.bth.dest_qpn = first.bth.dest_qpn;
    packet.bxth.path = first.bxth.path;
    packet.bxth.source_qpn = first.bxth.source_qpn;
    packet.bxth.timestamp = first.bxth.timestamp;
    packet.bxth.token = first.bxth.token;
    packet.aeth = first.aeth;
    std::array<std::byte, kPacketHeadersMax> expected{}, made{};
    ASSERT_EQ(emit_headers(packet, expected.data()), headers.size());
    headers.emit({.psn = packet.bth.psn,
                  .ack_request = packet.bth.ack_request,
                  .solicited = packet.bth.solicited,
                  .msn = packet.bxth.msn,
                  .rsn = packet.bxth.rsn,
                  .packet_index = packet.bxth.packet_index,
                  .reth = packet.reth},
                 packet.bth.pad, made.data());
    ASSERT_EQ(made, expected) << i;
  }
}

TEST(MiddleHeaders, AreThoseOfTheRun) {
  Random random{1, "inside headers"};
  for (int i = 0; i < 1000; ++i) {
    const Packet first =
        some_packet(std::array{RcOp::kWriteMiddle, RcOp::kSendMiddle, RcOp::kReadResponseMiddle}[i % 3], random);
    const RunHeaders headers{first};
    RunHeaders::Own own{.psn = first.bth.psn, .msn = first.bxth.msn, .rsn = first.bxth.rsn, .reth = first.reth};
    const MiddleHeaders inside{headers, own};
    own.psn = Psn{bits24(random)};
    own.ack_request = random.below(2) == 0;
    own.packet_index = bits24(random);
    own.reth.address = random.next();
    std::array<std::byte, MiddleHeaders::kWritten> expected{}, made{};
    headers.emit(own, 0, expected.data());
    inside.emit(own, made.data());
    ASSERT_EQ(inside.size(), headers.size());
    ASSERT_TRUE(std::equal(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(inside.size()), expected.begin()));
  }
}

}  // namespace
}  // namespace brdma::wire
