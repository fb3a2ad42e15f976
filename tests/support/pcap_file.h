// tests/support/pcap_file.h - the RoCEv2 packets of a capture file: classic pcap, Ethernet, microseconds, written on a
// little-endian machine. Frames that are not UDP to port 4791 are skipped. A truncated file, or any unsupported feature
// (fragments, IP options), throws: a capture that is half read would prove nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "support/bytes.h"
#include "wire/crc/icrc.h"

namespace brdma::test {

struct CapturedPacket {
  unsigned number = 0;        // of the frame in its file, from 1, as capture viewers count
  std::uint64_t time_us = 0;  // since the epoch
  wire::IcrcPath path;        // identification included
  bool ipv6 = false;
  bool dont_fragment = true;
  std::uint8_t traffic_class = 0;
  Bytes udp_payload;  // BTH up to the ICRC
};

namespace internal {

inline IpAddress ipv4_address(const std::byte* p) {
  return IpAddress::v4(load_u8(p), load_u8(p + 1), load_u8(p + 2), load_u8(p + 3));
}
inline IpAddress ipv6_address(const std::byte* p) {
  IpAddress address;
  for (std::size_t i = 0; i < address.bytes.size(); ++i) address.bytes[i] = load_u8(p + i);
  return address;
}

// Fills in the fields of the IP header; returns the IP payload, empty if it is not UDP.
inline ConstBytes read_ip(ConstBytes frame, CapturedPacket& packet) {
  const std::uint16_t ether_type = load_be16(frame.data() + 12);
  const ConstBytes ip = frame.subspan(14);
  if (ether_type == 0x0800) {
    if (load_u8(ip.data() + 9) != 17) return {};
    if (load_u8(ip.data()) != 0x45) throw std::runtime_error{"IPv4 options"};
    const std::uint16_t fragment = load_be16(ip.data() + 6);
    if ((fragment & 0x3FFF) != 0) throw std::runtime_error{"IPv4 fragment"};
    packet.dont_fragment = (fragment & 0x4000) != 0;
    packet.traffic_class = load_u8(ip.data() + 1);
    packet.path.ip_id = load_be16(ip.data() + 4);
    packet.path.source = ipv4_address(ip.data() + 12);
    packet.path.destination = ipv4_address(ip.data() + 16);
    return ip.first(load_be16(ip.data() + 2)).subspan(20);
  }
  if (ether_type == 0x86DD) {
    if (load_u8(ip.data() + 6) != 17) return {};
    packet.ipv6 = true;
    packet.traffic_class = static_cast<std::uint8_t>(load_be16(ip.data()) >> 4);
    packet.path.source = ipv6_address(ip.data() + 8);
    packet.path.destination = ipv6_address(ip.data() + 24);
    return ip.subspan(40, load_be16(ip.data() + 4));
  }
  return {};
}

}  // namespace internal

inline std::vector<CapturedPacket> read_roce_packets(const std::filesystem::path& file) {
  std::ifstream in{file, std::ios::binary};
  if (!in) throw std::runtime_error{"cannot open " + file.string()};
  const std::string text{std::istreambuf_iterator<char>{in}, {}};
  const ConstBytes bytes = std::as_bytes(std::span{text});
  if (bytes.size() < 24 || load_le32(bytes.data()) != 0xA1B2'C3D4 || load_le32(bytes.data() + 20) != 1) {
    throw std::runtime_error{file.string() + ": not a classic pcap file of Ethernet frames"};
  }
  std::vector<CapturedPacket> packets;
  ConstBytes rest = bytes.subspan(24);
  for (unsigned number = 1; !rest.empty(); ++number) {
    if (rest.size() < 16) throw std::runtime_error{file.string() + ": cut short"};
    const std::size_t stored = load_le32(rest.data() + 8);
    if (stored != load_le32(rest.data() + 12) || rest.size() - 16 < stored || stored < 54) {
      throw std::runtime_error{file.string() + ": frame " + std::to_string(number) + " is cut short"};
    }
    CapturedPacket packet;
    packet.number = number;
    packet.time_us = std::uint64_t{load_le32(rest.data())} * 1'000'000 + load_le32(rest.data() + 4);
    const ConstBytes udp = internal::read_ip(rest.subspan(16, stored), packet);
    rest = rest.subspan(16 + stored);
    if (udp.size() < 8 || load_be16(udp.data() + 2) != 4791) continue;
    packet.path.source_port = load_be16(udp.data());
    const ConstBytes payload = udp.first(load_be16(udp.data() + 4)).subspan(8);
    packet.udp_payload.assign(payload.begin(), payload.end());
    packets.push_back(std::move(packet));
  }
  return packets;
}

}  // namespace brdma::test
