// plugin/plugin.h - the four functions that libibverbs calls before there is a context: match a device, make its
// object, free it, open it.
#pragma once

#include <infiniband/verbs.h>

namespace brdma::provider::plugin {

extern "C" {
bool match_device(const void* sysfs_device);
void* alloc_device(const void* sysfs_device);  // struct verbs_device
void uninit_device(void* verbs_device);
// Returns the struct verbs_context, or null with errno; owns cmd_fd from the call on.
void* alloc_context(ibv_device* device, int cmd_fd, void* private_data);
}

}  // namespace brdma::provider::plugin
