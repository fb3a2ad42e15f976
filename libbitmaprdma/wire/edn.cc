#include "wire/edn.h"

#include <algorithm>
#include <cstring>

#include "wire/opcode.h"
#include "wire/packet.h"

namespace brdma::wire {
namespace {

constexpr std::uint32_t kMask24 = 0xFF'FFFF;
// Up to its token: a control packet begins with version, flags and source QPN as BXTH does.
constexpr std::size_t kControlStartSize = kTokenOffset + kTokenSize;
static_assert(kControlStartSize == kBxthSize);
// An acknowledgement has both flags: a receiver that does not know the second takes it for one about responses.
constexpr std::uint32_t kFlagResponses = 1u << 24, kFlagTimestamp = 2u << 24, kFlagAcknowledgement = 4u << 24;
constexpr std::uint8_t kSourceQuench = 4, kProtocolUdp = 17;
constexpr std::uint16_t kRoceUdpPort = 4791;

// RFC 1071, over an even or odd number of bytes.
std::uint16_t internet_checksum(ConstBytes bytes) {
  std::uint32_t sum = 0;
  std::size_t i = 0;
  for (; i + 1 < bytes.size(); i += 2) sum += load_be16(&bytes[i]);
  if (i < bytes.size()) sum += std::uint32_t{load_u8(&bytes[i])} << 8;
  sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(~(sum + (sum >> 16)));
}

}  // namespace

std::optional<Edn> parse_edn(ConstBytes body, Psn bth_psn) {
  if (body.size() < kEdnSize) return std::nullopt;
  const std::byte* p = body.data();
  const std::uint32_t word = load_be32(p);
  Edn edn;
  edn.first = bth_psn;
  edn.acknowledgement = (word & kFlagAcknowledgement) != 0;
  edn.responses = (word & kFlagResponses) != 0 && !edn.acknowledgement;
  edn.destination_qpn = word & kMask24;
  edn.path = load_u8(p + 4);
  edn.last = Psn{load_be32(p + 4)};
  edn.drain = Duration::from_ns(load_be32(p + 8));
  if ((word & kFlagTimestamp) != 0) edn.timestamp = load_be64(p + 16) & kTimestampMask;
  edn.token = load_be64(p + kTokenOffset);
  if (distance(edn.last, edn.first) < 0) return std::nullopt;
  return edn;
}

std::size_t emit_edn(const Edn& edn, std::byte* out) {
  std::memset(out, 0, kEdnSize);
  const std::uint32_t flags = (edn.responses || edn.acknowledgement ? kFlagResponses : 0) |
                              (edn.acknowledgement ? kFlagAcknowledgement : 0) | (edn.timestamp ? kFlagTimestamp : 0);
  store_be32(out, (std::uint32_t{kBitmapVersion} << 28) | flags | (edn.destination_qpn & kMask24));
  store_be32(out + 4, (std::uint32_t{edn.path} << 24) | edn.last.value());
  store_be32(out + 8, static_cast<std::uint32_t>(std::clamp<std::int64_t>(edn.drain.ns(), 0, 0xFFFF'FFFF)));
  store_be64(out + 16, edn.timestamp.value_or(0) & kTimestampMask);
  store_be64(out + kTokenOffset, edn.token.value_or(0));
  return kEdnSize;
}

std::optional<IcmpEdn> parse_icmp_edn(ConstBytes icmp) {
  if (icmp.size() < kIcmpHeaderSize + kIpv4Size + kUdpSize + kBthSize) return std::nullopt;
  if (load_u8(icmp.data()) != kSourceQuench || load_u8(&icmp[1]) != 0 || internet_checksum(icmp) != 0)
    return std::nullopt;
  const ConstBytes ip = icmp.subspan(kIcmpHeaderSize);
  // A first fragment at most: other fragments lack the UDP header.
  if (load_u8(ip.data()) != 0x45 || load_u8(&ip[9]) != kProtocolUdp || (load_be16(&ip[6]) & 0x1FFF) != 0)
    return std::nullopt;
  const ConstBytes udp = ip.subspan(kIpv4Size);
  if (load_be16(&udp[2]) != kRoceUdpPort) return std::nullopt;
  const ConstBytes roce = udp.subspan(kUdpSize);
  const Bth bth = parse_bth(roce.first<kBthSize>());
  const OpcodeShape& shape = opcode_shape(bth.opcode);
  const bool control = shape.has(OpcodeShape::kControl);
  if (shape.parts == 0 || (control && !is_acknowledgement(bth.opcode))) return std::nullopt;
  IcmpEdn said;
  said.source = IpAddress::v4(load_u8(&ip[12]), load_u8(&ip[13]), load_u8(&ip[14]), load_u8(&ip[15]));
  said.destination = IpAddress::v4(load_u8(&ip[16]), load_u8(&ip[17]), load_u8(&ip[18]), load_u8(&ip[19]));
  said.source_port = load_be16(udp.data());
  said.edn.first = bth.psn;
  said.edn.last = bth.psn + load_be16(&icmp[4]);
  said.edn.drain = Duration::from_ns(std::int64_t{load_be16(&icmp[6])} * 1000);
  said.edn.destination_qpn = bth.dest_qpn;
  said.edn.acknowledgement = is_acknowledgement(bth.opcode);
  const bool whole = roce.size() >= kBthSize + kControlStartSize;
  if (shape.has(OpcodeShape::kToken) && whole && bitmap_version(&roce[kBthSize]) == kBitmapVersion) {
    said.source_qpn = source_qpn_of(roce);
    said.edn.token = token_of(roce);
  }
  if (control) return said;
  said.edn.responses = is_answer(static_cast<RcOp>(bth.opcode & 0x1F));
  if (said.edn.token) {
    const Bxth bxth = parse_bxth(roce.subspan<kBthSize, kBxthSize>());
    said.edn.path = bxth.path;
    said.edn.timestamp = bxth.timestamp;
  }
  return said;
}

std::size_t emit_icmp_edn(ConstBytes quote, std::uint32_t count, Duration drain, std::byte* out) {
  quote = quote.first(std::min(quote.size(), kQuoteMax));
  const std::int64_t drain_us = (drain.ns() + 999) / 1000;
  store_be32(out, std::uint32_t{kSourceQuench} << 24);
  store_be16(out + 4, static_cast<std::uint16_t>(std::clamp<std::uint32_t>(count, 1, 0x1'0000) - 1));
  store_be16(out + 6, static_cast<std::uint16_t>(std::clamp<std::int64_t>(drain_us, 0, 0xFFFF)));
  std::memcpy(out + kIcmpHeaderSize, quote.data(), quote.size());
  const std::size_t size = kIcmpHeaderSize + quote.size();
  store_be16(out + 2, internet_checksum({out, size}));
  return size;
}

}  // namespace brdma::wire
