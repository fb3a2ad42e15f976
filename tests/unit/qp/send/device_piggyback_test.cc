// Piggybacked ACKs (docs/reference/wire.md#acknowledgement-inside-a-data-packet): when an acknowledgement is
// piggybacked, when it has its own packet, and how the receiver processes it.
#include <gmock/gmock.h>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

class Piggyback : public testing::Test {
 protected:
  static bool is_ack(const Sent& sent) { return sent.control(wire::Control::kBitmapAck); }
  static bool carries(const Sent& sent) { return !sent.packet().control && sent.packet().bxth.piggyback; }
  std::size_t carried_by(int i) const { return pair.sent_by(i, carries); }
  std::size_t acks_by(int i) const { return pair.sent_by(i, is_ack); }
  // Side 0 sends, and side 1 posts in the instant in which the packet arrives.
  void ping_pong(const SendRequest& ping, const SendRequest& pong) {
    ASSERT_TRUE(pair.post(0, ping).ok());
    pair.round();
    pair.now = pair.now + pair.options.one_way_delay;
    ASSERT_TRUE(pair.post(1, pong).ok());
    pair.round();
  }
  // The last packet of side 0, as it arrives at side 1.
  [[nodiscard]] Datagram newest() const {
    return {.source = pair.side[0].address,
            .destination = pair.side[1].address,
            .source_port = pair.wire.back().source_port,
            .ip_id_known = true,
            .bytes = pair.wire.back().bytes};
  }
  // A WRITE of eight bytes to offset 0 that carries an acknowledgement, as side 0 might send it next.
  wire::Packet write_with(Psn base) {
    wire::Packet p;
    p.op = wire::RcOp::kWriteOnly;
    p.bitmap = true;
    p.bth.opcode = wire::opcode_of(p.op, true);
    p.bth.dest_qpn = pair.side[1].engine->qp_num(pair.side[1].qp);
    p.bth.psn = Psn{1000};
    p.bxth.source_qpn = pair.side[0].engine->qp_num(pair.side[0].qp);
    p.bxth.piggyback = true;
    p.piggyback.base = base;
    p.piggyback.credit_packets = 77;
    p.reth = {pair.side[1].at(0), pair.side[1].key, 8};
    return p;
  }
  void expect_all_counted() {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(pair.accepted_and_dropped(i), pair.side[i].count(Counter::kReceivedPackets));
    }
  }

  TwoEngines pair;
  const std::vector<std::byte> payload = std::vector<std::byte>(8, std::byte{0xEE});
};

TEST_F(Piggyback, AReplyCarriesTheAcknowledgement) {
  pair.fill(0, 1);
  const std::uint64_t before = pair.side[1].count(Counter::kAcksSent);
  ping_pong(pair.write(0, 0, 8, 1), pair.write(1, 4096, 8, 2));
  EXPECT_EQ(pair.sent_by(1, [](const Sent&) { return true; }), 1u) << "one packet says both";
  EXPECT_EQ(carried_by(1), 1u);
  EXPECT_EQ(pair.wire.back().bytes.size(), 12u + 32 + 40 + 16 + 8 + 4);
  EXPECT_EQ(pair.wire.back().packet().piggyback.base, Psn{1001});
  EXPECT_EQ(pair.wire.back().packet().piggyback.msn, 1u);
  EXPECT_TRUE(pair.wire.back().packet().piggyback.echo_valid);
  EXPECT_EQ(pair.side[1].count(Counter::kAcksSent), before + 1);
  EXPECT_EQ(pair.side[1].count(Counter::kAcksPiggybacked), 1u);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kSuccess);
  EXPECT_EQ(pair.poll(1).at(0).status, CompletionStatus::kSuccess);
  EXPECT_EQ(pair.side[0].count(Counter::kAcksReceived), 1u);
  EXPECT_EQ(acks_by(1), 0u) << "said once";
  EXPECT_EQ(pair.side[0].count(Counter::kStalePiggybacks), 0u);
  EXPECT_NE(pair.story({"ack_sent"}).find("1 ack_sent"), std::string::npos);
  EXPECT_NE(pair.story({"ack_received"}).find("0 ack_received"), std::string::npos);
  EXPECT_TRUE(pair.same(0, 8));
  expect_all_counted();
}

// A single request is written with its piggybacked ACK at once (qp/turn/poll_transmit.cc).
TEST_F(Piggyback, AReplyThatIsASendCarriesItToo) {
  pair.fill(1, 1);
  ASSERT_TRUE(pair.post_receive(0, 8192, 64, 3).ok());
  SendRequest send = pair.write(1, 4096, 61, 2);
  send.opcode = WorkOpcode::kSend;
  send.flags |= kSendSolicited;
  ping_pong(pair.write(0, 0, 8, 1), send);
  ASSERT_EQ(pair.sent_by(1, [](const Sent&) { return true; }), 1u);
  const wire::Packet packet = pair.wire.back().packet();
  EXPECT_EQ(pair.wire.back().bytes.size(), 12u + 32 + 40 + 61 + 3 + 4);
  EXPECT_EQ(packet.op, wire::RcOp::kSendOnly);
  EXPECT_TRUE(packet.bth.solicited && packet.bth.ack_request && packet.bxth.piggyback);
  EXPECT_EQ(packet.bth.psn, Psn{5000});
  EXPECT_EQ(packet.piggyback.base, Psn{1001});
  EXPECT_EQ(packet.payload.size(), 61u);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_TRUE(std::equal(packet.payload.begin(), packet.payload.end(), pair.side[0].memory.begin() + 8192));
  expect_all_counted();
}

TEST(PiggybackAtTheLeastMtu, AReplyThatFillsItsPacketIsFollowedByItsOwn) {
  PairOptions options;
  options.mtu = PathMtu::k256;
  TwoEngines pair{options};
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8, 1)).ok());
  pair.round();
  pair.now = pair.now + pair.options.one_way_delay;
  ASSERT_TRUE(pair.post(1, pair.write(1, 4096, 256, 2)).ok());
  pair.round();
  EXPECT_EQ(pair.sent_by(1, [](const Sent& sent) { return sent.data() && !sent.packet().bxth.piggyback; }), 1u);
  EXPECT_EQ(pair.sent_by(1, [](const Sent& sent) { return sent.control(wire::Control::kBitmapAck); }), 1u);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size() + pair.poll(1).size(), 2u);
}

TEST_F(Piggyback, HasNothingPendingWhenNothingMoreLeaves) {
  Engine& replies = *pair.side[1].engine;
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(replies.transmit_interest().level, TransmitInterest::kNone);
  TransmitBuffer buffer;
  Transmit out;
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8, 1)).ok());
    EXPECT_EQ(pair.side[0].engine->transmit_interest().level, TransmitInterest::kNewData);
    pair.round();
    pair.now = pair.now + pair.options.one_way_delay;
    ASSERT_TRUE(pair.post(1, pair.write(1, 4096, 8, 2)).ok());
    EXPECT_EQ(replies.transmit_interest().level, TransmitInterest::kNewData) << "there is a reply";
    pair.round();
    EXPECT_EQ(replies.transmit_interest().level, TransmitInterest::kNone);
    EXPECT_FALSE(replies.poll_transmit(buffer, out, pair.now));
    ASSERT_TRUE(pair.run_until_idle());
  }
}

TEST_F(Piggyback, ResponsesCarryItToo) {
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8, 1)).ok());
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 4096, 16, 2)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(carried_by(1), 1u);
  EXPECT_EQ(acks_by(1), 0u);
  EXPECT_EQ(pair.poll(0).size(), 2u);
  expect_all_counted();
}

TEST_F(Piggyback, AFullBatchIsFollowedByItsOwnPacket) {
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8, 1)).ok());
  pair.round();
  pair.now = pair.now + pair.options.one_way_delay;
  for (std::uint64_t n = 0; n < 4; ++n) ASSERT_TRUE(pair.post(1, pair.write(1, 4096 * n, 64, n)).ok());
  pair.round();
  EXPECT_EQ(carried_by(1), 0u) << "no segment may be longer than the first";
  EXPECT_EQ(acks_by(1), 1u);
  EXPECT_EQ(pair.wire.back().batch, pair.wire[pair.wire.size() - 5].batch) << "the shorter last segment of their batch";
  ASSERT_TRUE(pair.run_until_idle());
}

TEST_F(Piggyback, AShorterLastPacketCarriesIt) {
  ping_pong(pair.write(0, 0, 8, 1), pair.write(1, 4096, 1024 + 100, 2));
  EXPECT_EQ(carried_by(1), 1u);
  EXPECT_TRUE(carries(pair.wire.back()));
  EXPECT_EQ(acks_by(1), 0u);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 1u);
}

// A peer that polls until it is acknowledged and then spins on its memory receives the whole reply that way.
TEST_F(Piggyback, AReplyOfSeveralBatchesHasTheAcknowledgementInTheLast) {
  constexpr std::uint32_t kBytes = 200 * 1024;
  pair.fill(1, 3);
  ping_pong(pair.write(0, 512 << 10, 8, 1), pair.write(1, 0, kBytes, 2));
  std::size_t last_batch = 0, ack_batch = 0, data_batches = 0;
  for (const Sent& sent : pair.wire) {
    if (sent.from != 1) continue;
    if (sent.data() && sent.batch != last_batch) ++data_batches;
    if (sent.data()) last_batch = sent.batch;
    if (is_ack(sent) || (sent.data() && carries(sent))) ack_batch = sent.batch;
  }
  EXPECT_GE(data_batches, 3u);
  EXPECT_EQ(acks_by(1) + carried_by(1), 1u);
  EXPECT_EQ(ack_batch, last_batch);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 1u);
  EXPECT_EQ(pair.poll(1).size(), 1u);
  EXPECT_TRUE(pair.same(0, kBytes));
}

TEST_F(Piggyback, ALongReplyHasTheAcknowledgementInTheFirstBatch) {
  pair.fill(1, 3);
  ping_pong(pair.write(0, 768 << 10, 8, 1), pair.write(1, 0, 1u << 20, 2));
  const auto first = std::ranges::find_if(pair.wire, [](const Sent& sent) { return sent.from == 1 && sent.data(); });
  const auto ack = std::ranges::find_if(pair.wire, [](const Sent& sent) { return sent.from == 1 && is_ack(sent); });
  ASSERT_NE(ack, pair.wire.end());
  EXPECT_EQ(ack->batch, first->batch);
  ASSERT_TRUE(pair.run_until_idle());
}

// Longer than until a reply begins, because now it is certain to come; but the peer would ask again.
TEST_F(Piggyback, AReplyThatLeavesSlowlyDoesNotKeepTheAcknowledgement) {
  pair.paused[1] = true;
  ASSERT_TRUE(pair.post(0, pair.write(0, 512 << 10, 8, 1)).ok());
  pair.round();
  auto& side = pair.side[1];
  side.engine->handle_datagram(newest(), pair.now);
  ASSERT_TRUE(pair.post(1, pair.write(1, 0, 200 * 1024, 2)).ok());
  Transmit out;
  TransmitBuffer buffer;
  ASSERT_TRUE(side.engine->poll_transmit(buffer, out, pair.now));
  EXPECT_EQ(side.count(Counter::kAcksSent), 0u);
  const Instant begun = pair.now;
  pair.now = begun + RecoveryConfig{}.ack_delay * 2;
  ASSERT_TRUE(side.engine->poll_transmit(buffer, out, pair.now));
  EXPECT_EQ(side.count(Counter::kAcksSent), 0u);
  pair.now = begun + RecoveryConfig{}.ack_delay * 4;
  ASSERT_TRUE(side.engine->poll_transmit(buffer, out, pair.now));
  EXPECT_EQ(side.count(Counter::kAcksSent), 1u);
}

TEST_F(Piggyback, TheLargestPacketOfThePathMtuHasNoRoom) {
  ping_pong(pair.write(0, 0, 8, 1), pair.write(1, 4096, 1024, 2));
  EXPECT_EQ(carried_by(1), 0u);
  EXPECT_EQ(acks_by(1), 1u);
  ASSERT_TRUE(pair.run_until_idle());
}

TEST_F(Piggyback, BitsBeyondTheBaseNeedTheirOwnPacket) {
  pair.drop = [](const Sent& sent) { return sent.from == 0 && sent.data() && sent.psn() == 1000 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8, 1)).ok());
  ping_pong(pair.write(0, 64, 8, 2), pair.write(1, 4096, 8, 3));
  EXPECT_EQ(carried_by(1), 0u);
  EXPECT_EQ(acks_by(1), 1u);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 2u);
  EXPECT_EQ(pair.poll(1).size(), 1u);
}

TEST_F(Piggyback, ALostCarrierIsRepaired) {
  pair.drop = [](const Sent& sent) { return sent.from == 1 && carries(sent) && sent.copy == 1; };
  ping_pong(pair.write(0, 0, 8, 1), pair.write(1, 4096, 8, 2));
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kSuccess);
  EXPECT_EQ(pair.poll(1).at(0).status, CompletionStatus::kSuccess);
  expect_all_counted();
}

// The second reply overtakes the first: the first one's acknowledgement has no news, its data has.
TEST_F(Piggyback, AnOvertakenAcknowledgementIsCountedAndItsDataTaken) {
  pair.fill(1, 5);
  pair.extra_delay = [](const Sent& sent) { return sent.from == 1 && sent.psn() == 5000 ? 20_us : Duration{}; };
  ping_pong(pair.write(0, 512 << 10, 8, 1), pair.write(1, 4096, 8, 2));
  ping_pong(pair.write(0, 520 << 10, 8, 3), pair.write(1, 8192, 8, 4));
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.side[0].count(Counter::kStalePiggybacks), 1u);
  EXPECT_EQ(pair.side[0].count(DropReason::kStaleResponse), 0u);
  EXPECT_TRUE(pair.same(4096, 8));
  EXPECT_TRUE(pair.same(8192, 8));
  EXPECT_EQ(pair.poll(0).size(), 2u);
  EXPECT_EQ(pair.poll(1).size(), 2u);
  expect_all_counted();
}

TEST_F(Piggyback, WhatCannotBeIsDroppedWithItsPacket) {
  auto& side = pair.side[1];
  std::uint64_t expected = 0;
  auto unsent = write_with(Psn{5001});  // side 1 has sent nothing
  pair.inject(1, pair.make(0, unsent, payload));
  EXPECT_EQ(side.count(DropReason::kBadControl), ++expected);
  auto stranger = write_with(Psn{5000});
  stranger.bxth.source_qpn ^= 0x100;
  pair.inject(1, pair.make(0, stranger, payload));
  EXPECT_EQ(side.count(DropReason::kBadToken), 1u);
  auto nak = write_with(Psn{5000});
  nak.piggyback.syndrome = wire::kSyndromeNakRemoteAccess;
  pair.inject(1, pair.make(0, nak, payload));
  EXPECT_EQ(side.count(DropReason::kBadControl), ++expected);
  EXPECT_EQ(side.memory[0], std::byte{0});
  EXPECT_EQ(pair.state(1), QpState::kRts);
  pair.inject(1, pair.make(0, write_with(Psn{5000}), payload));
  EXPECT_EQ(side.memory[0], std::byte{0xEE});
  EXPECT_EQ(side.count(Counter::kAcksReceived), 1u);
  expect_all_counted();
}

// A driver may leave this for its next call: an acknowledgement of one queue pair, and nothing else.
TEST_F(Piggyback, OwesOnlyAnAcknowledgement) {
  Engine& engine = *pair.side[1].engine;
  EXPECT_EQ(engine.transmit_interest().level, TransmitInterest::kNone) << "nothing happened";
  pair.paused[1] = true;
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8, 1)).ok());
  pair.round();
  const Datagram first = newest();
  engine.handle_datagram(first, pair.now);
  for (int times = 0; times < 2; ++times) {  // asking changes nothing
    const Engine::Interest interest = engine.transmit_interest();
    EXPECT_EQ(interest.level, TransmitInterest::kDeferrable);
    EXPECT_EQ(interest.only, pair.side[1].qp);
    EXPECT_FALSE(engine.has_notifications());
  }
  ASSERT_TRUE(pair.post(1, pair.write(1, 4096, 8, 2)).ok());
  EXPECT_EQ(engine.transmit_interest().level, TransmitInterest::kNewData) << "a request is to be sent";
}

// A driver may wait for this in a poll that has its completion: the rest of the peer's message, and nothing else.
TEST_F(Piggyback, OnlyReceives) {
  Engine& engine = *pair.side[1].engine;
  const auto load = [&] { return engine.load(pair.side[1].qp); };
  EXPECT_FALSE(load().receiving) << "nothing has come";
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 3 * 1024, 1)).ok());
  pair.round();
  std::vector<Datagram> came;
  for (const Sent& sent : pair.wire) {
    if (sent.from != 0 || !sent.data()) continue;
    came.push_back(newest());
    came.back().bytes = sent.bytes;
  }
  ASSERT_EQ(came.size(), 3u);
  engine.handle_datagram(came[0], pair.now);
  EXPECT_TRUE(load().receiving && !load().requests) << "two packets are to come";
  ASSERT_TRUE(pair.post(1, pair.write(1, 4096, 8, 2)).ok());
  EXPECT_TRUE(load().receiving && load().requests) << "a request of its own";
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_FALSE(load().receiving || load().requests) << "the message is whole";
}

TEST_F(Piggyback, HasPendingWorkForApplicationEvents) {
  Engine& engine = *pair.side[1].engine;
  pair.paused[1] = true;
  ASSERT_TRUE(pair.post_receive(1, 0, 64, 7).ok());
  engine.request_notify(pair.side[1].receive_cq, false);
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 8, 1)).ok());
  (void)engine.next_timeout();  // the receive is settled
  TransmitBuffer buffer;
  Transmit out;
  while (engine.poll_transmit(buffer, out, pair.now)) continue;
  pair.round();
  engine.handle_datagram(newest(), pair.now);
  EXPECT_TRUE(engine.has_notifications()) << "an event";
  EXPECT_EQ(engine.transmit_interest().level, TransmitInterest::kDeferrable);
  EXPECT_TRUE(engine.has_notifications()) << "asking changes nothing";
  EXPECT_TRUE(engine.poll_notification().has_value());
}

// An acknowledgement that waits for the program's reply still waits when copies of the packet arrive. Else it would
// leave alone, and a peer that spins on its memory stops receiving with it.
TEST_F(Piggyback, CopiesDoNotHurryAnAcknowledgementThatWaits) {
  pair.paused[1] = true;
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8, 1)).ok());
  pair.round();
  auto& side = pair.side[1];
  const Datagram datagram = newest();
  for (int copies = 0; copies < 3; ++copies) {
    side.engine->handle_datagram(datagram, pair.now);
    EXPECT_EQ(side.engine->transmit_interest().level, TransmitInterest::kDeferrable) << copies;
  }
  Transmit out;
  TransmitBuffer buffer;
  ASSERT_TRUE(side.engine->poll_transmit(buffer, out, pair.now)) << "but it may leave at any time";
  side.engine->handle_datagram(datagram, pair.now);
  EXPECT_EQ(side.engine->transmit_interest().level, TransmitInterest::kForced) << "the acknowledgement was lost";
}

// A peer whose CAPS declare bitmap mode, but not piggybacked ACKs.
TEST(PiggybackCapability, WithoutItAcknowledgementsKeepTheirOwnPacket) {
  PairOptions options;
  options.settle = false;
  TwoEngines pair{options};
  pair.drop = [](const Sent& sent) { return sent.from == 0 && sent.control(wire::Control::kCaps); };
  pair.round();
  wire::Caps caps;
  caps.reply = true;
  caps.source_qpn = pair.side[0].engine->qp_num(pair.side[0].qp);
  caps.capabilities = wire::kCapabilityBitmap;
  caps.path_mtu_code = static_cast<std::uint8_t>(options.mtu);
  caps.window_packets = 4096;
  caps.credit_packets = 256;
  caps.credit_bytes = 1u << 20;
  std::vector<std::byte> packet(wire::kBthSize + wire::kCapsSize + wire::kIcrcSize);
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kCaps);
  bth.dest_qpn = pair.side[1].engine->qp_num(pair.side[1].qp);
  wire::emit_bth(bth, packet.data());
  wire::emit_caps(caps, packet.data() + wire::kBthSize);
  pair.sign(0, packet);
  pair.inject(1, packet);
  pair.run_for(2_ms);
  ASSERT_EQ(pair.side[1].count(Counter::kBitmapQps), 1u);
  pair.wire.clear();
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8, 1)).ok());
  pair.round();
  pair.now = pair.now + options.one_way_delay;
  ASSERT_TRUE(pair.post(1, pair.write(1, 4096, 8, 2)).ok());
  pair.round();
  EXPECT_EQ(pair.sent_by(1, [](const Sent& sent) { return sent.data() && sent.packet().bxth.piggyback; }), 0u);
  EXPECT_EQ(pair.sent_by(1, [](const Sent& sent) { return sent.control(wire::Control::kBitmapAck); }), 1u);
  EXPECT_EQ(pair.side[1].count(Counter::kAcksPiggybacked), 0u);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kSuccess);
}

}  // namespace
}  // namespace brdma::test
