// What the connection manager's events become for the program, and the queues they wait in.
#include <algorithm>
#include <cerrno>
#include <vector>

#include "cm/rdma_cm.h"

namespace brdma::cm {
namespace {

// As programs see it: what the peer offers to answer is what we may ask for, and the other way round.
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
}

Result<std::uint32_t, Status> RdmaCm::migrate(IdNumber number, ChannelNumber to) {
  RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (id->channel == to) return id->events_reported;
  auto& old = channels_[id->channel];
  std::uint32_t moved = 0;
  for (auto event = old.begin(); event != old.end();) {
    if (event->counted != number) {
      ++event;
      continue;
    }
    queue(to, *event);
    event = old.erase(event);
    ++moved;
  }
  if (moved != 0) host_.events_removed(id->channel, moved);
  id->channel = to;
  for (auto& [other, child] : ids_.all()) {
    if (child.listener == number) child.channel = to;
  }
  return id->events_reported;
}

void RdmaCm::queue(ChannelNumber channel, const RdmaEvent& event) {
  channels_[channel].push_back(event);
  host_.event_added(channel);
}

// A child that the program has not accepted is unknown to it: nothing can be told of it.
void RdmaCm::tell(const RdmaId& id, RdmaEventKind kind, std::int32_t status) {
  if (id.state == IdState::kRequested) return;
  queue(id.channel, {.kind = kind, .id = id.number, .user = id.user, .counted = id.number, .status = status});
}

RdmaId* RdmaCm::id_of(CommId connection) {
  const auto found = by_connection_.find(connection);
  return found == by_connection_.end() ? nullptr : ids_.find(found->second);
}

// One that listens on this very address, else on all.
RdmaId* RdmaCm::listener_for(const SocketAddress& destination) {
  RdmaId* any = nullptr;
  const auto [first, last] = listening_.equal_range(destination.port);
  for (auto entry = first; entry != last; ++entry) {
    RdmaId& id = *ids_.find(entry->second);
    if (id.local.address == destination.address) return &id;
    const bool same_kind = id.local.address.is_v4() == destination.address.is_v4();
    if (id.local.is_any() && (same_kind || (!id.local.address.is_v4() && !id.port_options.ipv6_only))) any = &id;
  }
  return any;
}

// Whoever passes MADs on has parsed them, and counted those that are none.
void RdmaCm::handle_mad(const Endpoints& endpoints, wire::MadBytes bytes, Instant now) {
  if (const auto mad = wire::parse_cm(bytes)) agent_.handle(endpoints, *mad, now);
  take_events(now);
}

void RdmaCm::handle_timeout(Instant now) {
  agent_.handle_timeout(now);
  take_events(now);
}

void RdmaCm::on_request(const Event& event, Instant now) {
  const auto& req = std::get<wire::CmReq>(event.message);
  const auto address = wire::parse_cm_address(req.private_data.data());
  const auto refuse = [&](std::uint16_t reason) { (void)agent_.reject(event.id, reason, {}, now); };
  if (!address || address->destination != event.endpoints.local) return refuse(wire::reject::kConsumer);
  const auto port = static_cast<std::uint16_t>(req.service_id);
  RdmaId* const listener = listener_for({address->destination, port});
  const auto device = host_.device_of(event.endpoints.local);
  if (listener == nullptr || !device) return refuse(wire::reject::kInvalidServiceId);
  if (listener->waiting >= listener->backlog) return refuse(wire::reject::kNoResources);
  const IdNumber listener_number = listener->number;
  RdmaId* const child = ids_.add();
  if (child == nullptr) return refuse(wire::reject::kNoResources);
  agent_.taken(event.id);
  child->channel = listener->channel;
  child->state = IdState::kRequested;
  child->local = {event.endpoints.local, port};
  child->remote = {address->source, address->source_port};
  child->device = device;
  child->connection = event.id;
  child->listener = listener_number;
  child->receive_psn = Psn{static_cast<std::uint32_t>(random_.next())};
  child->send_psn = req.first_psn;
  child->remote_qpn = req.qpn;
  child->path_mtu = std::min(device->mtu, static_cast<PathMtu>(req.path_mtu_code));
  child->retry_count = req.retry_count;
  child->rnr_retry_count = req.rnr_retry_count;
  child->traffic_class = req.path.traffic_class;
  by_connection_[event.id] = child->number;
  ++listener->waiting;
  queue(listener->channel, {.kind = RdmaEventKind::kConnectRequest,
                            .id = child->number,
                            .user = listener->user,
                            .counted = listener_number,
                            .parameters = parameters_of(req),
                            .ece = req.ece});
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
        tell(*id, RdmaEventKind::kEstablished);
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
        tell(*id, id->state == IdState::kConnecting ? RdmaEventKind::kUnreachable : RdmaEventKind::kConnectError,
             -ETIMEDOUT);
        id->state = IdState::kDisconnected;
        by_connection_.erase(event->id);
        id->connection.reset();
        break;
      case Event::Kind::kDisconnected:
        tell(*id, RdmaEventKind::kDisconnected);
        id->state = IdState::kDisconnected;
        break;
      case Event::Kind::kTimeWaitExit:
        tell(*id, RdmaEventKind::kTimeWaitExit);
        by_connection_.erase(event->id);
        id->connection.reset();
        break;
      case Event::Kind::kRequest:
        break;
    }
  }
}

}  // namespace brdma::cm
