// The connection manager's messages: fields of a kernel peer's REQ, REP, REJ and SIDR messages, which are also written
// as they were read; every field alone, so that none overlaps another; and messages that cannot be ours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "support/bytes.h"
#include "support/pcap_file.h"
#include "wire/cm/cm_address.h"
#include "wire/cm/cm_messages.h"

namespace brdma::wire {
namespace {

using test::Bytes;
using test::to_hex;

std::vector<Bytes> captured_mads(const std::string& name) {
  std::vector<Bytes> mads;
  for (const auto& packet : test::read_roce_packets(std::string{BRDMA_GOLDEN_DIR} + "/pcap/" + name + ".pcap")) {
    if (const auto mad = parse_gsi_packet(packet.udp_payload)) mads.emplace_back(mad->begin(), mad->end());
  }
  return mads;
}

template <class Message>
Message message_of(const Bytes& mad) {
  const auto parsed = parse_cm(MadBytes{mad});
  if (!parsed || !std::holds_alternative<Message>(parsed->message)) throw std::runtime_error{"another message"};
  return std::get<Message>(parsed->message);
}

Bytes emitted(const CmMad& mad) {
  Bytes out(kMadSize);
  emit_cm(mad, MadBuffer{out});
  return out;
}

TEST(CmMessages, AKernelPeersMadsComeOutAsTheyWentIn) {
  std::size_t count = 0;
  for (const char* name : {"rping", "ucmatose", "udaddy", "cm_refused", "rstream_imm"}) {
    for (const Bytes& mad : captured_mads(name)) {
      const auto parsed = parse_cm(MadBytes{mad});
      ASSERT_TRUE(parsed) << name;
      EXPECT_EQ(to_hex(emitted(*parsed)), to_hex(mad)) << name;
      ++count;
    }
  }
  EXPECT_EQ(count, 19u);
}

TEST(CmMessages, AKernelPeersPacketsComeOutAsTheyWentIn) {
  std::size_t count = 0;
  for (const auto& packet : test::read_roce_packets(std::string{BRDMA_GOLDEN_DIR} + "/pcap/rping.pcap")) {
    const auto mad = parse_gsi_packet(packet.udp_payload);
    if (!mad) continue;
    const Psn psn = parse_bth(ConstBytes{packet.udp_payload}.first<kBthSize>()).psn;
    std::array<std::byte, kGsiPacketSize> out;
    emit_gsi_packet(*mad, psn, out);
    store_le32(out.data() + kGsiPacketSize - kIcrcSize, packet_icrc(packet.path, out));
    EXPECT_EQ(to_hex(Bytes(out.begin(), out.end())), to_hex(packet.udp_payload));
    ++count;
  }
  EXPECT_EQ(count, 5u);
}

TEST(CmMessages, FieldsOfAKernelPeersRequest) {
  const auto req = message_of<CmReq>(captured_mads("rping")[0]);
  EXPECT_EQ(req.local_comm_id, 0xDA38F31Cu);
  EXPECT_EQ(req.service_id, service_id(PortSpace::kTcp, 7174));
  EXPECT_EQ(req.ca_guid, 0x505400FFFE990003u);
  EXPECT_EQ(req.qpn, 0x27u);
  EXPECT_EQ(req.responder_resources, 1);
  EXPECT_EQ(req.initiator_depth, 1);
  EXPECT_EQ(req.remote_response_timeout, 20);
  EXPECT_EQ(req.local_response_timeout, 20);
  EXPECT_EQ(cm_timeout(20).ns(), 4'294'967'296);
  EXPECT_EQ(req.transport, 0);
  EXPECT_EQ(req.first_psn, Psn{0x1C2D63});
  EXPECT_EQ(req.retry_count, 7);
  EXPECT_EQ(req.rnr_retry_count, 7);
  EXPECT_EQ(req.pkey, 0xFFFF);
  EXPECT_EQ(req.path_mtu_code, 3);
  EXPECT_EQ(req.cm_retries, 15);
  EXPECT_EQ(req.path.local_gid, IpAddress::v4(10, 99, 0, 3));
  EXPECT_EQ(req.path.remote_gid, IpAddress::v4(10, 99, 0, 2));
  EXPECT_EQ(req.path.local_lid, 0xFFFF);
  EXPECT_EQ(req.path.flow_label, 0x2A6C7u);
  EXPECT_EQ(req.path.hop_limit, 64);
  EXPECT_EQ(req.path.ack_timeout, 19);
  EXPECT_FALSE(req.alternate);
  const auto address = parse_cm_address(req.private_data.data());
  ASSERT_TRUE(address);
  EXPECT_EQ(*address, (CmAddress{0x991F, IpAddress::v4(10, 99, 0, 3), IpAddress::v4(10, 99, 0, 2)}));
  std::array<std::byte, kCmAddressSize> out;
  emit_cm_address(*address, out.data());
  EXPECT_TRUE(std::equal(out.begin(), out.end(), req.private_data.begin()));
}

TEST(CmMessages, FieldsOfAKernelPeersAnswers) {
  const auto rep = message_of<CmRep>(captured_mads("rping")[1]);
  EXPECT_EQ(rep.local_comm_id, 0x8A082CAEu);
  EXPECT_EQ(rep.remote_comm_id, 0xDA38F31Cu);
  EXPECT_EQ(rep.qpn, 0x3Au);
  EXPECT_EQ(rep.first_psn, Psn{0xE2594D});
  EXPECT_EQ(rep.responder_resources, 1);
  EXPECT_EQ(rep.initiator_depth, 1);
  EXPECT_EQ(rep.target_ack_delay, 15);
  EXPECT_EQ(rep.rnr_retry_count, 7);
  const auto rej = message_of<CmRej>(captured_mads("cm_refused")[1]);
  EXPECT_EQ(rej.local_comm_id, 0u);
  EXPECT_EQ(rej.remote_comm_id, 0xDB38F31Cu);
  EXPECT_EQ(rej.answered, CmAnswered::kReq);
  EXPECT_EQ(rej.reason, reject::kInvalidServiceId);
  const auto sidr = message_of<CmSidrRep>(captured_mads("udaddy")[1]);
  EXPECT_EQ(sidr.status, 0);
  EXPECT_EQ(sidr.qpn, 0x3Cu);
  EXPECT_EQ(sidr.qkey, 0x01234567u);
  EXPECT_EQ(sidr.service_id, service_id(PortSpace::kUdp, 7174));
}

// Random bytes as a message: a message that was read and written is read again as the same. A field that is written
// elsewhere than read changes.
class AnyMessage : public testing::TestWithParam<std::uint16_t> {};

TEST_P(AnyMessage, WrittenAndReadAgainIsTheSame) {
  Random random{GetParam(), "messages"};
  for (int round = 0; round < 200; ++round) {
    Bytes mad(kMadSize);
    for (auto& byte : mad) byte = static_cast<std::byte>(random.next());
    emit_mad_header({.management_class = kCmClass,
                     .class_version = kCmClassVersion,
                     .method = kCmMethodSend,
                     .transaction = random.next(),
                     .attribute = GetParam(),
                     .attribute_modifier = static_cast<std::uint32_t>(random.next())},
                    mad.data());
    mad[kMadHeaderSize + 50] = std::byte{0x37};  // a REQ's path MTU must be one; anything to the others
    const auto first = parse_cm(MadBytes{mad});
    ASSERT_TRUE(first);
    const Bytes written = emitted(*first);
    const auto second = parse_cm(MadBytes{written});
    ASSERT_TRUE(second);
    EXPECT_EQ(to_hex(emitted(*second)), to_hex(written));
    EXPECT_EQ(second->transaction, first->transaction);
  }
}

INSTANTIATE_TEST_SUITE_P(Attributes, AnyMessage,
                         testing::Values(CmReq::kAttribute, CmMra::kAttribute, CmRej::kAttribute, CmRep::kAttribute,
                                         CmRtu::kAttribute, CmDreq::kAttribute, CmDrep::kAttribute,
                                         CmSidrReq::kAttribute, CmSidrRep::kAttribute, CmApr::kAttribute));

TEST(CmMessages, ExtendedConnectionEstablishment) {
  CmRep rep;
  rep.ece = {.vendor_id = 0x123456, .modifier = 0x89ABCDEF};
  rep.qpn = 0xABCDEF;
  const Bytes mad = emitted({1, rep});
  EXPECT_EQ(message_of<CmRep>(mad).ece, rep.ece);
  EXPECT_EQ(message_of<CmRep>(mad).qpn, rep.qpn);
  EXPECT_EQ(message_of<CmRep>(mad).queue_pair(), rep.qpn);
  rep.qpn = 0;
  rep.eecn = 0x345678;  // of an XRC target
  const Bytes of_target = emitted({1, rep});
  EXPECT_EQ(message_of<CmRep>(of_target).ece, rep.ece);
  EXPECT_EQ(message_of<CmRep>(of_target).queue_pair(), 0x345678u);
  CmReq req;
  req.ece = rep.ece;
  req.path_mtu_code = 5;
  EXPECT_EQ(message_of<CmReq>(emitted({1, req})).ece, rep.ece);
}

TEST(CmMessages, WhatIsNoMessageOfOurs) {
  const Bytes good = captured_mads("rping")[0];
  const auto with = [&](std::size_t at, unsigned value) {
    Bytes mad = good;
    mad[at] = std::byte(value);
    return parse_cm(MadBytes{mad}).has_value();
  };
  EXPECT_TRUE(with(0, 1));
  EXPECT_FALSE(with(0, 2)) << "base version";
  EXPECT_FALSE(with(1, 1)) << "class";
  EXPECT_FALSE(with(2, 1)) << "class version";
  EXPECT_FALSE(with(3, 0x83)) << "a response";
  EXPECT_FALSE(with(17, 0x0F)) << "attribute";
  EXPECT_FALSE(with(17, 0x1B)) << "attribute";
  EXPECT_FALSE(with(kMadHeaderSize + 50, 0x07)) << "path MTU 0";
  EXPECT_FALSE(with(kMadHeaderSize + 50, 0x67)) << "path MTU 6";
}

TEST(CmMessages, WhatIsNoPacketForQp1) {
  const auto packets = test::read_roce_packets(std::string{BRDMA_GOLDEN_DIR} + "/pcap/rping.pcap");
  const Bytes good = packets.at(0).udp_payload;
  ASSERT_TRUE(parse_gsi_packet(good));
  const auto with = [&](std::size_t at, unsigned value) {
    Bytes packet = good;
    packet[at] = std::byte(value);
    return parse_gsi_packet(packet).has_value();
  };
  EXPECT_FALSE(with(0, 0x65)) << "with immediate";
  EXPECT_FALSE(with(1, 0x01)) << "transport version";
  EXPECT_FALSE(with(1, 0x10)) << "pad";
  EXPECT_FALSE(with(2, 0x7E)) << "another partition";
  EXPECT_TRUE(with(2, 0x7F)) << "limited member of the same";
  EXPECT_FALSE(with(7, 2)) << "QP 2";
  EXPECT_FALSE(with(12, 0)) << "Q_Key";
  EXPECT_TRUE(with(19, 7)) << "another source QPN";
  EXPECT_FALSE(parse_gsi_packet(ConstBytes{good}.first(good.size() - 4)));
  EXPECT_FALSE(parse_gsi_packet({}));
}

TEST(CmAddress, RefusesWhatItCannotMean) {
  std::array<std::byte, kCmAddressSize> bytes;
  const CmAddress v6{7, IpAddress{{0xFD, 0x77, 1}}, IpAddress{{0xFD, 0x77, 2}}};
  emit_cm_address(v6, bytes.data());
  EXPECT_EQ(parse_cm_address(bytes.data()), v6);
  bytes[0] = std::byte{1};
  EXPECT_FALSE(parse_cm_address(bytes.data())) << "version";
  bytes[0] = std::byte{0};
  bytes[1] = std::byte{0x50};
  EXPECT_FALSE(parse_cm_address(bytes.data())) << "IP version";
  emit_cm_address({7, IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2)}, bytes.data());
  bytes[1] = std::byte{0x60};
  EXPECT_TRUE(parse_cm_address(bytes.data())) << "::10.0.0.1 is an IPv6 address, if an odd one";
}

}  // namespace
}  // namespace brdma::wire
