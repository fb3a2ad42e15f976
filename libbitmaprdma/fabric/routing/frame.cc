#include "fabric/routing/frame.h"

#include <cstring>

#include "base/check.h"

namespace brdma::fabric {
namespace {

constexpr std::uint16_t kEtherIpv4 = 0x0800;
constexpr std::uint16_t kEtherIpv6 = 0x86DD;
constexpr std::uint8_t kProtocolIcmp = 1;
constexpr std::uint8_t kProtocolUdp = 17;
constexpr std::uint8_t kProtocolIcmpv6 = 58;
constexpr std::size_t kIp = kEthernetHeaderSize;  // offset of the IP header
constexpr std::size_t kIpv4Size = 20;
constexpr std::size_t kIpv6Size = 40;

std::uint32_t sum_words(const std::byte* p, std::size_t size) {  // size is even
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < size; i += 2) sum += load_be16(p + i);
  return sum;
}
std::uint16_t fold(std::uint32_t sum) {
  sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(sum + (sum >> 16));
}

void inspect_udp(FrameInfo& info, ConstBytes frame, std::size_t offset) {
  if (frame.size() < offset + kUdpHeaderSize) return;
  info.is_udp = true;
  info.source_port = load_be16(&frame[offset]);
  info.udp_offset = static_cast<std::uint16_t>(offset);
  info.payload_offset = static_cast<std::uint16_t>(offset + kUdpHeaderSize);
  if (load_be16(&frame[offset + 2]) == kRocePort) info.kind = FrameKind::kRoce;
}

void inspect_ipv4(FrameInfo& info, ConstBytes frame) {
  if (frame.size() < kIp + kIpv4Size) return;
  info.kind = FrameKind::kIp;
  const bool plain = load_u8(&frame[kIp]) == 0x45;                   // version 4, no options
  const bool fragment = (load_be16(&frame[kIp + 6]) & 0x3FFF) != 0;  // more to come, or not the first
  if (plain && !fragment && load_u8(&frame[kIp + 9]) == kProtocolUdp) inspect_udp(info, frame, kIp + kIpv4Size);
}

void inspect_ipv6(FrameInfo& info, ConstBytes frame) {
  info.is_ipv6 = true;
  if (frame.size() < kIp + kIpv6Size) return;
  info.kind = FrameKind::kIp;
  const std::uint8_t next = load_u8(&frame[kIp + 6]);
  if (next == kProtocolUdp) inspect_udp(info, frame, kIp + kIpv6Size);
  if (next == kProtocolIcmpv6 && frame.size() > kIp + kIpv6Size) {
    const std::uint8_t type = load_u8(&frame[kIp + kIpv6Size]);
    if (type >= 133 && type <= 137) info.kind = FrameKind::kControl;  // RFC 4861: solicitations to redirect
  }
}

}  // namespace

MacAddress load_mac(const std::byte* p) { return (std::uint64_t{load_be16(p)} << 32) | load_be32(p + 2); }
void store_mac(std::byte* p, MacAddress mac) {
  store_be16(p, static_cast<std::uint16_t>(mac >> 32));
  store_be32(p + 2, static_cast<std::uint32_t>(mac));
}

namespace {

// Without checksum.
void write_ipv4(const IpAddress& source, const IpAddress& destination, std::uint8_t protocol, std::size_t payload_size,
                std::byte* out) {
  store_be16(out, 0x4500);
  store_be16(out + 2, static_cast<std::uint16_t>(payload_size + kIpv4Size));
  store_be32(out + 4, 0x4000);
  store_be32(out + 8, 0x4000'0000u | std::uint32_t{protocol} << 16);  // TTL 64
  std::memcpy(out + 12, &source.bytes[12], 4);
  std::memcpy(out + 16, &destination.bytes[12], 4);
}

}  // namespace

std::size_t write_icmp_header(const IpAddress& source, const IpAddress& destination, std::size_t message_size,
                              std::byte* out) {
  write_ipv4(source, destination, kProtocolIcmp, message_size, out);
  store_be16(out + 10, static_cast<std::uint16_t>(~fold(sum_words(out, kIpv4Size))));
  return kIpv4Size;
}

std::size_t write_roce_headers(const IpAddress& source, const IpAddress& destination, std::uint16_t source_port,
                               std::size_t payload_size, std::byte* out) {
  const auto udp_size = static_cast<std::uint16_t>(payload_size + kUdpHeaderSize);
  std::size_t size = kIpv4Size;
  if (source.is_v4()) {
    write_ipv4(source, destination, kProtocolUdp, udp_size, out);
  } else {
    size = kIpv6Size;
    store_be32(out, 0x6000'0000);
    store_be16(out + 4, udp_size);
    store_be16(out + 6, 0x1140);
    std::memcpy(out + 8, source.bytes.data(), 16);
    std::memcpy(out + 24, destination.bytes.data(), 16);
  }
  store_be16(out + size, source_port);
  store_be16(out + size + 2, kRocePort);
  store_be16(out + size + 4, udp_size);
  store_be16(out + size + kUdpChecksumOffset, 0);
  return size + kUdpHeaderSize;
}

std::optional<FrameInfo> inspect_frame(ConstBytes frame) {
  if (frame.size() < kEthernetHeaderSize) return std::nullopt;
  FrameInfo info;
  info.destination = load_mac(&frame[0]);
  info.source = load_mac(&frame[6]);
  switch (load_be16(&frame[12])) {
    case kEtherIpv4:
      inspect_ipv4(info, frame);
      break;
    case kEtherIpv6:
      inspect_ipv6(info, frame);
      break;
    default:
      break;
  }
  return info;
}

void set_datagram_size(MutableBytes headers, const FrameInfo& info, std::size_t payload_size,
                       std::uint16_t identification) {
  BRDMA_CHECK(info.is_udp && headers.size() >= info.payload_offset);
  std::byte* const ip = &headers[kIp];
  std::byte* const udp = &headers[info.udp_offset];
  const auto udp_length = static_cast<std::uint16_t>(payload_size + kUdpHeaderSize);
  std::uint32_t pseudo = kProtocolUdp + std::uint32_t{udp_length};
  if (info.is_ipv6) {
    store_be16(ip + 4, udp_length);
    pseudo += sum_words(ip + 8, 32);
  } else {
    store_be16(ip + 2, static_cast<std::uint16_t>(udp_length + kIpv4Size));
    store_be16(ip + 4, identification);
    store_be16(ip + 10, 0);
    store_be16(ip + 10, static_cast<std::uint16_t>(~fold(sum_words(ip, kIpv4Size))));
    pseudo += sum_words(ip + 12, 8);
  }
  store_be16(udp + 4, udp_length);
  store_be16(udp + kUdpChecksumOffset, fold(pseudo));
}

std::uint16_t identification(ConstBytes headers, const FrameInfo& info) {
  return info.is_ipv6 ? std::uint16_t{0} : load_be16(&headers[kIp + 4]);
}

bool same_flow(ConstBytes headers_a, ConstBytes headers_b, const FrameInfo& info) {
  const auto equal = [&](std::size_t from, std::size_t to) {
    return std::memcmp(&headers_a[from], &headers_b[from], to - from) == 0;
  };
  const std::size_t udp = info.udp_offset;
  if (!equal(0, kIp) || !equal(udp, udp + 4)) return false;
  if (info.is_ipv6) return equal(kIp, kIp + 4) && equal(kIp + 6, udp);
  return equal(kIp, kIp + 2) && equal(kIp + 6, kIp + 10) && equal(kIp + 12, udp);
}

void corrupt_frame(MutableBytes frame, const FrameInfo& info, bool checksum_complete, std::uint64_t random) {
  const std::size_t first = info.is_udp ? info.payload_offset : kEthernetHeaderSize;
  if (frame.size() <= first) return;  // nothing to flip in
  const std::size_t at = first + static_cast<std::size_t>(random >> 3) % (frame.size() - first);
  frame[at] ^= std::byte{1} << static_cast<unsigned>(random & 7);
  if (!info.is_udp || !checksum_complete) return;
  std::byte* const checksum = &frame[info.udp_offset + kUdpChecksumOffset];
  if (load_be16(checksum) == 0) return;  // without a checksum
  // The one's complement sum changes by the flipped bit's weight in its 16-bit word (RFC 1624): down if it is set now.
  const bool set_now = (frame[at] & (std::byte{1} << static_cast<unsigned>(random & 7))) != std::byte{0};
  const unsigned shift = static_cast<unsigned>(random & 7) + ((at - info.udp_offset) % 2 == 0 ? 8u : 0u);
  const std::uint32_t weight = 1u << shift;
  std::uint16_t sum = fold(std::uint32_t{load_be16(checksum)} + (set_now ? 0xFFFFu - weight : weight));
  if (sum == 0) sum = 0xFFFF;  // 0 would mean none
  store_be16(checksum, sum);
}

}  // namespace brdma::fabric
