#include "io/xdp_frame.h"

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

}  // namespace brdma::io
