// sim/packet_owner.h - the owner that a link calls for its packets (fabric/link.h): the world's pool, and the switch
// that notifies of drops and marks, or turns marks into round-trip time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "fabric/routing/ip_header.h"
#include "fabric/switch/drop_notifier.h"
#include "fabric/switch/ecn_marks.h"
#include "fabric/switch/rtt_translator.h"
#include "sim/packet_pool.h"

namespace brdma::sim {

// Bytes on the wire beside the UDP payload: Ethernet, IPv4 and UDP headers.
inline constexpr std::uint32_t kFrameOverhead = 14 + 20 + 8;
[[nodiscard]] inline std::uint32_t wire_bytes(const Packet& packet) {
  return packet.frame_bytes != 0 ? packet.frame_bytes
                                 : static_cast<std::uint32_t>(packet.bytes.size()) + kFrameOverhead;
}

// A switch's own packet. ICMP reaches a host's engine as a packet from UDP port 0.
[[nodiscard]] inline PacketIndex take_notice(PacketPool& pool, const fabric::DropNotice& notice) {
  const PacketIndex index = pool.take();
  Packet& packet = pool[index];
  packet.source = notice.source;
  packet.destination = notice.destination;
  packet.source_port = notice.source_port;
  packet.ip_id = 0;
  packet.traffic_class = 0;
  packet.hop_limit = 64;
  const ConstBytes bytes = notice.view();
  packet.bytes.assign(bytes.begin(), bytes.end());
  return index;
}

class PacketOwner {
 public:
  // Without a translator marks are set on packets that can carry one (ECT, RFC 3168). `frames_dropped`: receives copies
  // of the frames of models that are dropped, to be reported.
  PacketOwner(PacketPool& pool, fabric::DropNotifier* notifier, fabric::RttTranslator* translator,
              fabric::EcnMarks* marks = nullptr, std::vector<Packet>* frames_dropped = nullptr)
      : pool_(pool), notifier_(notifier), translator_(translator), marks_(marks), frames_dropped_(frames_dropped) {}

  std::optional<PacketIndex> duplicate(PacketIndex index) { return pool_.duplicate(index); }
  void corrupt(PacketIndex index, std::uint64_t random) { pool_.corrupt(index, random); }
  void discard(PacketIndex index) { pool_.discard(index); }
  [[nodiscard]] std::uint8_t dscp(PacketIndex index) { return fabric::dscp_of(pool_[index].traffic_class); }
  void dropped(PacketIndex index, Duration drain, Instant now) {
    if (pool_[index].frame_bytes != 0) {
      if (frames_dropped_ != nullptr) frames_dropped_->push_back(pool_[index]);
    } else if (notifier_ != nullptr) {
      notifier_->dropped(view(index), drain, now);
    }
  }
  void enqueued(PacketIndex index, bool marked, Instant now) {
    Packet& packet = pool_[index];
    const bool is_frame = packet.frame_bytes != 0;
    if (notifier_ != nullptr && !is_frame) notifier_->enqueued(view(index), now);
    const std::uint8_t ecn = fabric::ecn_of(packet.traffic_class);
    const bool congested = marked || ecn == fabric::kCongested;
    const bool taken_over = translator_ != nullptr && !is_frame &&
                            translator_->pass(packet.source, packet.destination, packet.bytes, congested, now);
    fabric::EcnMarks uncounted;
    const std::uint8_t after = (marks_ != nullptr ? *marks_ : uncounted).leave_with(ecn, marked, taken_over);
    packet.traffic_class = static_cast<std::uint8_t>((packet.traffic_class & ~fabric::kEcnMask) | after);
  }

 private:
  [[nodiscard]] fabric::RoceView view(PacketIndex index) {
    const Packet& packet = pool_[index];
    return {packet.source, packet.destination, packet.source_port, packet.bytes};
  }
  PacketPool& pool_;
  fabric::DropNotifier* notifier_;
  fabric::RttTranslator* translator_;
  fabric::EcnMarks* marks_;
  std::vector<Packet>* frames_dropped_;
};

}  // namespace brdma::sim
