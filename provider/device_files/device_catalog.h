// device_files/device_catalog.h - the devices as shown to this process's programs. GID indices refer to the device
// files, so both come from the same list; it is read again whenever libibverbs looks for devices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmaprdma/context.h"

namespace brdma::provider {

using DeviceList = std::shared_ptr<const std::vector<DeviceInfo>>;

// Reads the network interfaces. Thread-safe, as the others.
[[nodiscard]] DeviceList read_devices();
// Replaces the list.
void set_current_devices(DeviceList devices);
// The last list; reads the interfaces if there was none yet.
[[nodiscard]] DeviceList current_devices();
[[nodiscard]] std::optional<DeviceInfo> find_device(std::string_view name);
[[nodiscard]] std::optional<DeviceInfo> find_device(std::uint32_t ifindex);

}  // namespace brdma::provider
