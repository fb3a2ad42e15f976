#include "cm/rdma_cm.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "cm/rdma/transport.h"

namespace brdma::cm {

RdmaCm::RdmaCm(const Config& config, RdmaHost& host)
    : host_(host),
      random_(config.seed, "identifiers"),
      agent_(config, outbox_),
      lookup_(config, outbox_),
      ack_timeout_(config.ack_timeout),
      addresses_(host),
      channels_(host, ids_),
      ports_({host, addresses_, ids_, agent_, lookup_}),
      accept_queue_(host, ids_, ports_, channels_, config.ack_timeout),
      connections_({agent_, ids_, channels_, accept_queue_, random_}),
      datagrams_({lookup_, ids_, channels_, accept_queue_}),
      memberships_(ids_, channels_) {}

Result<IdNumber, Status> RdmaCm::create(ChannelNumber channel, std::uint64_t user, wire::PortSpace space, QpType type,
                                        XrcRole xrc) {
  RdmaId* const id = ids_.add();
  if (id == nullptr) return Status{ENOMEM};
  id->channel = channel;
  id->user = user;
  id->space = space;
  id->type = type_in(space, type);
  if (space == wire::PortSpace::kIb) id->xrc = xrc;
  id->ack_timeout = ack_timeout_;
  id->receive_psn = Psn{static_cast<std::uint32_t>(random_.next())};
  return id->number;
}

Result<std::uint32_t, Status> RdmaCm::destroy(IdNumber number, Instant now) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->connection && id->is_datagram()) {
    datagrams_.destroy(*id, now);
  } else if (id->connection) {
    connections_.destroy(*id, now);
  }
  memberships_.end_all_of(number);
  std::vector<IdNumber> orphans;
  const std::uint32_t reported = id->events_reported + channels_.drop(*id, orphans);
  for (const IdNumber orphan : orphans) (void)destroy(orphan, now);  // requests that no program will see
  ports_.release(*id);
  ids_.remove(number);
  return reported;
}

Status RdmaCm::bind(IdNumber number, const SocketAddress& address) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state != IdState::kIdle) return Status{EINVAL};
  return ports_.bind(*id, address);
}

Status RdmaCm::resolve_address(IdNumber number, const std::optional<SocketAddress>& source,
                               const SocketAddress& destination) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state != IdState::kIdle && id->state != IdState::kBound) return Status{EINVAL};
  if (id->state == IdState::kIdle) {
    const SocketAddress any{destination.address.is_v4() ? IpAddress::v4(0, 0, 0, 0) : IpAddress{}};
    if (const Status bound = ports_.bind(*id, source.value_or(any)); !bound.ok()) return bound;
  }
  if (const int error = addresses_.resolve(*id, destination); error != 0) {
    channels_.notify(*id, RdmaEventKind::kAddressError, -error);
    return Status::success();
  }
  id->state = IdState::kAddressResolved;
  channels_.notify(*id, RdmaEventKind::kAddressResolved);
  return Status::success();
}

// Routes are the kernel's; resolving the address has checked that there is one.
Status RdmaCm::resolve_route(IdNumber number) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state != IdState::kAddressResolved) return Status{EINVAL};
  id->state = IdState::kRouteResolved;
  channels_.notify(*id, RdmaEventKind::kRouteResolved);
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
    if (const Status bound = ports_.bind(*id, {IpAddress::v4(0, 0, 0, 0)}); !bound.ok()) return bound;
  }
  return ports_.listen(*id, backlog);
}

Status RdmaCm::connect(IdNumber number, const ConnectParameters& parameters, const wire::CmEce& ece, Instant now) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state != IdState::kRouteResolved) return Status{EINVAL};
  return id->is_datagram() ? datagrams_.ask(*id, parameters, now) : connections_.connect(*id, parameters, ece, now);
}

Status RdmaCm::accept(IdNumber number, std::uint64_t user, const ConnectParameters& parameters, const wire::CmEce& ece,
                      Instant now) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state != IdState::kRequested) return Status{EINVAL};
  const Status accepted =
      id->is_datagram() ? datagrams_.answer(*id, parameters, now) : connections_.accept(*id, parameters, ece, now);
  if (accepted.ok()) id->user = user;
  return accepted;
}

Status RdmaCm::confirm(IdNumber number) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  return connections_.confirm(*id);
}

Status RdmaCm::reject(IdNumber number, std::uint8_t reason, ConstBytes private_data, Instant now) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (!id->connection) return Status{EINVAL};
  return id->is_datagram() ? datagrams_.refuse(*id, private_data, now)
                           : connections_.reject(*id, reason, private_data, now);
}

Status RdmaCm::disconnect(IdNumber number, Instant now) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->state == IdState::kDisconnected) return Status::success();  // the peer was faster
  if (!id->connection || id->is_datagram()) return Status{EINVAL};
  return agent_.disconnect(*id->connection, now);
}

Status RdmaCm::established(IdNumber number) {
  const RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (!id->connection || id->is_datagram()) return Status{EINVAL};
  return connections_.established(*id);
}

bool RdmaCm::is_connected(IdNumber number) {
  const RdmaId* const id = ids_.find(number);
  return id != nullptr && id->connection && !id->is_datagram() && connections_.is_connected(*id);
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
  return id->is_datagram() ? DatagramService::setting(state) : ConnectionService::setting(*id, state);
}

std::optional<ChannelNumber> RdmaCm::channel_of(IdNumber number) {
  const RdmaId* const id = ids_.find(number);
  if (id == nullptr) return std::nullopt;
  return id->channel;
}

Result<std::uint32_t, Status> RdmaCm::migrate(IdNumber number, ChannelNumber to) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->channel == to) return id->events_reported;
  return id->events_reported + channels_.move(*id, to);
}

std::optional<RdmaEvent> RdmaCm::fetch_event(ChannelNumber channel) {
  const auto event = channels_.fetch(channel);
  if (event && event->group) memberships_.on_fetched(*event->group);
  return event;
}

bool RdmaCm::has_fresh_event(IdNumber number, Instant now) {
  const RdmaId* const id = ids_.find(number);
  return id != nullptr && channels_.has_fresh(*id, now);
}

Status RdmaCm::write_event(IdNumber number, RdmaEventKind kind, std::int32_t status, std::uint64_t argument) {
  const RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (kind != RdmaEventKind::kUser && kind != RdmaEventKind::kInternal) return Status{EINVAL};
  if (id->state == IdState::kRequested) return Status{EINVAL};
  channels_.queue(
      id->channel,
      {.kind = kind, .id = number, .user = id->user, .counted = number, .status = status, .argument = argument});
  return Status::success();
}

void RdmaCm::addresses_changed(std::uint64_t device_guid) {
  for (auto& [number, id] : ids_.all()) {
    if (!id.device || id.device->guid != device_guid) continue;
    const bool lost = !host_.device_of(id.local.address, id.local.scope);
    if (lost && !id.address_lost) channels_.notify(id, RdmaEventKind::kAddressChange);
    id.address_lost = lost;
  }
}

void RdmaCm::device_removed(std::uint64_t device_guid) {
  for (auto& [number, id] : ids_.all()) {
    if (!id.device || id.device->guid != device_guid || std::exchange(id.device_lost, true)) continue;
    channels_.notify(id, RdmaEventKind::kDeviceRemoval);
  }
}

void RdmaCm::close_channel(ChannelNumber channel, Instant now) {
  std::vector<IdNumber> numbers;
  for (const auto& [number, id] : ids_.all()) {
    if (id.channel == channel) numbers.push_back(number);
  }
  for (const IdNumber number : numbers) (void)destroy(number, now);  // a listener's children may be gone already
  channels_.close(channel);
}

void RdmaCm::destroy_all(Instant now) {
  while (!ids_.all().empty()) (void)destroy(ids_.all().begin()->first, now);
  lookup_.send_final_acks(now);
}

// The MADs are parsed and counted by whoever passes them on.
void RdmaCm::handle_mad(const Endpoints& endpoints, wire::MadBytes bytes, Instant now) {
  const auto mad = wire::parse_cm(bytes);
  if (!mad) return;
  if (const auto* question = std::get_if<wire::CmSidrReq>(&mad->message)) {
    lookup_.handle(endpoints, mad->transaction, *question);
  } else if (const auto* answer = std::get_if<wire::CmSidrRep>(&mad->message)) {
    lookup_.handle(endpoints, mad->transaction, *answer);
  } else {
    agent_.handle(endpoints, *mad, now);
  }
  take_events(now);
}

void RdmaCm::handle_timeout(Instant now) {
  agent_.handle_timeout(now);
  lookup_.handle_timeout(now);
  take_events(now);
}

std::optional<Instant> RdmaCm::next_timeout() const {
  const auto connections = agent_.next_timeout(), questions = lookup_.next_timeout();
  if (!connections || !questions) return connections ? connections : questions;
  return std::min(*connections, *questions);
}

void RdmaCm::take_events(Instant now) {
  channels_.set_time(now);
  datagrams_.take_events(now);
  connections_.take_events(now);
}

}  // namespace brdma::cm
