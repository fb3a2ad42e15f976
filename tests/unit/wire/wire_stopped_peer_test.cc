// Queries whether a peer's process is stopped, and replies: their bytes, short ones, those for another destination.
#include <gtest/gtest.h>

#include "support/bytes.h"
#include "wire/cm/mad.h"
#include "wire/packet.h"
#include "wire/stopped_peer.h"

namespace brdma::wire {
namespace {

using test::Bytes;
using test::hex;
using test::operator+;

constexpr StoppedQuery kQuery{
    .source_qpn = 0x001102, .peer_qpn = 0x002203, .nonce = 0x0123'4567'89AB'CDEF, .silent_ms = 536};
constexpr StoppedReply kReply{.peer_qpn = 0x002203, .nonce = 0x0123'4567'89AB'CDEF};

Bytes body_of(const StoppedQuery& query) {
  Bytes body(kStoppedQuerySize);
  EXPECT_EQ(emit_stopped_query(query, body.data()), body.size());
  return body;
}

TEST(StoppedPeerWire, BodiesComeBackAsTheyLeft) {
  const Bytes query = body_of(kQuery);
  EXPECT_EQ(query, hex("10001102 00002203 0123456789abcdef 00000218 00000000"));
  EXPECT_EQ(parse_stopped_query(query), kQuery);
  Bytes reply(kStoppedReplySize);
  EXPECT_EQ(emit_stopped_reply(kReply, reply.data()), reply.size());
  EXPECT_EQ(reply, hex("10002203 00000000 0123456789abcdef 00000000 00000000"));
  EXPECT_EQ(parse_stopped_reply(reply), kReply);
}

TEST(StoppedPeerWire, LongerBodiesAreTakenAndShorterOnesAreNot) {
  Bytes body = body_of(kQuery);
  body.resize(28);
  EXPECT_TRUE(parse_stopped_query(body));
  EXPECT_TRUE(parse_stopped_reply(body));
  body.resize(23);
  EXPECT_FALSE(parse_stopped_query(body));
  EXPECT_FALSE(parse_stopped_reply(body));
}

TEST(StoppedPeerWire, AQueryIsForQp1) {
  const auto packet = [](Control which, std::uint32_t qpn) {
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(which);
    bth.dest_qpn = qpn;
    Bytes headers(kBthSize);
    emit_bth(bth, headers.data());
    return headers + body_of(kQuery) + Bytes(kIcrcSize);
  };
  const Bytes query = packet(Control::kStoppedQuery, kGsiQpn);
  EXPECT_EQ(parse_stopped_query_packet(query), kQuery);
  EXPECT_FALSE(parse_stopped_query_packet(packet(Control::kStoppedQuery, 0x2203)));
  EXPECT_FALSE(parse_stopped_query_packet(packet(Control::kStoppedReply, kGsiQpn)));
  for (std::size_t size = 0; size < query.size(); ++size) {
    EXPECT_FALSE(parse_stopped_query_packet(ConstBytes{query}.first(size))) << size;
  }
  EXPECT_FALSE(parse_gsi_packet(query)) << "no management datagram";
}

TEST(StoppedPeerWire, AReplyIsAddressedToTheAsker) {
  std::array<std::byte, kStoppedReplyPacketSize> bytes;
  emit_stopped_reply_packet(kReply, kQuery.source_qpn, bytes);
  const auto packet = parse_packet(bytes);
  ASSERT_TRUE(packet.ok());
  EXPECT_TRUE(packet.value().control);
  EXPECT_EQ(packet.value().bth.opcode, 0xE7);
  EXPECT_EQ(packet.value().bth.dest_qpn, kQuery.source_qpn);
  EXPECT_EQ(parse_stopped_reply(packet.value().payload), kReply);
  EXPECT_LE(bytes.size(), kBthSize + kStoppedQuerySize + kIcrcSize) << "nobody gets more than was sent";
}

}  // namespace
}  // namespace brdma::wire
