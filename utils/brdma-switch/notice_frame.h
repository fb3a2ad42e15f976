// brdma-switch/notice_frame.h - a packet of the switch's own as a frame: IP and UDP headers, checksums; MAC addresses
// are left to who knows where it goes.
#pragma once

#include <optional>

#include "fabric/packet_pool.h"
#include "fabric/switch/drop_notifier.h"
#include "switch_packet.h"

namespace brdma::lab {

// In a buffer of the pool; nothing: there is none.
[[nodiscard]] std::optional<SwitchPacket> make_notice_frame(fabric::PacketPool& pool, const fabric::DropNotice& notice);

}  // namespace brdma::lab
