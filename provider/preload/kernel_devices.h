// preload/kernel_devices.h - what the kernel has of RDMA itself (an RNIC, Soft-RoCE), to be shown beside ours: symlinks
// that lead out of our tree. Entries of ours are left out: in a namespace of `brdma run --namespace` they are there
// too.
#pragma once

#include <string>
#include <vector>

#include "preload/device_files.h"

namespace brdma::preload {

// Empty where the kernel has no device. `root`: what stands before /sys and /dev; "" but in tests.
[[nodiscard]] std::vector<TreeEntry> kernel_devices(const std::string& root = {});

}  // namespace brdma::preload
