// brdma-switch/feedback/notice_frame.h - a frame for a packet that the switch itself sends: IP and UDP headers,
// checksums. The caller sets the MAC addresses.
#pragma once

#include <optional>

#include "fabric/packet_pool.h"
#include "fabric/switch/drop_notifier.h"
#include "forwarding/switch_packet.h"

namespace brdma::lab {

// In a buffer of the pool; none: the pool is empty.
[[nodiscard]] std::optional<SwitchPacket> make_notice_frame(fabric::PacketPool& pool, const fabric::DropNotice& notice);

}  // namespace brdma::lab
