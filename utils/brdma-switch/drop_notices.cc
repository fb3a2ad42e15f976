#include "drop_notices.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace brdma::lab {
namespace {

constexpr std::size_t kIp = fabric::kEthernetHeaderSize;
constexpr std::uint16_t kEtherIpv4 = 0x0800, kEtherIpv6 = 0x86DD;
constexpr std::size_t kNeighboursMax = 4096;  // somebody invents addresses: forget them all

IpAddress load_address(const std::byte* p, bool is_ipv6) {
  IpAddress address = IpAddress::v4(0, 0, 0, 0);
  const std::size_t size = is_ipv6 ? 16 : 4;
  std::memcpy(&address.bytes[16 - size], p, size);
  return address;
}

// Behind the Ethernet header; each answers the frame's size.
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

void DropNotices::configure(fabric::EdnForm form) {
  if (notifier_ && form == form_) return;
  form_ = form;
  notifier_.emplace(fabric::DropNotifier::Config{.form = form});
}

std::optional<fabric::RoceView> DropNotices::view(const SwitchPacket& packet) {
  if (packet.udp_offset == 0) return std::nullopt;
  const ConstBytes frame = pool_.buffer(packet.buffer).first(packet.size);
  const std::byte* const udp = &frame[packet.udp_offset];
  if (load_be16(udp + 2) != fabric::kRocePort) return std::nullopt;
  const std::size_t addresses = kIp + (packet.is_ipv6 ? 8 : 12), size = packet.is_ipv6 ? 16 : 4;
  return fabric::RoceView{.source = load_address(&frame[addresses], packet.is_ipv6),
                          .destination = load_address(&frame[addresses + size], packet.is_ipv6),
                          .source_port = load_be16(udp),
                          .payload = frame.subspan(packet.udp_offset + fabric::kUdpHeaderSize),
                          .from_ip = frame.subspan(kIp)};
}

void DropNotices::dropped(const SwitchPacket& packet, Duration drain, Instant now) {
  if (!notifier_->on()) return;
  const auto roce = view(packet);
  if (!roce) return;
  if (neighbours_.size() >= kNeighboursMax) neighbours_.clear();
  const std::byte* const frame = pool_.buffer(packet.buffer).data();
  neighbours_[roce->destination] = fabric::load_mac(frame);
  neighbours_[roce->source] = fabric::load_mac(frame + 6);
  notifier_->dropped(*roce, drain, now);
}

void DropNotices::enqueued(const SwitchPacket& packet, Instant now) {
  if (notifier_->table().flows() == 0) return;
  if (const auto roce = view(packet)) notifier_->enqueued(*roce, now);
}

std::optional<SwitchPacket> DropNotices::poll(fabric::FrameInfo& info) {
  while (const auto notice = notifier_->poll()) {
    const auto to = neighbours_.find(notice->destination), from = neighbours_.find(notice->source);
    if (to == neighbours_.end() || from == neighbours_.end()) continue;
    const auto buffer = pool_.take();
    if (!buffer) continue;
    const MutableBytes bytes = pool_.buffer(*buffer);
    fabric::store_mac(bytes.data(), to->second);
    fabric::store_mac(&bytes[6], from->second);
    store_be16(&bytes[12], notice->source.is_v4() ? kEtherIpv4 : kEtherIpv6);
    const std::size_t size = notice->source_port == 0 ? write_icmp(*notice, bytes) : write_roce(*notice, bytes);
    info = fabric::inspect_frame(bytes.first(size)).value();
    SwitchPacket packet;
    packet.buffer = *buffer;
    packet.size = static_cast<std::uint16_t>(size);
    packet.udp_offset = info.udp_offset;
    packet.is_ipv6 = info.is_ipv6;
    packet.partial_checksum = info.is_udp;
    packet.checksum_start = info.udp_offset;
    packet.checksum_offset = fabric::kUdpChecksumOffset;
    return packet;
  }
  return std::nullopt;
}

}  // namespace brdma::lab
