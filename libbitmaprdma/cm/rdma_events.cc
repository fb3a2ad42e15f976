// Conversion of the connection manager's events into the program's, and their queues.
#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "cm/rdma_cm.h"

namespace brdma::cm {
namespace {

// In the program's view: the peer's responder resources are our initiator depth, and the other way round.
ConnectParameters parameters_of(const wire::CmReq& req) {
  ConnectParameters parameters;
  parameters.qpn = req.qpn;
  parameters.responder_resources = req.initiator_depth;
  parameters.initiator_depth = req.responder_resources;
  parameters.flow_control = req.flow_control;
  parameters.retry_count = req.retry_count;
  parameters.rnr_retry_count = req.rnr_retry_count;
  parameters.srq = req.srq;
  parameters.private_data_length = static_cast<std::uint8_t>(req.private_data.size() - wire::kCmAddressSize);
  std::copy(req.private_data.begin() + wire::kCmAddressSize, req.private_data.end(), parameters.private_data.begin());
  return parameters;
}

ConnectParameters parameters_of(const wire::CmRep& rep) {
  ConnectParameters parameters;
  parameters.qpn = rep.qpn;
  parameters.responder_resources = rep.initiator_depth;
  parameters.initiator_depth = rep.responder_resources;
  parameters.flow_control = rep.flow_control;
  parameters.rnr_retry_count = rep.rnr_retry_count;
  parameters.srq = rep.srq;
  parameters.private_data_length = static_cast<std::uint8_t>(rep.private_data.size());
  std::copy(rep.private_data.begin(), rep.private_data.end(), parameters.private_data.begin());
  return parameters;
}

}  // namespace

std::optional<RdmaEvent> RdmaCm::fetch_event(ChannelNumber channel) {
  auto& events = channels_[channel];
  if (events.empty()) return std::nullopt;
  const RdmaEvent event = events.front();
  events.pop_front();
  if (RdmaId* const counted = ids_.find(event.counted)) ++counted->events_reported;
  if (event.group) {
    if (const auto membership = memberships_.find(*event.group); membership != memberships_.end())
      ++membership->second.events_reported;
  }
  if (event.kind == RdmaEventKind::kConnectRequest) {
    if (RdmaId* const listener = ids_.find(event.counted)) --listener->waiting;
    if (RdmaId* const child = ids_.find(event.id)) child->listener.reset();
  }
  return event;
}

void RdmaCm::close_channel(ChannelNumber channel, Instant now) {
  std::vector<IdNumber> numbers;
  for (const auto& [number, id] : ids_.all()) {
    if (id.channel == channel) numbers.push_back(number);
  }
  for (const IdNumber number : numbers) (void)destroy(number, now);  // a listener's children may be gone already
  channels_.erase(channel);
}

void RdmaCm::destroy_all(Instant now) {
  while (!ids_.all().empty()) (void)destroy(ids_.all().begin()->first, now);
  lookup_.send_final_acks(now);
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
  const std::uint32_t left = take_back(
      id->channel, [number](const RdmaEvent& event) { return event.counted == number; },
      [this, to](const RdmaEvent& event) { queue(to, event); });
  id->channel = to;
  for (auto& [other, child] : ids_.all()) {
    if (child.listener == number) child.channel = to;
  }
  return id->events_reported + left;
}

void RdmaCm::queue(ChannelNumber channel, const RdmaEvent& event) {
  channels_[channel].push_back(event);
  channels_[channel].back().since = heard_;
  host_.event_added(channel);
}

bool RdmaCm::has_fresh_event(IdNumber number, Instant now) {
  constexpr Duration kFresh = 1_ms;
  const RdmaId* const id = ids_.find(number);
  if (id == nullptr) return false;
  const auto& events = channels_[id->channel];
  return std::any_of(events.begin(), events.end(),
                     [&](const RdmaEvent& event) { return event.counted == number && now - event.since < kFresh; });
}

// The program does not know a child that it has not accepted: there are no events of it.
void RdmaCm::notify(const RdmaId& id, RdmaEventKind kind, std::int32_t status) {
  if (id.state == IdState::kRequested) return;
  queue(id.channel, {.kind = kind, .id = id.number, .user = id.user, .counted = id.number, .status = status});
}

Status RdmaCm::write_event(IdNumber number, RdmaEventKind kind, std::int32_t status, std::uint64_t argument) {
  const RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (kind != RdmaEventKind::kUser && kind != RdmaEventKind::kInternal) return Status{EINVAL};
  if (id->state == IdState::kRequested) return Status{EINVAL};
  queue(id->channel,
        {.kind = kind, .id = number, .user = id->user, .counted = number, .status = status, .argument = argument});
  return Status::success();
}

void RdmaCm::addresses_changed(std::uint64_t device_guid) {
  for (auto& [number, id] : ids_.all()) {
    if (!id.device || id.device->guid != device_guid) continue;
    const bool lost = !host_.device_of(id.local.address, id.local.scope);
    if (lost && !id.address_lost) notify(id, RdmaEventKind::kAddressChange);
    id.address_lost = lost;
  }
}

void RdmaCm::device_removed(std::uint64_t device_guid) {
  for (auto& [number, id] : ids_.all()) {
    if (!id.device || id.device->guid != device_guid || std::exchange(id.device_lost, true)) continue;
    notify(id, RdmaEventKind::kDeviceRemoval);
  }
}

RdmaId* RdmaCm::id_of(CommId connection) {
  const auto found = by_connection_.find(connection);
  return found == by_connection_.end() ? nullptr : ids_.find(found->second);
}

// A listener on this very address, else on all.
RdmaId* RdmaCm::listener_for(std::uint64_t service_id, const Endpoints& endpoints) {
  const SocketAddress destination{endpoints.local};
  RdmaId* any = nullptr;
  const auto [first, last] = listening_.equal_range(service_id);
  for (auto entry = first; entry != last; ++entry) {
    RdmaId& id = *ids_.find(entry->second);
    if (id.local.address == destination.address) {
      if (!destination.is_link_local() || id.local.scope == endpoints.scope) return &id;
      continue;  // its address is on another link
    }
    const bool same_kind = id.local.address.is_v4() == destination.address.is_v4();
    if (id.local.is_any() && (same_kind || (!id.local.address.is_v4() && !id.port_options.ipv6_only))) any = &id;
  }
  return any;
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

void RdmaCm::on_request(const Event& event, Instant now) {
  const auto& req = std::get<wire::CmReq>(event.message);
  const auto made = make_child(event.endpoints, req.service_id, req.private_data.data());
  if (!made) {
    const std::uint16_t reason = made.reason() == Refusal::kBadAddress ? wire::reject::kConsumer
                                 : made.reason() == Refusal::kNobody   ? wire::reject::kInvalidServiceId
                                                                       : wire::reject::kNoResources;
    (void)agent_.reject(event.id, reason, {}, now);
    return;
  }
  RdmaId* const child = made.value();
  agent_.taken(event.id);
  child->connection = event.id;
  child->receive_psn = Psn{static_cast<std::uint32_t>(random_.next())};
  child->send_psn = req.first_psn;
  child->remote_qpn = req.qpn;
  child->path_mtu = std::min(child->device->mtu, static_cast<PathMtu>(req.path_mtu_code));
  // Until accept() sets it: the program may make its queue pair ready before.
  child->responder_resources = req.initiator_depth;
  child->initiator_depth = req.responder_resources;
  child->retry_count = req.retry_count;
  child->rnr_retry_count = req.rnr_retry_count;
  child->traffic_class = req.path.traffic_class;
  if (req.path.ack_timeout != 0) child->ack_timeout = req.path.ack_timeout;  // the peer knows the path
  by_connection_[event.id] = child->number;
  queue_request(*child, {.parameters = parameters_of(req), .ece = req.ece});
}

Result<RdmaId*, RdmaCm::Refusal> RdmaCm::make_child(const Endpoints& endpoints, std::uint64_t service_id,
                                                    const std::byte* cm_address) {
  const auto address = wire::parse_cm_address(cm_address);
  if (!address || address->destination != endpoints.local) return Refusal::kBadAddress;
  RdmaId* const listener = listener_for(service_id, endpoints);
  const auto device = host_.device_of(endpoints.local, endpoints.scope);
  if (listener == nullptr || !device) return Refusal::kNobody;
  if (listener->waiting >= listener->backlog) return Refusal::kNoRoom;
  RdmaId* const child = ids_.add();
  if (child == nullptr) return Refusal::kNoRoom;
  child->channel = listener->channel;
  child->space = listener->space;
  child->type = listener->type;
  child->state = IdState::kRequested;
  child->local = {endpoints.local, static_cast<std::uint16_t>(service_id)};
  child->remote = {address->source, address->source_port};
  for (SocketAddress* const end : {&child->local, &child->remote}) {
    if (end->is_link_local()) end->scope = endpoints.scope;
  }
  child->device = device;
  child->ack_timeout = ack_timeout_;
  child->listener = listener->number;
  return child;
}

// Reports the new child to the listener.
void RdmaCm::queue_request(const RdmaId& child, RdmaEvent event) {
  RdmaId& listener = *ids_.find(*child.listener);
  ++listener.waiting;
  event.kind = RdmaEventKind::kConnectRequest;
  event.id = child.number;
  event.user = listener.user;
  event.counted = listener.number;
  queue(listener.channel, event);
}

void RdmaCm::on_reply(RdmaId& id, const wire::CmRep& rep) {
  id.remote_qpn = rep.qpn;
  id.send_psn = rep.first_psn;
  id.responder_resources = rep.initiator_depth;
  id.initiator_depth = rep.responder_resources;
  id.rnr_retry_count = rep.rnr_retry_count;
  id.state = IdState::kResponded;
  queue(id.channel, {.kind = RdmaEventKind::kConnectResponse,
                     .id = id.number,
                     .user = id.user,
                     .counted = id.number,
                     .parameters = parameters_of(rep),
                     .ece = rep.ece});
}

void RdmaCm::take_events(Instant now) {
  heard_ = now;
  take_lookup_events(now);
  while (const auto event = agent_.poll_event()) {
    if (event->kind == Event::Kind::kRequest) {
      on_request(*event, now);
      continue;
    }
    RdmaId* const id = id_of(event->id);
    if (id == nullptr) continue;
    switch (event->kind) {
      case Event::Kind::kReply:
        on_reply(*id, std::get<wire::CmRep>(event->message));
        break;
      case Event::Kind::kReady:
        id->state = IdState::kConnected;
        notify(*id, RdmaEventKind::kEstablished);
        break;
      case Event::Kind::kRejected: {
        const auto& rej = std::get<wire::CmRej>(event->message);
        RdmaEvent rejected{.kind = RdmaEventKind::kRejected,
                           .id = id->number,
                           .user = id->user,
                           .counted = id->number,
                           .status = rej.reason};
        rejected.parameters.private_data_length = static_cast<std::uint8_t>(rej.private_data.size());
        std::copy(rej.private_data.begin(), rej.private_data.end(), rejected.parameters.private_data.begin());
        if (id->state != IdState::kRequested) queue(id->channel, rejected);
        id->state = IdState::kDisconnected;
        by_connection_.erase(event->id);
        id->connection.reset();
        break;
      }
      case Event::Kind::kUnreachable:
        notify(*id, id->state == IdState::kConnecting ? RdmaEventKind::kUnreachable : RdmaEventKind::kConnectError,
               -ETIMEDOUT);
        id->state = IdState::kDisconnected;
        by_connection_.erase(event->id);
        id->connection.reset();
        break;
      case Event::Kind::kDisconnected:
        notify(*id, RdmaEventKind::kDisconnected);
        id->state = IdState::kDisconnected;
        break;
      case Event::Kind::kTimeWaitExit:
        notify(*id, RdmaEventKind::kTimeWaitExit);
        by_connection_.erase(event->id);
        id->connection.reset();
        break;
      case Event::Kind::kRequest:
        break;
    }
  }
}

}  // namespace brdma::cm
