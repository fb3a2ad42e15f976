#include "plugin/plugin.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "abi/abi.h"
#include "context/open_device.h"
#include "io/netdev/netdev.h"

namespace brdma::provider::plugin {

extern "C" {

// Real devices may exist beside ours: each keeps its own driver.
bool match_device(const void* sysfs_device) {
  const char* name = static_cast<const char*>(sysfs_device) + abi::kSysfsDeviceName;
  return std::strncmp(name, io::kDevicePrefix, sizeof io::kDevicePrefix - 1) == 0;
}

void* alloc_device(const void*) { return std::calloc(1, abi::kDeviceBytes + abi::kObjectReserve); }

void uninit_device(void* verbs_device) { std::free(verbs_device); }

void* alloc_context(ibv_device* device, int cmd_fd, void*) {
  const auto opened = OpenDevice::open(device, cmd_fd);
  if (opened) return opened.value();
  errno = opened.reason().error();
  return nullptr;
}

}  // extern "C"

}  // namespace brdma::provider::plugin
