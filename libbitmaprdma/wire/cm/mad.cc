#include "wire/cm/mad.h"

#include <algorithm>

namespace brdma::wire {
namespace {

constexpr std::uint8_t kMadBaseVersion = 1;

}  // namespace

std::optional<MadHeader> parse_mad_header(MadBytes mad) {
  const std::byte* p = mad.data();
  if (load_u8(p) != kMadBaseVersion) return std::nullopt;
  return MadHeader{.management_class = load_u8(p + 1),
                   .class_version = load_u8(p + 2),
                   .method = load_u8(p + 3),
                   .status = load_be16(p + 4),
                   .transaction = load_be64(p + 8),
                   .attribute = load_be16(p + 16),
                   .attribute_modifier = load_be32(p + 20)};
}

void emit_mad_header(const MadHeader& header, std::byte* out) {
  store_u8(out, kMadBaseVersion);
  store_u8(out + 1, header.management_class);
  store_u8(out + 2, header.class_version);
  store_u8(out + 3, header.method);
  store_be16(out + 4, header.status);
  store_be16(out + 6, 0);
  store_be64(out + 8, header.transaction);
  store_be16(out + 16, header.attribute);
  store_be16(out + 18, 0);
  store_be32(out + 20, header.attribute_modifier);
}

std::optional<MadBytes> parse_gsi_packet(ConstBytes udp_payload) {
  if (udp_payload.size() != kGsiPacketSize) return std::nullopt;
  const auto bth_bytes = udp_payload.first<kBthSize>();
  const Bth bth = parse_bth(bth_bytes);
  if (bth_version(bth_bytes) != 0 || bth.opcode != kUdSendOnly || bth.pad != 0) return std::nullopt;
  if (bth.dest_qpn != kGsiQpn || (bth.pkey & 0x7FFF) != (kDefaultPkey & 0x7FFF)) return std::nullopt;
  if (parse_deth(udp_payload.subspan<kBthSize, kDethSize>()).qkey != kGsiQkey) return std::nullopt;
  return udp_payload.subspan<kBthSize + kDethSize, kMadSize>();
}

void emit_gsi_packet(MadBytes mad, Psn psn, std::span<std::byte, kGsiPacketSize> out) {
  emit_bth(Bth{.opcode = kUdSendOnly, .dest_qpn = kGsiQpn, .ack_request = true, .psn = psn}, out.data());
  emit_deth({.qkey = kGsiQkey, .source_qpn = kGsiQpn}, out.data() + kBthSize);
  std::copy(mad.begin(), mad.end(), out.begin() + kBthSize + kDethSize);
  store_be32(out.data() + kGsiPacketSize - kIcrcSize, 0);
}

}  // namespace brdma::wire
