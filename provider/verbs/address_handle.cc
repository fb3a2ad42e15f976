// Address handles: destinations of UD messages. A GID index becomes its address when the handle is made.
#include "verbs/address_handle.h"

#include <cerrno>
#include <cstring>

#include "device_files/port.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider {

IpAddress address_of(const ibv_gid& gid) {
  IpAddress address;
  std::memcpy(address.bytes.data(), gid.raw, address.bytes.size());
  IpAddress mapped = address;
  mapped.bytes[0] = mapped.bytes[1] = 0;
  if (address.bytes[0] != 0xFF) return address;
  if (mapped.is_v4()) return mapped;
  constexpr std::uint8_t kScope = 0x0F, kInterfaceLocal = 1, kLinkLocal = 2;
  if ((address.bytes[1] & kScope) == kInterfaceLocal)
    address.bytes[1] = static_cast<std::uint8_t>((address.bytes[1] & ~kScope) | kLinkLocal);
  return address;
}

Result<AddressHandle, Status> path_of(const DeviceInfo& device, const ibv_ah_attr& path) {
  if (path.port_num != 1) return Status(EINVAL);
  AddressHandle out;
  if (path.is_global == 0) {  // RoCE addresses are GIDs; a LID stands for one (port.h)
    const auto by_lid = path_to_lid(device, path.dlid);
    if (!by_lid) return Status(EINVAL);
    out.local = by_lid->local;
    out.peer = by_lid->peer;
    out.sgid_index = by_lid->sgid_index;
    return out;
  }
  if (path.grh.sgid_index >= device.gids.size()) return Status(EINVAL);
  out.local = device.gids[path.grh.sgid_index].address;
  out.peer = address_of(path.grh.dgid);
  if (out.local.is_zero() || out.peer.is_zero() || out.peer.is_v4() != out.local.is_v4()) return Status(EINVAL);
  out.sgid_index = path.grh.sgid_index;
  out.traffic_class = path.grh.traffic_class;
  out.hop_limit = path.grh.hop_limit;
  out.flow_label = path.grh.flow_label;
  return out;
}

namespace verbs {
extern "C" {

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  OpenDevice& device = device_of(pd->context);
  const auto path = path_of(device.info(), *attributes);
  if (!path) return fail<ibv_ah>(path.reason().error());
  auto* const ah = new AddressHandleObject;
  ah->core.handle = device.next_handle();
  ah->address = path.value();
  return &ah->core;
}

// Posted work requests have a copy.
int destroy_ah(ibv_ah* ah) {
  delete &object_of(ah);
  return 0;
}

}  // extern "C"
}  // namespace verbs

}  // namespace brdma::provider
