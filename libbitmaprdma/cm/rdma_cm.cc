#include "cm/rdma_cm.h"

#include <algorithm>
#include <cerrno>
#include <vector>

namespace brdma::cm {
namespace {

constexpr std::uint32_t kBacklogMax = 1024;  // as the kernel's default limit
constexpr std::size_t kReqDataMax = 92 - wire::kCmAddressSize;

std::uint8_t mtu_code(PathMtu mtu) { return static_cast<std::uint8_t>(mtu); }

std::uint64_t service_of(const RdmaId& id, const SocketAddress& address) {
  return wire::service_id(id.space, address.port);
}

QpType type_in(wire::PortSpace space, QpType wanted) {
  if (space == wire::PortSpace::kIb) return wanted;
  return space == wire::PortSpace::kTcp ? QpType::kRc : QpType::kUd;
}

// IBTA 12.6.5: transport service type.
std::uint8_t transport_of(QpType type) { return type == QpType::kUc ? 1 : 0; }

template <std::size_t N>
void copy_data(const ConnectParameters& from, std::size_t at, wire::PrivateData<N>& to) {
  std::copy_n(from.private_data.begin(), from.private_data_length, to.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

RdmaCm::RdmaCm(const Config& config, RdmaHost& host)
    : host_(host),
      random_(config.seed, "identifiers"),
      agent_(config, outbox_),
      lookup_(config, outbox_),
      ack_timeout_(config.ack_timeout) {}

Result<IdNumber, Status> RdmaCm::create(ChannelNumber channel, std::uint64_t user, wire::PortSpace space, QpType type) {
  RdmaId* const id = ids_.add();
  if (id == nullptr) return Status{ENOMEM};
  id->channel = channel;
  id->user = user;
  id->space = space;
  id->type = type_in(space, type);
  id->ack_timeout = ack_timeout_;
  id->receive_psn = Psn{static_cast<std::uint32_t>(random_.next())};
  return id->number;
}

Result<std::uint32_t, Status> RdmaCm::destroy(IdNumber number, Instant now) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->connection && id->is_datagram()) {
    by_question_.erase(*id->connection);
    lookup_.destroy(*id->connection, now);
  } else if (id->connection) {
    by_connection_.erase(*id->connection);
    agent_.destroy(*id->connection, now);
  }
  std::erase_if(memberships_, [number](const auto& entry) { return entry.second.id == number; });
  const std::uint32_t reported = id->events_reported + drop_events(*id, now);
  release_port(*id);
  ids_.remove(number);
  return reported;
}

// Also of requests for a listener, which no program will see: their peers are notified. Returns how many of its events
// will be fetched nevertheless.
std::uint32_t RdmaCm::drop_events(RdmaId& id, Instant now) {
  using Kind = RdmaEventKind;
  const IdNumber number = id.number;
  const auto is_its_request = [number](const RdmaEvent& event) {
    return event.kind == Kind::kConnectRequest && event.id == number;
  };
  take_back(id.channel, is_its_request, [this](const RdmaEvent& event) {
    if (RdmaId* const listener = ids_.find(event.counted)) --listener->waiting;
  });
  std::vector<IdNumber> orphans;
  const auto is_its_own = [number](const RdmaEvent& event) { return event.counted == number; };
  const std::uint32_t left = take_back(id.channel, is_its_own, [&orphans](const RdmaEvent& event) {
    if (event.kind == Kind::kConnectRequest) orphans.push_back(event.id);
  });
  if (left != 0) leave_to_readers(id);
  for (const IdNumber orphan : orphans) (void)destroy(orphan, now);
  return left;
}

// Another identifier may get its number before they are fetched.
void RdmaCm::leave_to_readers(const RdmaId& id) {
  for (RdmaEvent& event : channels_[id.channel]) {
    if (event.counted != id.number) continue;
    event.counted = kNobody;
    if (event.kind != RdmaEventKind::kConnectRequest) continue;
    if (RdmaId* const child = ids_.find(event.id)) child->listener.reset();
  }
}

std::uint32_t RdmaCm::take_back(ChannelNumber channel, const Gone& gone, const Take& take) {
  auto& events = channels_[channel];
  const auto count = static_cast<std::uint32_t>(std::count_if(events.begin(), events.end(), gone));
  if (count == 0) return 0;
  const std::uint32_t stay = count - host_.take_back_events(channel, count);
  std::uint32_t met = 0;
  for (auto event = events.begin(); event != events.end();) {
    if (!gone(*event) || met++ < stay) {
      ++event;
      continue;
    }
    take(*event);
    event = events.erase(event);
  }
  return stay;
}

void RdmaCm::bind_device(RdmaId& id) {
  id.device = host_.device_of(id.local.address, id.local.scope);
  if (!id.device) return;
  id.path_mtu = id.device->mtu;
  if (id.local.is_link_local()) id.local.scope = id.device->ifindex;
}

// A loopback address of no device stands for all of them, as in the kernel: libfabric binds to it to list the devices.
SocketAddress RdmaCm::bindable(const SocketAddress& address) {
  if (!address.is_loopback() || host_.device_of(address.address, address.scope)) return address;
  return {address.address.is_v4() ? IpAddress::v4(0, 0, 0, 0) : IpAddress{}, address.port};
}

Status RdmaCm::bind(IdNumber number, const SocketAddress& wanted) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state != IdState::kIdle) return Status{EINVAL};
  const SocketAddress address = bindable(wanted);
  if (!address.is_any()) {
    if (id->space == wire::PortSpace::kIpoib) return Status{EINVAL};
    if (address.is_link_local() && address.scope == 0) return Status{EINVAL};
    if (!host_.device_of(address.address, address.scope)) return Status{ENODEV};
  }
  const auto port = host_.take_port(id->space, address, id->port_options);
  if (!port) return port.reason();
  if (host_.lost_ports()) restore_ports();  // all but this one, which was just taken
  id->local = address;
  id->local.port = port.value();
  id->has_port = true;
  id->state = IdState::kBound;
  if (!address.is_any()) bind_device(*id);
  return Status::success();
}

Status RdmaCm::resolve_address(IdNumber number, const std::optional<SocketAddress>& source,
                               const SocketAddress& destination) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state != IdState::kIdle && id->state != IdState::kBound) return Status{EINVAL};
  if (id->state == IdState::kIdle) {
    const SocketAddress any{destination.address.is_v4() ? IpAddress::v4(0, 0, 0, 0) : IpAddress{}};
    if (const Status bound = bind(number, source.value_or(any)); !bound.ok()) return bound;
  }
  if (const int error = resolve_ends(*id, destination); error != 0) {
    notify(*id, RdmaEventKind::kAddressError, -error);
    return Status::success();
  }
  id->state = IdState::kAddressResolved;
  notify(*id, RdmaEventKind::kAddressResolved);
  return Status::success();
}

// Both addresses, and the device that carries packets between them. Returns an errno, 0 for success.
int RdmaCm::resolve_ends(RdmaId& id, const SocketAddress& destination) {
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
int RdmaCm::choose_source(RdmaId& id) {
  const auto address = host_.source_for(id.remote);
  if (!address) return address.reason().error();
  id.local.address = address.value();
  if (id.local.is_link_local()) id.local.scope = id.remote.scope;
  if (id.remote.is_any()) id.remote.address = address.value();
  return 0;
}

// Routes are the kernel's; resolving the address has checked that there is one.
Status RdmaCm::resolve_route(IdNumber number) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state != IdState::kAddressResolved) return Status{EINVAL};
  id->state = IdState::kRouteResolved;
  notify(*id, RdmaEventKind::kRouteResolved);
  return Status::success();
}

Result<RouteInfo, Status> RdmaCm::query(IdNumber number) {
  const RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  const bool resolved = id->state > IdState::kAddressResolved && id->state != IdState::kListening;
  // The packet life time is half of the timeout, as in the kernel; a disabled timeout gives none.
  const int life_time = (id->ack_timeout != 0 ? id->ack_timeout : ack_timeout_) - 1;
  return RouteInfo{id->device, id->local, id->remote, resolved, static_cast<std::uint8_t>(life_time)};
}

Status RdmaCm::listen(IdNumber number, std::uint32_t backlog) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state == IdState::kIdle) {
    if (const Status bound = bind(number, {IpAddress::v4(0, 0, 0, 0)}); !bound.ok()) return bound;
  }
  if (id->state != IdState::kListening) {
    if (id->state != IdState::kBound) return Status{EINVAL};
    if (const Status listens = listen_at_port(*id); !listens.ok()) return listens;
    id->state = IdState::kListening;
  }
  id->backlog = backlog == 0 || backlog > kBacklogMax ? kBacklogMax : backlog;
  return Status::success();
}

// Requests for its service are its own from now on; several addresses share one service.
Status RdmaCm::listen_at_port(const RdmaId& id) {
  const std::uint64_t service = service_of(id, id.local);
  const auto other = listening_.find(service);  // on another address
  if (other != listening_.end() && ids_.find(other->second)->type != id.type) return Status{EADDRINUSE};
  Status listens = host_.listen_port(id.space, id.local);
  if (host_.lost_ports()) {  // lost meanwhile: the answer was that the port is not ours
    restore_ports();
    listens = host_.listen_port(id.space, id.local);
  }
  if (!listens.ok()) return listens;
  if (other == listening_.end()) {
    (void)(id.is_datagram() ? lookup_.listen(service, kBacklogMax)
                            : agent_.listen(service, kBacklogMax, transport_of(id.type)));
  }
  listening_.emplace(service, id.number);
  return Status::success();
}

void RdmaCm::release_port(RdmaId& id) {
  if (!id.has_port) return;
  id.has_port = false;
  host_.release_port(id.space, id.local, id.state == IdState::kListening);
  if (id.state != IdState::kListening) return;
  std::erase_if(listening_, [&](const auto& entry) { return entry.second == id.number; });
  const std::uint64_t service = service_of(id, id.local);
  if (listening_.contains(service)) return;
  id.is_datagram() ? lookup_.stop_listening(service) : agent_.stop_listening(service);
}

void RdmaCm::restore_ports() {
  for (auto& [number, id] : ids_.all()) {
    if (!id.has_port) continue;
    (void)host_.take_port(id.space, id.local, id.port_options);
    if (id.state == IdState::kListening) (void)host_.listen_port(id.space, id.local);
  }
}

Status RdmaCm::connect(IdNumber number, const ConnectParameters& parameters, const wire::CmEce& ece, Instant now) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state != IdState::kRouteResolved) return Status{EINVAL};
  if (id->is_datagram()) return ask(*id, parameters, now);
  if (parameters.private_data_length > kReqDataMax) return Status{EINVAL};
  wire::CmReq req;
  req.service_id = service_of(*id, id->remote);
  req.ca_guid = id->device->guid;
  req.qpn = parameters.qpn;
  req.responder_resources = parameters.responder_resources;
  req.initiator_depth = parameters.initiator_depth;
  req.flow_control = parameters.flow_control != 0;
  req.first_psn = id->receive_psn;
  req.retry_count = parameters.retry_count;
  req.rnr_retry_count = parameters.rnr_retry_count;
  req.transport = transport_of(id->type);
  req.path_mtu_code = mtu_code(id->path_mtu);
  req.srq = parameters.srq;
  req.path.ack_timeout = id->ack_timeout;
  req.path.traffic_class = id->traffic_class;
  req.ece = ece;
  wire::emit_cm_address({id->local.port, id->local.address, id->remote.address}, req.private_data.data());
  copy_data(parameters, wire::kCmAddressSize, req.private_data);
  const auto connection = agent_.connect(endpoints_of(*id), req, now);
  if (!connection) return connection.reason();
  id->connection = connection.value();
  by_connection_[connection.value()] = number;
  id->retry_count = parameters.retry_count;
  id->state = IdState::kConnecting;
  return Status::success();
}

Status RdmaCm::accept(IdNumber number, std::uint64_t user, const ConnectParameters& parameters, const wire::CmEce& ece,
                      Instant now) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state != IdState::kRequested) return Status{EINVAL};
  if (id->is_datagram()) {
    const Status answered = answer(*id, parameters, now);
    if (answered.ok()) id->user = user;
    return answered;
  }
  if (parameters.private_data_length > wire::CmRep{}.private_data.size()) return Status{EINVAL};
  wire::CmRep rep;
  rep.ca_guid = id->device->guid;
  rep.qpn = parameters.qpn;
  rep.first_psn = id->receive_psn;
  rep.responder_resources = parameters.responder_resources;
  rep.initiator_depth = parameters.initiator_depth;
  rep.flow_control = parameters.flow_control != 0;
  rep.rnr_retry_count = parameters.rnr_retry_count;
  rep.srq = parameters.srq;
  rep.ece = ece;
  copy_data(parameters, 0, rep.private_data);
  if (const Status accepted = agent_.accept(*id->connection, rep, now); !accepted.ok()) return accepted;
  id->user = user;
  id->responder_resources = parameters.responder_resources;
  id->initiator_depth = parameters.initiator_depth;
  id->state = IdState::kAccepted;
  return Status::success();
}

Status RdmaCm::confirm(IdNumber number) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state != IdState::kResponded) return Status{EINVAL};
  if (const Status ready = agent_.ready(*id->connection); !ready.ok()) return ready;
  id->state = IdState::kConnected;
  return Status::success();
}

Status RdmaCm::reject(IdNumber number, std::uint8_t reason, ConstBytes private_data, Instant now) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (!id->connection) return Status{EINVAL};
  if (id->is_datagram()) return refuse(*id, private_data, now);
  const Status rejected =
      agent_.reject(*id->connection, reason == 0 ? wire::reject::kConsumer : reason, private_data, now);
  if (!rejected.ok()) return rejected;
  by_connection_.erase(*id->connection);
  id->connection.reset();
  id->state = IdState::kDisconnected;
  return Status::success();
}

Status RdmaCm::disconnect(IdNumber number, Instant now) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state == IdState::kDisconnected) return Status::success();  // the peer was faster
  if (!id->connection || id->is_datagram()) return Status{EINVAL};
  return agent_.disconnect(*id->connection, now);
}

Status RdmaCm::established(IdNumber number) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (!id->connection || id->is_datagram()) return Status{EINVAL};
  const Status status = agent_.established(*id->connection);
  return agent_.state(*id->connection) == ConnectionState::kEstablished && !status.ok() ? Status{EISCONN} : status;
}

bool RdmaCm::is_connected(IdNumber number) {
  const RdmaId* const id = ids_.find(number);
  return id != nullptr && id->connection && !id->is_datagram() &&
         agent_.state(*id->connection) == ConnectionState::kEstablished;
}

Status RdmaCm::set_port_options(IdNumber number, const PortOptions& options) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  id->port_options = options;
  return Status::success();
}

std::optional<PortOptions> RdmaCm::port_options(IdNumber number) {
  const RdmaId* const id = ids_.find(number);
  if (id == nullptr) return std::nullopt;
  return id->port_options;
}

Status RdmaCm::set_ack_timeout(IdNumber number, std::uint8_t code) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (code > 31) return Status{EINVAL};
  id->ack_timeout = code;
  return Status::success();
}

Status RdmaCm::set_traffic_class(IdNumber number, std::uint8_t traffic_class) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  id->traffic_class = traffic_class;
  return Status::success();
}

Result<QueuePairSetting, Status> RdmaCm::queue_pair_setting(IdNumber number, QpState state) {
  const RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (!id->device) return Status{EINVAL};
  if (id->is_datagram()) return datagram_setting(state);
  QueuePairSetting setting;
  QpAttributes& qp = setting.attributes;
  qp.state = state;
  switch (state) {
    case QpState::kInit:
      setting.mask = kQpAttrState | kQpAttrAccess | kQpAttrPkeyIndex | kQpAttrPort;
      qp.access = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
      return setting;
    case QpState::kRtr:
      if (id->remote_qpn == 0) return Status{EINVAL};  // no request or reply yet
      setting.mask = kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrRqPsn | kQpAttrDestQpn;
      if (id->type == QpType::kRc) setting.mask |= kQpAttrMinRnrTimer | kQpAttrMaxDestRdAtomic;
      qp.path_mtu = id->path_mtu;
      qp.receive_psn = id->receive_psn;
      qp.destination_qpn = id->remote_qpn;
      qp.max_dest_rd_atomic = id->responder_resources;
      qp.sgid_index = id->device->sgid_index;
      qp.local_address = id->local.address;
      qp.peer_address = id->remote.address;
      qp.traffic_class = id->traffic_class;
      return setting;
    case QpState::kRts:
      if (id->remote_qpn == 0) return Status{EINVAL};
      setting.mask = kQpAttrState | kQpAttrSqPsn;
      if (id->type == QpType::kRc)
        setting.mask |= kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrMaxRdAtomic;
      qp.timeout = id->ack_timeout;
      qp.retry_count = id->retry_count;
      qp.rnr_retry = id->rnr_retry_count;
      qp.send_psn = id->send_psn;
      qp.max_rd_atomic = id->initiator_depth;
      return setting;
    default:
      return Status{EINVAL};
  }
}

}  // namespace brdma::cm
