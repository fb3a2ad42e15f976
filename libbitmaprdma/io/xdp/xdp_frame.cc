#include "io/xdp/xdp_frame.h"

#include <array>
#include <cstring>

namespace brdma::io {
namespace {

constexpr std::size_t kEthernet = 14, kV4 = 20, kV6 = 40, kUdp = 8;
constexpr std::uint8_t kProtocolUdp = 17;

bool parse_v4(ConstBytes ip, Datagram& out, std::size_t& length) {
  constexpr std::uint16_t kFragmentBits = 0x3FFF;
  if (ip.size() < kV4 + kUdp || load_u8(ip.data()) != 0x45) return false;
  if ((load_be16(&ip[6]) & kFragmentBits) != 0 || load_u8(&ip[9]) != kProtocolUdp) return false;
  out.traffic_class = load_u8(&ip[1]);
  length = load_be16(&ip[2]);
  out.ip_id_known = true;
  out.ip_id = load_be16(&ip[4]);
  const auto address = [&](std::size_t at) {
    return IpAddress::v4(load_u8(&ip[at]), load_u8(&ip[at + 1]), load_u8(&ip[at + 2]), load_u8(&ip[at + 3]));
  };
  out.source = address(12);
  out.destination = address(16);
  return true;
}

bool parse_v6(ConstBytes ip, Datagram& out, std::size_t& length) {
  if (ip.size() < kV6 + kUdp || load_u8(&ip[0]) >> 4 != 6 || load_u8(&ip[6]) != kProtocolUdp) return false;
  out.traffic_class = static_cast<std::uint8_t>(load_be16(ip.data()) >> 4);
  length = kV6 + load_be16(&ip[4]);
  std::memcpy(out.source.bytes.data(), &ip[8], out.source.bytes.size());
  std::memcpy(out.destination.bytes.data(), &ip[24], out.destination.bytes.size());
  return true;
}

}  // namespace

bool parse_roce_frame(ConstBytes frame, Datagram& out) {
  constexpr std::size_t kEtherType = 12;
  out = Datagram{};
  if (frame.size() < kEthernet) return false;
  const std::uint16_t type = load_be16(&frame[kEtherType]);
  const ConstBytes ip = frame.subspan(kEthernet);
  std::size_t length = 0;
  std::size_t header = 0;
  if (type == 0x0800) {
    header = kV4;
    if (!parse_v4(ip, out, length)) return false;
  } else if (type == 0x86DD) {
    header = kV6;
    if (!parse_v6(ip, out, length)) return false;
  } else {
    return false;
  }
  if (length < header + kUdp || length > ip.size()) return false;
  const ConstBytes udp = ip.subspan(header, length - header);
  if (load_be16(&udp[2]) != kRoceUdpPort || load_be16(&udp[4]) != udp.size()) return false;
  out.source_port = load_be16(udp.data());
  out.bytes = udp.subspan(kUdp);
  return true;
}

std::uint64_t internet_sum(ConstBytes bytes) {
  // Any consistent byte order does (RFC 1071, 2B): this machine's, four at a time.
  std::uint64_t sum = 0;
  std::size_t at = 0;
  for (; at + sizeof(std::uint32_t) <= bytes.size(); at += sizeof(std::uint32_t)) {
    std::uint32_t word = 0;
    std::memcpy(&word, &bytes[at], sizeof word);
    sum += word;
  }
  std::uint32_t last = 0;
  if (at < bytes.size()) std::memcpy(&last, &bytes[at], bytes.size() - at);
  return sum + last;
}

namespace {

// As in the packet, in this machine's order.
std::uint16_t folded(std::uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

std::uint16_t network_order(std::uint16_t value) {
  std::array<std::byte, 2> bytes;
  store_be16(bytes.data(), value);
  std::uint16_t out = 0;
  std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

void write_v4(const FrameHeaders& headers, std::size_t udp_size, std::byte* ip) {
  constexpr std::size_t kMapped = 12;  // IPv4's bytes in ::ffff:a.b.c.d
  store_u8(&ip[0], 0x45);
  store_u8(&ip[1], headers.traffic_class);
  store_be16(&ip[2], static_cast<std::uint16_t>(kV4 + udp_size));
  store_be16(&ip[4], headers.identification);
  store_be16(&ip[6], 0x4000);
  store_u8(&ip[8], headers.hop_limit);
  store_u8(&ip[9], kProtocolUdp);
  store_be16(&ip[10], 0);
  std::memcpy(&ip[12], headers.source.bytes.data() + kMapped, 4);
  std::memcpy(&ip[16], headers.destination.bytes.data() + kMapped, 4);
  const std::uint16_t checksum = folded(internet_sum({ip, kV4}));
  std::memcpy(&ip[10], &checksum, sizeof checksum);
}

void write_v6(const FrameHeaders& headers, std::size_t udp_size, std::byte* ip) {
  store_be32(&ip[0], 0x6000'0000u | std::uint32_t{headers.traffic_class} << 20);
  store_be16(&ip[4], static_cast<std::uint16_t>(udp_size));
  store_u8(&ip[6], kProtocolUdp);
  store_u8(&ip[7], headers.hop_limit);
  std::memcpy(&ip[8], headers.source.bytes.data(), headers.source.bytes.size());
  std::memcpy(&ip[24], headers.destination.bytes.data(), headers.destination.bytes.size());
}

}  // namespace

std::size_t write_frame_headers(const FrameHeaders& headers, std::span<const std::uint8_t, 6> to,
                                std::span<const std::uint8_t, 6> from, std::size_t payload, std::byte* out) {
  const bool v4 = headers.destination.is_v4();
  std::memcpy(out, to.data(), to.size());
  std::memcpy(out + to.size(), from.data(), from.size());
  store_be16(out + kEthernet - 2, v4 ? 0x0800 : 0x86DD);
  std::byte* const ip = out + kEthernet;
  (v4 ? write_v4 : write_v6)(headers, kUdp + payload, ip);
  std::byte* const udp = ip + (v4 ? kV4 : kV6);
  store_be16(udp, headers.source_port);
  store_be16(udp + 2, headers.destination_port);
  store_be16(udp + 4, static_cast<std::uint16_t>(kUdp + payload));
  store_be16(udp + 6, 0);
  return static_cast<std::size_t>(udp + kUdp - out);
}

std::uint16_t udp_checksum_v6(ConstBytes frame, std::size_t payload, std::uint64_t rest) {
  constexpr std::size_t kAddresses = kEthernet + 8;
  // The pseudo-header: both addresses, UDP's length and protocol.
  std::uint64_t sum = internet_sum(frame.subspan(kAddresses)) + rest;
  sum += network_order(static_cast<std::uint16_t>(kUdp + payload)) + std::uint64_t{network_order(kProtocolUdp)};
  const std::uint16_t checksum = network_order(folded(sum));
  return checksum != 0 ? checksum : 0xFFFF;
}

}  // namespace brdma::io
