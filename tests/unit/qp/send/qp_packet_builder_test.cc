// qp/send/packet_builder.h: the headers of a message's packets, the same for a retransmission.
#include <gtest/gtest.h>

#include "qp/send/packet_builder.h"
#include "qp/state/environment.h"

namespace brdma::qp {
namespace {

constexpr std::uint32_t kMtu = 1024;

struct Sender {
  Sender() {
    identity.attributes.path_mtu = PathMtu::k1024;
    identity.attributes.destination_qpn = 77;
    identity.bitmap_agreed = true;
    scoreboard.begin_from(Psn{1000});
  }
  // A message of `packets` at sequence 0, the only work request.
  Message post(WorkOpcode opcode, MessageKind kind, std::uint32_t packets) {
    SendRequest request;
    request.opcode = opcode;
    request.remote_address = 0x10000;
    request.rkey = 5;
    request.immediate_be = 0x1234;
    EXPECT_TRUE(queue.push(request, packets * kMtu));
    return {.packets = packets, .length = packets * kMtu, .msn = 3, .kind = kind};
  }
  wire::Packet data(const Message& message, Sequence sequence, bool again = false) const {
    wire::Packet packet;
    PacketBuilder{identity, queue, scoreboard}.data(packet, message, sequence, again, now);
    return packet;
  }

  RecoveryConfig recovery;
  Identity identity;
  bitmap::SegmentPool segments;
  Scoreboard scoreboard{window_shape(recovery), segments};
  SendQueue queue{QpCapabilities{.send_wr_max = 4, .send_sge_max = 1}};
  Instant now = Instant{} + 1_s;
};

TEST(PacketBuilder, AWritesPacketsNameTheirPlace) {
  Sender sender;
  const Message message = sender.post(WorkOpcode::kRdmaWrite, MessageKind::kWrite, 3);
  const wire::RcOp ops[] = {wire::RcOp::kWriteFirst, wire::RcOp::kWriteMiddle, wire::RcOp::kWriteLast};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const wire::Packet packet = sender.data(message, i);
    EXPECT_EQ(packet.op, ops[i]);
    EXPECT_EQ(packet.bth.psn, Psn{1000 + i});
    EXPECT_EQ(packet.bth.dest_qpn, 77U);
    EXPECT_EQ(packet.bxth.packet_index, i);
    EXPECT_EQ(packet.bxth.msn, 3U);
    EXPECT_EQ(packet.reth.address, 0x10000 + i * kMtu);
    EXPECT_FALSE(packet.bxth.retransmitted);
  }
}

TEST(PacketBuilder, ARetransmissionDiffersByItsMarkAlone) {
  Sender sender;
  const Message message = sender.post(WorkOpcode::kSendWithImm, MessageKind::kSend, 2);
  wire::Packet first = sender.data(message, 1);
  const wire::Packet again = sender.data(message, 1, true);
  EXPECT_TRUE(again.bxth.retransmitted);
  EXPECT_EQ(again.op, first.op);
  EXPECT_EQ(first.op, wire::RcOp::kSendLastImm);
  EXPECT_EQ(again.bth.psn, first.bth.psn);
  EXPECT_EQ(again.immediate_be, 0x1234U);
}

TEST(PacketBuilder, AReRequestAsksForWhatIsMissing) {
  Sender sender;
  const Message message = sender.post(WorkOpcode::kRdmaRead, MessageKind::kRead, 4);
  wire::Packet packet;
  PacketBuilder{sender.identity, sender.queue, sender.scoreboard}.request(packet, message, 1, 2, true, sender.now);
  EXPECT_EQ(packet.op, wire::RcOp::kReadRequest);
  EXPECT_EQ(packet.bth.psn, Psn{1001});
  EXPECT_EQ(packet.reth.address, 0x10000U + kMtu);
  EXPECT_EQ(packet.reth.length, 2 * kMtu);
  EXPECT_TRUE(packet.bth.ack_request);
}

TEST(PacketBuilder, WithoutAgreementThereIsNoExtension) {
  Sender sender;
  sender.identity.bitmap_agreed = false;
  const wire::Packet packet = sender.data(sender.post(WorkOpcode::kRdmaWrite, MessageKind::kWrite, 1), 0, true);
  EXPECT_EQ(packet.op, wire::RcOp::kWriteOnly);
  EXPECT_FALSE(packet.bitmap);
  EXPECT_FALSE(packet.bxth.retransmitted);
}

}  // namespace
}  // namespace brdma::qp
