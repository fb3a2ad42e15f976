// brdma-switch/feedback/drop_notices.h - explicit drop notification in the lab (DN-8): reports the links' drops to
// the fabric's notifier, and makes frames of its notifications. Their source is the host that the dropped packet was
// for: a switch of the lab has no address of its own.
#pragma once

#include <map>
#include <optional>

#include "base/ip_address.h"
#include "base/units.h"
#include "fabric/packet_pool.h"
#include "fabric/switch/drop_notifier.h"
#include "forwarding/switch_packet.h"

namespace brdma::lab {

class DropNotices {
 public:
  explicit DropNotices(fabric::PacketPool& pool) : pool_(pool) { configure(fabric::EdnForm::kOff); }
  void configure(fabric::EdnForm form);  // restarts if the form changes

  void dropped(const SwitchPacket& packet, Duration drain, Instant now);
  void enqueued(const SwitchPacket& packet, Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const { return notifier_->next_timeout(); }
  void handle_timeout(Instant now) { notifier_->handle_timeout(now); }
  // The next notification as a frame, in a buffer of the pool; `info` has its destination. A notification without a
  // free buffer is lost, like any frame.
  [[nodiscard]] std::optional<SwitchPacket> poll(fabric::FrameInfo& info);
  [[nodiscard]] const fabric::DropNotifier& notifier() const { return *notifier_; }

 private:
  [[nodiscard]] std::optional<fabric::RoceView> view(const SwitchPacket& packet);

  fabric::PacketPool& pool_;
  fabric::EdnForm form_ = fabric::EdnForm::kOff;
  std::optional<fabric::DropNotifier> notifier_;
  // Of the senders and receivers of dropped packets: a lab has a few dozen.
  std::map<IpAddress, fabric::MacAddress> neighbours_;
};

}  // namespace brdma::lab
