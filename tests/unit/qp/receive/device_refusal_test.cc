// A request is refused while packets far beyond it have arrived: its NAK leaves after the queue pair has dropped all of
// them.
#include <gmock/gmock.h>

#include <tuple>

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

// A NAK is lost twice: it leaves again, and the requester does not take the peer for dead.
class LostRefusal : public testing::TestWithParam<std::tuple<RecoveryMode, WorkOpcode>> {};

TEST_P(LostRefusal, LeavesAgainForTheSameRequest) {
  const auto [mode, opcode] = GetParam();
  PairOptions options;
  options.mode[0] = options.mode[1] = mode;
  TwoEngines pair{options};
  ASSERT_TRUE(pair.post(0, pair.write(0, 512, 64, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(pair.poll(0).size(), 1U);
  SendRequest wrong = pair.request(0, opcode, 0, 64, 2);
  wrong.rkey ^= 0x100;
  int lost = 0;
  pair.drop = [&lost](const Sent& sent) { return sent.from == 1 && lost < 2 && ++lost > 0; };
  ASSERT_TRUE(pair.post(0, wrong).ok());
  ASSERT_TRUE(pair.run_until_idle());
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, CompletionStatus::kRemoteAccessError);
  EXPECT_EQ(lost, 2);
}

INSTANTIATE_TEST_SUITE_P(, LostRefusal,
                         testing::Combine(testing::Values(RecoveryMode::kBitmap, RecoveryMode::kStandard,
                                                          RecoveryMode::kGoBackN, RecoveryMode::kWan),
                                          testing::Values(WorkOpcode::kRdmaWrite, WorkOpcode::kRdmaRead)));

}  // namespace
}  // namespace brdma::test
