// A request is refused while packets far beyond it have arrived: its NAK leaves after the queue pair has dropped all of
// them.
#include <gmock/gmock.h>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

TEST(Refusal, WithMorePacketsBeyondItThanItsNakHasBitsFor) {
  PairOptions options;
  options.mtu = PathMtu::k256;
  TwoEngines pair{options};
  const auto inject = [&pair](std::uint32_t ahead, std::uint32_t key) {
    wire::Packet packet;
    packet.op = wire::RcOp::kWriteOnly;
    packet.bitmap = true;
    packet.bth.opcode = wire::opcode_of(packet.op, true);
    packet.bth.dest_qpn = pair.side[1].engine->qp_num(pair.side[1].qp);
    packet.bth.psn = Psn{pair.options.first_psn[0]} + ahead;
    packet.bth.ack_request = true;
    packet.bxth.source_qpn = pair.side[0].engine->qp_num(pair.side[0].qp);
    packet.bxth.msn = ahead;
    packet.reth = {pair.side[1].at(0), key, 8};
    const std::vector<std::byte> payload(8, std::byte{0xEE});
    pair.inject(1, pair.make(0, packet, payload));
  };
  inject(3000, pair.side[1].key);
  inject(0, pair.side[1].key ^ 0x100);
  EXPECT_EQ(pair.state(1), QpState::kErr);
  const auto nak = [](const Sent& sent) {
    if (sent.from != 1 || !sent.control(wire::Control::kBitmapAck)) return false;
    return wire::parse_bitmap_ack(sent.packet().payload, sent.bth().psn)->syndrome == wire::kSyndromeNakRemoteAccess;
  };
  EXPECT_GT(pair.sent_by(1, nak), 0u);
}

}  // namespace
}  // namespace brdma::test
