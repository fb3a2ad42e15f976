#include "cm/rdma/ports.h"

#include <cerrno>

#include "cm/rdma/transport.h"

namespace brdma::cm {
namespace {

constexpr std::uint32_t kBacklogMax = 1024;  // as the kernel's default limit

}  // namespace

Status Ports::bind(RdmaId& id, const SocketAddress& wanted) {
  const SocketAddress address = parts_.addresses.bindable(wanted);
  if (const Status fits = parts_.addresses.check(address, id.space); !fits.ok()) return fits;
  const auto port = parts_.host.take_port(id.space, address, id.port_options);
  if (!port) return port.reason();
  if (parts_.host.lost_ports()) restore();  // all but this one, which was just taken
  id.local = address;
  id.local.port = port.value();
  id.has_port = true;
  id.state = IdState::kBound;
  if (!address.is_any()) parts_.addresses.bind_device(id);
  return Status::success();
}

Status Ports::listen(RdmaId& id, std::uint32_t backlog) {
  if (id.state != IdState::kListening) {
    if (id.state != IdState::kBound) return Status{EINVAL};
    if (const Status listens = listen_at_port(id); !listens.ok()) return listens;
    id.state = IdState::kListening;
  }
  id.backlog = backlog == 0 || backlog > kBacklogMax ? kBacklogMax : backlog;
  return Status::success();
}

Status Ports::listen_at_port(const RdmaId& id) {
  const std::uint64_t service = service_of(id, id.local);
  const auto other = listening_.find(service);  // on another address
  if (other != listening_.end()) {
    const RdmaId& there = *parts_.ids.find(other->second);
    if (there.type != id.type || there.xrc != id.xrc) return Status{EADDRINUSE};
  }
  Status listens = parts_.host.listen_port(id.space, id.local);
  if (parts_.host.lost_ports()) {  // lost meanwhile: the answer was that the port is not ours
    restore();
    listens = parts_.host.listen_port(id.space, id.local);
  }
  if (!listens.ok()) return listens;
  if (other == listening_.end()) {
    (void)(id.is_datagram() ? parts_.lookup.listen(service, kBacklogMax)
                            : parts_.agent.listen(service, kBacklogMax, transport_of(id)));
  }
  listening_.emplace(service, id.number);
  return Status::success();
}

void Ports::release(RdmaId& id) {
  if (!id.has_port) return;
  id.has_port = false;
  parts_.host.release_port(id.space, id.local, id.state == IdState::kListening);
  if (id.state != IdState::kListening) return;
  std::erase_if(listening_, [&](const auto& entry) { return entry.second == id.number; });
  const std::uint64_t service = service_of(id, id.local);
  if (listening_.contains(service)) return;
  id.is_datagram() ? parts_.lookup.stop_listening(service) : parts_.agent.stop_listening(service);
}

void Ports::restore() {
  for (auto& [number, id] : parts_.ids.all()) {
    if (!id.has_port) continue;
    (void)parts_.host.take_port(id.space, id.local, id.port_options);
    if (id.state == IdState::kListening) (void)parts_.host.listen_port(id.space, id.local);
  }
}

RdmaId* Ports::listener_for(std::uint64_t service_id, const Endpoints& endpoints) {
  const SocketAddress destination{endpoints.local};
  RdmaId* any = nullptr;
  const auto [first, last] = listening_.equal_range(service_id);
  for (auto entry = first; entry != last; ++entry) {
    RdmaId& id = *parts_.ids.find(entry->second);
    if (id.local.address == destination.address) {
      if (!destination.is_link_local() || id.local.scope == endpoints.scope) return &id;
      continue;  // its address is on another link
    }
    const bool same_kind = id.local.address.is_v4() == destination.address.is_v4();
    if (id.local.is_any() && (same_kind || (!id.local.address.is_v4() && !id.port_options.ipv6_only))) any = &id;
  }
  return any;
}

}  // namespace brdma::cm
