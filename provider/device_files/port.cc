#include "device_files/port.h"

#include <cstdio>

namespace brdma::provider {

LinkRate link_rate(std::uint64_t speed_mbps) {
  if (speed_mbps <= 1'000) return {1, 1, "2.5 Gb/sec (1X SDR)"};
  if (speed_mbps <= 10'000) return {1, 4, "10 Gb/sec (1X QDR)"};
  if (speed_mbps <= 20'000) return {2, 2, "20 Gb/sec (4X DDR)"};
  if (speed_mbps <= 25'000) return {1, 32, "25 Gb/sec (1X EDR)"};
  if (speed_mbps <= 40'000) return {2, 8, "40 Gb/sec (4X FDR10)"};
  if (speed_mbps <= 100'000) return {2, 32, "100 Gb/sec (4X EDR)"};
  return {2, 64, "200 Gb/sec (4X HDR)"};
}

std::string gid_text(const IpAddress& address) {
  std::string text;
  for (std::size_t i = 0; i < address.bytes.size(); i += 2) {
    char group[8];
    std::snprintf(group, sizeof group, "%s%02x%02x", i == 0 ? "" : ":", static_cast<unsigned>(address.bytes[i]),
                  static_cast<unsigned>(address.bytes[i + 1]));
    text += group;
  }
  return text;
}

std::string guid_text(std::uint64_t guid) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48),
                static_cast<unsigned>(guid >> 32 & 0xFFFF), static_cast<unsigned>(guid >> 16 & 0xFFFF),
                static_cast<unsigned>(guid & 0xFFFF));
  return text;
}

namespace {

// The index of the first IPv4 GID.
std::optional<std::size_t> first_v4(const DeviceInfo& device) {
  for (std::size_t i = 0; i < device.gids.size(); ++i) {
    if (device.gids[i].address.is_v4()) return i;
  }
  return std::nullopt;
}

}  // namespace

std::uint16_t lid_of(const DeviceInfo& device) {
  const auto index = first_v4(device);
  if (!index) return 0;
  const auto& bytes = device.gids[*index].address.bytes;
  return static_cast<std::uint16_t>(bytes[14] << 8 | bytes[15]);
}

std::string lid_text(const DeviceInfo& device) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%x", static_cast<unsigned>(lid_of(device)));
  return text;
}

std::optional<LidPath> path_to_lid(const DeviceInfo& device, std::uint16_t lid) {
  const auto index = first_v4(device);
  if (!index || lid == 0) return std::nullopt;
  LidPath path;
  path.sgid_index = static_cast<std::uint8_t>(*index);
  path.local = path.peer = device.gids[*index].address;
  path.peer.bytes[14] = static_cast<std::uint8_t>(lid >> 8);
  path.peer.bytes[15] = static_cast<std::uint8_t>(lid);
  return path;
}

}  // namespace brdma::provider
