#include "device_files/device_catalog.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace brdma::provider {
namespace {

struct Catalog {
  std::mutex lock;
  DeviceList devices;
};

// Never destroyed: programs call verbs from their own exit handlers.
Catalog& catalog() {
  static auto* const instance = new Catalog;
  return *instance;
}

}  // namespace

DeviceList read_devices() { return std::make_shared<const std::vector<DeviceInfo>>(list_devices()); }

void set_current_devices(DeviceList devices) {
  const std::lock_guard guard(catalog().lock);
  catalog().devices = std::move(devices);
}

DeviceList current_devices() {
  {
    const std::lock_guard guard(catalog().lock);
    if (catalog().devices) return catalog().devices;
  }
  DeviceList fresh = read_devices();
  set_current_devices(fresh);
  return fresh;
}

std::optional<DeviceInfo> find_device(std::string_view name) {
  const DeviceList devices = current_devices();
  const auto found = std::ranges::find(*devices, name, &DeviceInfo::name);
  return found == devices->end() ? std::nullopt : std::optional{*found};
}

std::optional<DeviceInfo> find_device(std::uint32_t ifindex) {
  const DeviceList devices = current_devices();
  const auto found = std::ranges::find(*devices, ifindex, &DeviceInfo::ifindex);
  return found == devices->end() ? std::nullopt : std::optional{*found};
}

}  // namespace brdma::provider
