// UC and UD queue pairs of two engines: messages arrive whole and once or are counted as lost, and nothing that a peer
// or the network does stops either side.
#include <gmock/gmock.h>

#include <cerrno>

#include "support/bytes.h"
#include "support/two_engines.h"

namespace brdma::test {
namespace {

using testing::ElementsAre;

PairOptions options_of(QpType type) {
  PairOptions options;
  options.type = type;
  return options;
}

constexpr std::uint32_t kGrh = 40;

struct Datagrams : TwoEngines {
  explicit Datagrams(PairOptions given = options_of(QpType::kUd)) : TwoEngines(std::move(given)) { fill(0, 1); }
  SendRequest send(std::uint64_t offset, std::uint32_t length, std::uint64_t wr_id) {
    return request(0, WorkOpcode::kSend, offset, length, wr_id);
  }
};

TEST(Ud, AMessageArrivesBehindItsHeader) {
  for (const bool v6 : {false, true}) {
    PairOptions options = options_of(QpType::kUd);
    options.v6 = v6;
    Datagrams pair{options};
    ASSERT_TRUE(pair.post_receive(1, 4096, 2000, 7).ok());
    SendRequest request = pair.request(0, WorkOpcode::kSendWithImm, 0, 100, 3);
    request.immediate_be = 0xCAFE;
    ASSERT_TRUE(pair.post(0, request).ok());
    ASSERT_TRUE(pair.run_until_idle());
    const auto sent = pair.poll(0);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].wr_id, 3u);
    EXPECT_EQ(sent[0].opcode, CompletionOpcode::kSend);
    const auto received = pair.poll_receives(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].wr_id, 7u);
    EXPECT_EQ(received[0].status, CompletionStatus::kSuccess);
    EXPECT_EQ(received[0].opcode, CompletionOpcode::kReceive);
    EXPECT_EQ(received[0].byte_length, 100u + kGrh);
    EXPECT_EQ(received[0].flags, kCompletionWithGrh | kCompletionWithImm);
    EXPECT_EQ(received[0].immediate_be, 0xCAFEu);
    EXPECT_EQ(received[0].source_qp, pair.side[0].engine->qp_num(pair.side[0].qp));
    EXPECT_EQ(received[0].sl, v6 ? 0x9 : 0xA);
    EXPECT_TRUE(pair.same(0, 100, 4096 + kGrh));
    const ConstBytes grh{pair.side[1].memory.data() + 4096, kGrh};
    // Of IPv4: 20 zeros, then a header with a right checksum. UDP 8, BTH 12, DETH 8, immediate 4, 100, ICRC 4.
    EXPECT_EQ(to_hex(grh), to_hex(v6 ? hex("60000000 0088 11 40 fd000000000000000000000000000001"
                                           "fd000000000000000000000000000002")
                                     : hex("0000000000000000000000000000000000000000"
                                           "4500 009c 0000 4000 40 11 264f 0a000001 0a000002")));
  }
}

TEST(Ud, MessagesOfOneDestinationShareABatchAndComeInOrder) {
  Datagrams pair;
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(pair.post_receive(1, 65536 + 2048 * i, 1064, i).ok());
    ASSERT_TRUE(pair.post(0, pair.send(1024 * i, 1024, i)).ok());
  }
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 8u);
  const auto received = pair.poll_receives(1);
  ASSERT_EQ(received.size(), 8u);
  for (std::uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(received[i].wr_id, i);
    EXPECT_TRUE(pair.same(1024 * i, 1024, 65536 + 2048 * i + kGrh)) << i;
  }
  EXPECT_EQ(pair.wire.front().batch, pair.wire.back().batch);
  EXPECT_EQ(pair.wire[3].psn(), pair.options.first_psn[0] + 3);
  EXPECT_FALSE(pair.wire[3].bth().ack_request);
}

TEST(Ud, SendsCompleteWhenTheNextBatchIsAskedFor) {
  Datagrams pair;
  auto& engine = *pair.side[0].engine;
  ASSERT_TRUE(pair.post(0, pair.send(0, 64, 1)).ok());
  TransmitBuffer buffer;
  Transmit out;
  ASSERT_TRUE(engine.poll_transmit(buffer, out, pair.now));
  EXPECT_TRUE(pair.poll(0).empty()) << "whoever sends it may still be reading its memory";
  EXPECT_FALSE(engine.poll_transmit(buffer, out, pair.now));
  EXPECT_EQ(pair.poll(0).size(), 1u);
}

TEST(Ud, TheQkeyDecides) {
  Datagrams pair;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pair.post_receive(1, 0, 2000, 1).ok());
  SendRequest wrong = pair.send(0, 8, 1);
  wrong.remote_qkey = 0x1234;
  ASSERT_TRUE(pair.post(0, wrong).ok());
  SendRequest own = pair.send(0, 8, 2);
  own.remote_qkey = 0x8000'0000;  // the queue pair's own, which both have in common
  ASSERT_TRUE(pair.post(0, own).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 2u);
  EXPECT_EQ(pair.poll_receives(1).size(), 1u);
  EXPECT_EQ(pair.side[1].count(DropReason::kBadQkey), 1u);
  EXPECT_EQ(pair.accepted_and_dropped(1), pair.side[1].count(Counter::kReceivedPackets));
}

TEST(Ud, WithoutAReceiveOrWithOneTooShortAMessageIsDropped) {
  Datagrams pair;
  ASSERT_TRUE(pair.post(0, pair.send(0, 8, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.side[1].count(DropReason::kNoReceive), 1u);
  ASSERT_TRUE(pair.post_receive(1, 0, kGrh + 7, 1).ok());
  ASSERT_TRUE(pair.post(0, pair.send(0, 8, 2)).ok());
  ASSERT_TRUE(pair.post(0, pair.send(0, 7, 3)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.side[1].count(DropReason::kBadLength), 1u);
  const auto received = pair.poll_receives(1);
  ASSERT_EQ(received.size(), 1u) << "the receive was left for the next";
  EXPECT_EQ(received[0].byte_length, kGrh + 7);
  EXPECT_EQ(pair.poll(0).size(), 3u) << "the sender gets no notification";
  EXPECT_EQ(pair.accepted_and_dropped(1), pair.side[1].count(Counter::kReceivedPackets));
}

TEST(Ud, AMessageLongerThanTheMtuIsALocalLengthError) {
  Datagrams pair;
  ASSERT_TRUE(pair.post(0, pair.send(0, 1024, 1)).ok());
  ASSERT_TRUE(pair.post(0, pair.send(0, 1025, 2)).ok());
  ASSERT_TRUE(pair.post(0, pair.send(0, 8, 3)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  const auto sent = pair.poll(0);
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(sent[1].status, CompletionStatus::kLocalLengthError);
  EXPECT_EQ(sent[2].status, CompletionStatus::kFlushed);
  EXPECT_EQ(pair.state(0), QpState::kSqe);
  // It still receives, and sends again after it is moved back.
  ASSERT_TRUE(pair.post_receive(0, 0, 200, 1).ok());
  ASSERT_TRUE(pair.post(1, pair.request(1, WorkOpcode::kSend, 0, 8, 1)).ok());
  ASSERT_TRUE(pair.post(0, pair.send(0, 8, 4)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll_receives(0).size(), 1u);
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kFlushed);
  ASSERT_TRUE(pair.modify(0, QpState::kRts, kQpAttrState).ok());
  ASSERT_TRUE(pair.post(0, pair.send(0, 8, 5)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kSuccess);
}

TEST(Ud, WhatCannotBePostedIsRefused) {
  Datagrams pair;
  EXPECT_EQ(pair.post(0, pair.request(0, WorkOpcode::kRdmaWrite, 0, 8, 1)).error(), EINVAL);
  EXPECT_EQ(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 8, 1)).error(), EINVAL);
  SendRequest nowhere = pair.send(0, 8, 1);
  nowhere.address = nullptr;
  EXPECT_EQ(pair.post(0, nowhere).error(), EINVAL);
  const SendRequest good = pair.send(0, 8, 1);
  for (std::uint32_t i = 0; i < pair.options.capabilities.send_wr_max; ++i) ASSERT_TRUE(pair.post(0, good).ok());
  EXPECT_EQ(pair.post(0, good).error(), ENOMEM);
}

TEST(Ud, CopiesOfTheNetworkAreMessagesOfTheirOwnAndLossesAreSilent) {
  Datagrams pair;
  pair.drop = [](const Sent& sent) { return sent.psn() % 3 == 0; };
  pair.duplicates = [](const Sent& sent) { return sent.psn() % 5 == 0 ? 1u : 0u; };
  unsigned expected = 0;
  for (std::uint64_t i = 0; i < 30; ++i) {
    const auto psn = pair.options.first_psn[0] + i;
    if (psn % 3 != 0) expected += psn % 5 == 0 ? 2 : 1;
    ASSERT_TRUE(pair.post_receive(1, 65536, 1064, i).ok());
    ASSERT_TRUE(pair.post_receive(1, 65536, 1064, i).ok());
    ASSERT_TRUE(pair.post(0, pair.send(0, 64, i)).ok());
  }
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 30u);
  EXPECT_EQ(pair.poll_receives(1).size(), expected);
}

TEST(Ud, PacketsOfOtherTransportsAreDropped) {
  Datagrams pair;
  ASSERT_TRUE(pair.post_receive(1, 0, 2000, 1).ok());
  for (const std::uint8_t opcode : {std::uint8_t{0x04}, std::uint8_t{0x24}, std::uint8_t{0xC4}}) {
    wire::Packet packet;
    packet.bth.opcode = opcode;
    packet.bth.dest_qpn = pair.side[1].engine->qp_num(pair.side[1].qp);
    pair.inject(1, pair.make(0, packet));
  }
  EXPECT_EQ(pair.side[1].count(DropReason::kUnknownOpcode), 3u);
  EXPECT_TRUE(pair.poll_receives(1).empty());
}

TEST(Ud, ToErrorAllIsFlushedInOrder) {
  Datagrams pair;
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(pair.post_receive(0, 0, 2000, i).ok());
    ASSERT_TRUE(pair.post(0, pair.send(0, 8, i)).ok());
  }
  ASSERT_TRUE(pair.modify(0, QpState::kErr, kQpAttrState).ok());
  const auto ids = [](const std::vector<Completion>& all) {
    std::vector<std::uint64_t> ids;
    for (const Completion& each : all) {
      EXPECT_EQ(each.status, CompletionStatus::kFlushed);
      ids.push_back(each.wr_id);
    }
    return ids;
  };
  EXPECT_THAT(ids(pair.poll(0)), ElementsAre(0, 1, 2));
  EXPECT_THAT(ids(pair.poll_receives(0)), ElementsAre(0, 1, 2));
  EXPECT_TRUE(pair.run_until_idle());
  EXPECT_TRUE(pair.wire.empty());
}

// A packet to a group, as side 0 would send it.
void inject_to_group(TwoEngines& pair, const IpAddress& group, bool damaged = false) {
  wire::Packet packet;
  packet.bth.opcode = 0x64;
  packet.bth.dest_qpn = 0xFF'FFFF;
  packet.deth = {.qkey = TwoEngines::kQkey, .source_qpn = 5};
  std::vector<std::byte> bytes = pair.make(0, packet, filled(8, 0xEE));
  const wire::IcrcPath path{pair.side[0].address, group, 0xC000, kRoceUdpPort, 0};
  store_le32(bytes.data() + bytes.size() - 4, wire::packet_icrc(path, bytes) + (damaged ? 1u : 0u));
  Datagram datagram;
  datagram.source = pair.side[0].address;
  datagram.destination = group;
  datagram.source_port = 0xC000;
  datagram.ip_id_known = true;
  datagram.bytes = bytes;
  pair.side[1].engine->handle_datagram(datagram, pair.now);
}

TEST(Multicast, EachQueuePairOfTheGroupGetsACopy) {
  Datagrams pair;
  auto& side = pair.side[1];
  QpCreate create;
  create.type = QpType::kUd;
  create.pd = side.pd;
  create.send_cq = create.receive_cq = side.receive_cq;
  QueuePair* const other = side.engine->create_qp(create).value();
  const IpAddress group = IpAddress::v4(239, 1, 1, 1), another = IpAddress::v4(239, 1, 1, 2);
  EXPECT_EQ(side.engine->attach_multicast(side.qp, pair.side[0].address).error(), EINVAL) << "no group";
  ASSERT_TRUE(side.engine->attach_multicast(side.qp, group).ok());
  ASSERT_TRUE(side.engine->attach_multicast(side.qp, group).ok());
  ASSERT_TRUE(side.engine->attach_multicast(other, group).ok());
  ASSERT_TRUE(pair.post_receive(1, 0, 2000, 1).ok());
  ASSERT_TRUE(pair.post_receive(1, 0, 2000, 2).ok());
  inject_to_group(pair, group);
  const auto received = pair.poll_receives(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].source_qp, 5u);
  EXPECT_EQ(side.memory[kGrh], std::byte{0xEE});
  EXPECT_EQ(side.memory[36], std::byte{239}) << "the header names the group";
  EXPECT_EQ(side.count(DropReason::kQpState), 1u) << "the other one is in RESET";
  inject_to_group(pair, another);
  EXPECT_EQ(side.count(DropReason::kUnknownQp), 1u);
  inject_to_group(pair, group, /*damaged=*/true);
  EXPECT_EQ(side.count(DropReason::kBadIcrc), 1u);
  EXPECT_EQ(side.engine->destroy_qp(side.qp).error(), EBUSY);
  ASSERT_TRUE(side.engine->detach_multicast(side.qp, group).ok());
  EXPECT_EQ(side.engine->detach_multicast(side.qp, group).error(), EINVAL);
  EXPECT_TRUE(side.engine->has_members(group));
  inject_to_group(pair, group);
  EXPECT_TRUE(pair.poll_receives(1).empty());
  EXPECT_EQ(pair.accepted_and_dropped(1), side.count(Counter::kReceivedPackets));
}

struct Connected : TwoEngines {
  Connected() : TwoEngines(options_of(QpType::kUc)) { fill(0, 2); }
};

TEST(Uc, SendsAndWritesOfManyPacketsArrive) {
  Connected pair;
  ASSERT_TRUE(pair.post_receive(1, 512 * 1024, 8192, 1).ok());
  ASSERT_TRUE(pair.post_receive(1, 0, 0, 2).ok());
  SendRequest immediate = pair.request(0, WorkOpcode::kRdmaWriteWithImm, 8192, 2500, 2);
  immediate.immediate_be = 0xBEEF;
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 5000, 1)).ok());
  ASSERT_TRUE(pair.post(0, immediate).ok());
  ASSERT_TRUE(pair.post(0, pair.write(0, 16384, 100'000, 3)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 3u);
  const auto received = pair.poll_receives(1);
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].byte_length, 5000u);
  EXPECT_EQ(received[0].flags, 0u);
  EXPECT_EQ(received[1].opcode, CompletionOpcode::kReceiveRdmaWithImm);
  EXPECT_EQ(received[1].byte_length, 2500u);
  EXPECT_EQ(received[1].immediate_be, 0xBEEFu);
  EXPECT_TRUE(pair.same(0, 5000, 512 * 1024));
  EXPECT_TRUE(pair.same(8192, 2500));
  EXPECT_TRUE(pair.same(16384, 100'000));
  EXPECT_EQ(pair.sent_by(1, [](const Sent&) { return true; }), 0u) << "nothing is acknowledged";
}

// The second of five SENDs of three packets loses one of them, each in turn.
TEST(Uc, AMessageThatLosesAPacketIsDroppedWhole) {
  for (std::uint32_t lost = 0; lost < 3; ++lost) {
    Connected pair;
    pair.drop = [&](const Sent& sent) { return sent.psn() == pair.options.first_psn[0] + 3 + lost; };
    for (std::uint64_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(pair.post_receive(1, 512 * 1024 + i * 4096, 4096, i).ok());
      ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, i * 4096, 3000, i)).ok());
    }
    ASSERT_TRUE(pair.run_until_idle());
    EXPECT_EQ(pair.poll(0).size(), 5u);
    EXPECT_EQ(pair.poll_receives(1).size(), 4u);
    EXPECT_EQ(pair.side[1].count(Counter::kUcMessagesDropped), 1u);
    // The receive of the lost one went to the next.
    EXPECT_TRUE(pair.same(0, 3000, 512 * 1024));
    for (std::uint64_t i = 2; i < 5; ++i) EXPECT_TRUE(pair.same(i * 4096, 3000, 512 * 1024 + (i - 1) * 4096)) << i;
    EXPECT_EQ(pair.accepted_and_dropped(1), pair.side[1].count(Counter::kReceivedPackets));
  }
}

TEST(Uc, WhatComesTwiceOrLateIsNotTakenAgain) {
  Connected pair;
  pair.duplicates = [](const Sent&) { return 1u; };
  pair.extra_delay = [&](const Sent& sent) { return sent.psn() == pair.options.first_psn[0] + 1 ? 20_us : 0_us; };
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(pair.post_receive(1, 512 * 1024 + i * 4096, 4096, i).ok());
    ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, i * 4096, 100, i)).ok());
  }
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll_receives(1).size(), 3u);
  EXPECT_EQ(pair.side[1].count(DropReason::kDuplicate), 5u);
  EXPECT_TRUE(pair.same(2 * 4096, 100, 512 * 1024 + 4096));
}

// Events for whole messages only, with or without an immediate.
TEST(Uc, AWatchedRegionGetsEventsOfWrites) {
  Connected pair;
  int user = 0;
  Engine& rx = *pair.side[1].engine;
  ASSERT_TRUE(rx.watch_writes(pair.side[1].region, &user).ok());
  ASSERT_TRUE(pair.post(0, pair.write(0, 4096, 5000, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  const auto arrival = rx.poll_write_arrival();
  ASSERT_TRUE(arrival);
  EXPECT_EQ(arrival->user, &user);
  EXPECT_EQ(arrival->address, pair.side[1].at(4096));
  EXPECT_EQ(arrival->length, 5000u);
  EXPECT_EQ(arrival->qp_num, rx.qp_num(pair.side[1].qp));
  bool lost = false;
  pair.drop = [&](const Sent& sent) { return sent.from == 0 && !std::exchange(lost, true); };
  ASSERT_TRUE(pair.post(0, pair.write(0, 4096, 5000, 2)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_FALSE(rx.poll_write_arrival());
  EXPECT_EQ(pair.side[1].count(Counter::kWriteEvents), 1u);
}

TEST(Uc, WhatMayNotBeWrittenIsNot) {
  Connected pair;
  SendRequest bad_key = pair.write(0, 0, 3000, 1);
  bad_key.rkey ^= 1;
  SendRequest beyond = pair.write(0, 0, 3000, 2);
  beyond.remote_address = pair.side[1].at(TwoEngines::kMemory - 2999);
  ASSERT_TRUE(pair.post(0, bad_key).ok());
  ASSERT_TRUE(pair.post(0, beyond).ok());
  ASSERT_TRUE(pair.post(0, pair.write(0, 8192, 3000, 3)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 3u);
  EXPECT_EQ(pair.side[1].count(Counter::kUcMessagesDropped), 2u);
  EXPECT_EQ(pair.side[1].count(Counter::kRemoteAccessErrors), 2u);
  EXPECT_EQ(pair.side[1].memory[TwoEngines::kMemory - 1], std::byte{0});
  EXPECT_TRUE(pair.same(8192, 3000));
  EXPECT_EQ(pair.state(1), QpState::kRts);
}

TEST(Uc, ALocalFaultInTheMiddleOfAMessageFailsItInItsTurn) {
  Connected pair;
  std::array<Sge, 2> sges{Sge{pair.side[0].at(0), 2048, pair.side[0].key},
                          Sge{pair.side[0].at(0), 2048, pair.side[0].key ^ 1}};
  SendRequest request = pair.write(0, 0, 8, 2);
  request.sges = sges;
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8, 1)).ok());
  ASSERT_TRUE(pair.post(0, request).ok());
  ASSERT_TRUE(pair.run_until_idle());
  const auto sent = pair.poll(0);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(sent[1].status, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(pair.state(0), QpState::kSqe);
}

TEST(Uc, ASendQueueIsDrainedAtTheEndOfItsMessage) {
  Connected pair;
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 200'000, 1)).ok());
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8, 2)).ok());
  TransmitBuffer buffer;
  Transmit out;
  ASSERT_TRUE(pair.side[0].engine->poll_transmit(buffer, out, pair.now));
  ASSERT_TRUE(pair.modify(0, QpState::kSqd, kQpAttrState | 4).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 1u);
  ASSERT_EQ(pair.side[0].notifications.size(), 1u);
  EXPECT_EQ(pair.side[0].notifications[0].kind, Notification::Kind::kSqDrained);
  ASSERT_TRUE(pair.modify(0, QpState::kRts, kQpAttrState).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 1u);
}

// The attributes of each transition: IBTA table 92.
TEST(Unreliable, MovesTakeTheAttributesOfTheirTransport) {
  PairOptions options = options_of(QpType::kUd);
  options.connect = false;
  TwoEngines ud{options};
  EXPECT_EQ(ud.modify(0, QpState::kInit, TwoEngines::kToInit).error(), EINVAL) << "access means nothing for UD";
  ASSERT_TRUE(ud.modify(0, QpState::kInit, kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrQkey).ok());
  EXPECT_EQ(ud.modify(0, QpState::kRtr, TwoEngines::kToRtr).error(), EINVAL);
  ASSERT_TRUE(ud.modify(0, QpState::kRtr, kQpAttrState).ok());
  EXPECT_EQ(ud.modify(0, QpState::kRts, kQpAttrState).error(), EINVAL) << "the first PSN is missing";
  ASSERT_TRUE(ud.modify(0, QpState::kRts, kQpAttrState | kQpAttrSqPsn).ok());
  ASSERT_TRUE(ud.modify(0, QpState::kRts, kQpAttrQkey).ok());
  options.type = QpType::kUc;
  TwoEngines uc{options};
  ASSERT_TRUE(uc.modify(0, QpState::kInit, TwoEngines::kToInit).ok());
  EXPECT_EQ(uc.modify(0, QpState::kRtr, TwoEngines::kToRtr).error(), EINVAL) << "no RNR timer";
  ASSERT_TRUE(
      uc.modify(0, QpState::kRtr, kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn).ok());
  EXPECT_EQ(uc.modify(0, QpState::kRts, TwoEngines::kToRts).error(), EINVAL) << "no retries";
  ASSERT_TRUE(uc.modify(0, QpState::kRts, kQpAttrState | kQpAttrSqPsn).ok());
}

// For any network: of UC each message whole, in order and once, or not at all; of UD each whole or not at all.
TEST(Unreliable, OverABadNetworkMessagesAreIntactOrAbsent) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const bool uc = seed % 2 == 0;
    TwoEngines pair{options_of(uc ? QpType::kUc : QpType::kUd)};
    pair.fill(0, seed);
    Random network(seed, "network"), work(seed, "work");
    pair.drop = [&](const Sent&) { return network.below(20) == 0; };
    pair.duplicates = [&](const Sent&) { return network.below(20) == 0 ? 1u : 0u; };
    pair.extra_delay = [&](const Sent&) { return network.below(10) == 0 ? 3_us : 0_us; };
    constexpr std::uint32_t kMessages = 60, kSlot = 8192;
    std::array<std::uint32_t, kMessages> lengths{};
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      lengths[i] = 4 + static_cast<std::uint32_t>(work.below(uc ? 4000 : 1000));
      std::memcpy(pair.side[0].memory.data() + i * kSlot, &i, sizeof i);
      ASSERT_TRUE(pair.post_receive(1, i * kSlot, kSlot, i).ok());
      ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, i * kSlot, lengths[i], i)).ok());
      if (work.below(3) == 0) pair.run_for(10_us);
    }
    ASSERT_TRUE(pair.run_until_idle());
    EXPECT_EQ(pair.poll(0).size(), kMessages);
    std::uint32_t next = 0;
    const std::uint32_t header = uc ? 0 : kGrh;
    const auto received = pair.poll_receives(1);
    EXPECT_GT(received.size(), kMessages / 2);
    for (const Completion& each : received) {
      const std::uint64_t at = each.wr_id * kSlot + header;
      std::uint32_t number = 0;
      std::memcpy(&number, pair.side[1].memory.data() + at, sizeof number);
      ASSERT_LT(number, kMessages);
      EXPECT_EQ(each.byte_length, lengths[number] + header);
      EXPECT_TRUE(pair.same(number * kSlot, lengths[number], at)) << "message " << number;
      EXPECT_TRUE(!uc || number >= next) << "late or twice: " << number;
      next = number + 1;
    }
    EXPECT_EQ(pair.accepted_and_dropped(1), pair.side[1].count(Counter::kReceivedPackets));
  }
}

TEST(Unreliable, ReportsSayWhatTheyAre) {
  Datagrams pair;
  ASSERT_TRUE(pair.post_receive(0, 0, 2000, 1).ok());
  const auto report = pair.side[0].engine->report(pair.side[0].engine->qp_num(pair.side[0].qp));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->type, QpType::kUd);
  EXPECT_EQ(report->receives, 1u);
  EXPECT_EQ(report->send_next, Psn{pair.options.first_psn[0]});
  EXPECT_EQ(pair.side[0].engine->recovery_status().queue_pairs, 1u);
}

}  // namespace
}  // namespace brdma::test
