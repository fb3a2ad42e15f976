// verbs/address_handle.h - conversion of libibverbs' path (ibv_ah_attr) into addresses.
#pragma once

#include <infiniband/verbs.h>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "bitmaprdma/types.h"

namespace brdma::provider {

// EINVAL: another port, a GID index that the device does not have, no destination, two address families. The service
// level is ignored: a UD completion's value returns in the address handle of the reply.
[[nodiscard]] Result<AddressHandle, Status> path_of(const DeviceInfo& device, const ibv_ah_attr& path);

// IPv4 groups have two forms: that of RoCEv2, ::ffff:a.b.c.d, and the multicast GID ff0e::ffff:a.b.c.d. IPv6 hosts
// neither send nor take packets to interface-local groups (ff01::, RFC 4291 section 2.7), which programs made for
// InfiniBand choose, perftest among them: these are the link-local groups of the same number (ff02::) on the wire.
[[nodiscard]] IpAddress address_of(const ibv_gid& gid);

}  // namespace brdma::provider
