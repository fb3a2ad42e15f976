// device_files/kernel_devices.h - the kernel's own RDMA devices (an RNIC, Soft-RoCE), shown beside ours: symlinks that
// lead out of our tree. Our own entries are skipped: in a namespace of `brdma run --namespace` they are there too.
#pragma once

#include <string>
#include <vector>

#include "device_files/device_files.h"

namespace brdma::preload {

// Empty where the kernel has no device. `root`: prefix of /sys and /dev; "" but in tests.
[[nodiscard]] std::vector<TreeEntry> kernel_devices(const std::string& root = {});

}  // namespace brdma::preload
