// brdma-switch/forwarding/packet_owner.h - operations of a switch's links on packets' bytes (fabric/link.h).
#pragma once

#include <cstring>
#include <optional>

#include "fabric/packet_pool.h"
#include "fabric/routing/frame.h"
#include "feedback/drop_notices.h"
#include "feedback/ip_actions.h"
#include "forwarding/switch_packet.h"

namespace brdma::lab {

class PacketOwner {
 public:
  // Without notices and actions: a host's own link, which reports and counts nothing.
  PacketOwner(fabric::PacketPool& pool, DropNotices* notices, IpActions* actions)
      : pool_(pool), notices_(notices), actions_(actions) {}
  std::optional<SwitchPacket> duplicate(const SwitchPacket& packet) {
    const auto buffer = pool_.take();
    if (!buffer) return std::nullopt;
    std::memcpy(pool_.buffer(*buffer).data(), pool_.buffer(packet.buffer).data(), packet.size);
    SwitchPacket copy = packet;
    copy.buffer = *buffer;
    return copy;
  }
  void corrupt(SwitchPacket& packet, std::uint64_t random) {
    const fabric::FrameInfo info = packet.udp_info();
    fabric::corrupt_frame(pool_.buffer(packet.buffer).first(packet.size), info, !packet.partial_checksum, random);
    // Only RDMA verifies its payload itself. For others, the receiver must verify the checksum and refuse.
    if (!info.is_udp) packet.partial_checksum = false;
  }
  void discard(const SwitchPacket& packet) { pool_.give_back(packet.buffer); }
  [[nodiscard]] std::uint8_t dscp(const SwitchPacket& packet) {
    return actions_ != nullptr ? actions_->dscp(packet) : std::uint8_t{0};
  }
  void dropped(const SwitchPacket& packet, Duration drain, Instant now) {
    if (actions_ == nullptr) return;
    notices_->dropped(packet, drain, now);
    actions_->dropped(packet, now);
  }
  void enqueued(SwitchPacket& packet, bool marked, Instant now) {
    if (actions_ == nullptr) return;
    notices_->enqueued(packet, now);
    actions_->enqueued(packet, marked, now);
  }

 protected:
  void attach(DropNotices* notices, IpActions* actions) {
    notices_ = notices;
    actions_ = actions;
  }
  [[nodiscard]] fabric::PacketPool& pool() { return pool_; }

 private:
  fabric::PacketPool& pool_;
  DropNotices* notices_;
  IpActions* actions_;
};

}  // namespace brdma::lab
