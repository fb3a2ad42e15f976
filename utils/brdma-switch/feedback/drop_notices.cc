#include "feedback/drop_notices.h"

#include <cstring>

#include "base/bytes.h"
#include "datapath/ethernet.h"
#include "feedback/notice_frame.h"

namespace brdma::lab {
namespace {

constexpr std::size_t kNeighboursMax = 4096;  // addresses may be invented: then drop all

IpAddress load_address(const std::byte* p, bool is_ipv6) {
  IpAddress address = IpAddress::v4(0, 0, 0, 0);
  const std::size_t size = is_ipv6 ? 16 : 4;
  std::memcpy(&address.bytes[16 - size], p, size);
  return address;
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
    const auto packet = make_notice_frame(pool_, *notice);
    if (!packet) continue;
    std::byte* const frame = pool_.buffer(packet->buffer).data();
    fabric::store_mac(frame, to->second);
    fabric::store_mac(frame + 6, from->second);
    info = fabric::inspect_frame({frame, packet->size}).value();
    return packet;
  }
  return std::nullopt;
}

}  // namespace brdma::lab
