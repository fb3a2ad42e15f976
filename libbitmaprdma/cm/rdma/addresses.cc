#include "cm/rdma/addresses.h"

#include <cerrno>

namespace brdma::cm {

SocketAddress AddressResolver::bindable(const SocketAddress& address) {
  if (!address.is_loopback() || host_.device_of(address.address, address.scope)) return address;
  return {address.address.is_v4() ? IpAddress::v4(0, 0, 0, 0) : IpAddress{}, address.port};
}

Status AddressResolver::check(const SocketAddress& address, wire::PortSpace space) {
  if (address.is_any()) return Status::success();
  if (space == wire::PortSpace::kIpoib) return Status{EINVAL};
  if (address.is_link_local() && address.scope == 0) return Status{EINVAL};
  return host_.device_of(address.address, address.scope) ? Status::success() : Status{ENODEV};
}

void AddressResolver::bind_device(RdmaId& id) {
  id.device = host_.device_of(id.local.address, id.local.scope);
  if (!id.device) return;
  id.path_mtu = id.device->mtu;
  if (id.local.is_link_local()) id.local.scope = id.device->ifindex;
}

int AddressResolver::resolve(RdmaId& id, const SocketAddress& destination) {
  id.remote = bindable(destination);
  if (id.remote.is_any() && !id.local.is_any()) id.remote.address = id.local.address;
  if (id.remote.is_link_local() && id.remote.scope == 0) id.remote.scope = id.local.scope;
  if (id.local.is_any()) {
    if (const int error = choose_source(id); error != 0) return error;
  }
  if (id.space == wire::PortSpace::kIpoib) return EINVAL;
  bind_device(id);
  if (!id.device || id.local.address.is_v4() != id.remote.address.is_v4()) return ENODEV;
  // Another link than the device's: unreachable from it.
  if (id.remote.is_link_local() && id.remote.scope != id.device->ifindex) return EINVAL;
  return 0;
}

// The local address that the kernel's routes choose for the remote one.
int AddressResolver::choose_source(RdmaId& id) {
  const auto address = host_.source_for(id.remote);
  if (!address) return address.reason().error();
  id.local.address = address.value();
  if (id.local.is_link_local()) id.local.scope = id.remote.scope;
  if (id.remote.is_any()) id.remote.address = address.value();
  return 0;
}

}  // namespace brdma::cm
