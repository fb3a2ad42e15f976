#include "feedback/notice_frame.h"

#include <algorithm>

#include "base/bytes.h"
#include "datapath/ethernet.h"
#include "fabric/routing/frame.h"

namespace brdma::lab {
namespace {

// Behind the Ethernet header; each returns the frame's size.
std::size_t write_roce(const fabric::DropNotice& notice, MutableBytes frame) {
  const ConstBytes payload = notice.view();
  const std::size_t headers = kIp + fabric::write_roce_headers(notice.source, notice.destination, notice.source_port,
                                                               payload.size(), &frame[kIp]);
  std::copy(payload.begin(), payload.end(), frame.begin() + static_cast<std::ptrdiff_t>(headers));
  const auto info = fabric::inspect_frame(frame.first(headers + payload.size())).value();
  fabric::set_datagram_size(frame.first(headers), info, payload.size(), 0);
  return headers + payload.size();
}
std::size_t write_icmp(const fabric::DropNotice& notice, MutableBytes frame) {
  const ConstBytes message = notice.view();
  const std::size_t header =
      kIp + fabric::write_icmp_header(notice.source, notice.destination, message.size(), &frame[kIp]);
  std::copy(message.begin(), message.end(), frame.begin() + static_cast<std::ptrdiff_t>(header));
  return header + message.size();
}

}  // namespace

std::optional<SwitchPacket> make_notice_frame(fabric::PacketPool& pool, const fabric::DropNotice& notice) {
  const auto buffer = pool.take();
  if (!buffer) return std::nullopt;
  const MutableBytes bytes = pool.buffer(*buffer);
  fabric::store_mac(bytes.data(), 0);
  fabric::store_mac(&bytes[6], 0);
  store_be16(&bytes[12], notice.source.is_v4() ? kEtherIpv4 : kEtherIpv6);
  const std::size_t size = notice.source_port == 0 ? write_icmp(notice, bytes) : write_roce(notice, bytes);
  const fabric::FrameInfo info = fabric::inspect_frame(bytes.first(size)).value();
  SwitchPacket packet;
  packet.buffer = *buffer;
  packet.size = static_cast<std::uint16_t>(size);
  packet.udp_offset = info.udp_offset;
  packet.is_ipv6 = info.is_ipv6;
  packet.is_ip = true;
  packet.partial_checksum = info.is_udp;
  packet.checksum_start = info.udp_offset;
  packet.checksum_offset = fabric::kUdpChecksumOffset;
  return packet;
}

}  // namespace brdma::lab
