#include "device_catalog.h"

#include <algorithm>
#include <mutex>

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

DeviceList refresh_devices() {
  auto fresh = std::make_shared<const std::vector<DeviceInfo>>(list_devices());
  const std::lock_guard guard(catalog().lock);
  catalog().devices = fresh;
  return fresh;
}

DeviceList current_devices() {
  {
    const std::lock_guard guard(catalog().lock);
    if (catalog().devices) return catalog().devices;
  }
  return refresh_devices();
}

std::optional<DeviceInfo> find_device(std::string_view name) {
  const DeviceList devices = current_devices();
  const auto found =
      std::find_if(devices->begin(), devices->end(), [&](const DeviceInfo& d) { return d.name == name; });
  return found == devices->end() ? std::nullopt : std::optional{*found};
}

}  // namespace brdma::provider
