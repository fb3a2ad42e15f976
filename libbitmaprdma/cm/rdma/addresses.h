// cm/rdma/addresses.h - addresses of an identifier: which it may bind to, and which ones, and which device, carry its
// packets to a destination. Devices and routes are the machine's (cm/rdma_host.h).
#pragma once

#include "cm/rdma_host.h"
#include "cm/rdma_id.h"

namespace brdma::cm {

class AddressResolver {
 public:
  explicit AddressResolver(RdmaHost& host) : host_(host) {}

  // A loopback address of no device stands for all of them, as in the kernel: libfabric binds to it to list the
  // devices.
  [[nodiscard]] SocketAddress bindable(const SocketAddress& address);
  // ENODEV: no device has this address. EINVAL: a link-local one without its interface; an address for kIpoib.
  [[nodiscard]] Status check(const SocketAddress& address, wire::PortSpace space);
  // The device of its local address, if there is one.
  void bind_device(RdmaId& id);
  // Both addresses, and the device that carries packets between them. Returns an errno, 0 for success.
  [[nodiscard]] int resolve(RdmaId& id, const SocketAddress& destination);

 private:
  [[nodiscard]] int choose_source(RdmaId& id);

  RdmaHost& host_;
};

}  // namespace brdma::cm
