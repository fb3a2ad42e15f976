// device_files/port.h - a network interface's state in InfiniBand terms: for ibv_query_port and for the files under
// /sys alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bitmaprdma/context.h"

namespace brdma::provider {

struct LinkRate {
  std::uint8_t width;  // enum of ibv_port_attr::active_width: 1 = 1X, 2 = 4X
  std::uint8_t speed;  // likewise active_speed: 1 = 2.5, 2 = 5, 4 = 10, 8 = 10 (FDR10), 32 = 25, 64 = 50 Gbit/s a lane
  const char* description;  // as in /sys/class/infiniband/*/ports/1/rate
};

// The nearest rate with an InfiniBand code, chosen as the kernel does for Ethernet devices.
[[nodiscard]] LinkRate link_rate(std::uint64_t speed_mbps);

// IPv4 and IPv6 in /sys's eight groups of four hex digits.
[[nodiscard]] std::string gid_text(const IpAddress& address);
// 0011:2233:4455:6677
[[nodiscard]] std::string guid_text(std::uint64_t guid);

// Programs without a GID (ibv_rc_pingpong without -g) address a peer by its LID. RoCE has none, so the low 16 bits of
// the first IPv4 address serve as one; 0 without an IPv4 address. A LID then means the host with these bits and our
// upper 16: enough for any subnet of /16 or smaller.
[[nodiscard]] std::uint16_t lid_of(const DeviceInfo& device);
[[nodiscard]] std::string lid_text(const DeviceInfo& device);  // 0x1f, as /sys has it
struct LidPath {
  std::uint8_t sgid_index = 0;
  IpAddress local, peer;
};
[[nodiscard]] std::optional<LidPath> path_to_lid(const DeviceInfo& device, std::uint16_t lid);

inline constexpr char kFirmwareVersion[] = "0.1.0";
// Of ibv_device_attr::device_cap_flags: UD_AV_PORT_ENFORCE, CURR_QP_STATE_MOD, SYS_IMAGE_GUID, RC_RNR_NAK_GEN,
// SRQ_RESIZE, XRC.
inline constexpr std::uint32_t kDeviceCapabilities = 1u << 6 | 1u << 7 | 1u << 11 | 1u << 12 | 1u << 13 | 1u << 20;
inline constexpr std::uint16_t kPkey = 0xFFFF;  // the default partition, the only one

}  // namespace brdma::provider
