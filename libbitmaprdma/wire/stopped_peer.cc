#include "wire/stopped_peer.h"

#include <cstring>

#include "wire/cm/mad.h"
#include "wire/packet.h"

namespace brdma::wire {
namespace {

constexpr std::uint32_t kMask24 = 0xFF'FFFF;
constexpr std::uint32_t kVersionBits = std::uint32_t{kControlVersion} << 28;

}  // namespace

std::optional<StoppedQuery> parse_stopped_query(ConstBytes body) {
  if (body.size() < kStoppedQuerySize) return std::nullopt;
  const std::byte* const p = body.data();
  return StoppedQuery{.source_qpn = load_be32(p) & kMask24,
                      .peer_qpn = load_be32(p + 4) & kMask24,
                      .nonce = load_be64(p + 8),
                      .silent_ms = load_be32(p + 16)};
}

std::optional<StoppedReply> parse_stopped_reply(ConstBytes body) {
  if (body.size() < kStoppedReplySize) return std::nullopt;
  const std::byte* const p = body.data();
  return StoppedReply{.peer_qpn = load_be32(p) & kMask24, .nonce = load_be64(p + 8)};
}

std::size_t emit_stopped_query(const StoppedQuery& query, std::byte* out) {
  std::memset(out, 0, kStoppedQuerySize);
  store_be32(out, kVersionBits | (query.source_qpn & kMask24));
  store_be32(out + 4, query.peer_qpn & kMask24);
  store_be64(out + 8, query.nonce);
  store_be32(out + 16, query.silent_ms);
  return kStoppedQuerySize;
}

std::size_t emit_stopped_reply(const StoppedReply& reply, std::byte* out) {
  std::memset(out, 0, kStoppedReplySize);
  store_be32(out, kVersionBits | (reply.peer_qpn & kMask24));
  store_be64(out + 8, reply.nonce);
  return kStoppedReplySize;
}

std::optional<StoppedQuery> parse_stopped_query_packet(ConstBytes udp_payload) {
  Packet packet;
  if (parse_packet_into(udp_payload, packet)) return std::nullopt;
  if (packet.bth.opcode != static_cast<std::uint8_t>(Control::kStoppedQuery) || packet.bth.dest_qpn != kGsiQpn) {
    return std::nullopt;
  }
  return parse_stopped_query(packet.payload);
}

void emit_stopped_reply_packet(const StoppedReply& reply, std::uint32_t asker_qpn,
                               std::span<std::byte, kStoppedReplyPacketSize> out) {
  Bth bth;
  bth.opcode = static_cast<std::uint8_t>(Control::kStoppedReply);
  bth.dest_qpn = asker_qpn;
  emit_bth(bth, out.data());
  emit_stopped_reply(reply, out.data() + kBthSize);
  std::memset(out.data() + kBthSize + kStoppedReplySize, 0, kIcrcSize);
}

}  // namespace brdma::wire
