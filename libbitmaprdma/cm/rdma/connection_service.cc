#include "cm/rdma/connection_service.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "cm/rdma/transport.h"

namespace brdma::cm {
namespace {

constexpr std::size_t kReqDataMax = 92 - wire::kCmAddressSize;

std::uint8_t mtu_code(PathMtu mtu) { return static_cast<std::uint8_t>(mtu); }

template <std::size_t N>
void copy_data(const ConnectParameters& from, std::size_t at, wire::PrivateData<N>& to) {
  std::copy_n(from.private_data.begin(), from.private_data_length, to.begin() + static_cast<std::ptrdiff_t>(at));
}

// What a REQ and a REP have in common, in the program's view: the peer's responder resources are our initiator depth,
// and the other way round. The program's data begin at `data`.
template <class Message>
ConnectParameters common_parameters_of(const Message& message, std::size_t data) {
  ConnectParameters parameters;
  parameters.qpn = message.qpn;
  parameters.responder_resources = message.initiator_depth;
  parameters.initiator_depth = message.responder_resources;
  parameters.flow_control = message.flow_control;
  parameters.rnr_retry_count = message.rnr_retry_count;
  parameters.srq = message.srq;
  parameters.private_data_length = static_cast<std::uint8_t>(message.private_data.size() - data);
  std::copy(message.private_data.begin() + static_cast<std::ptrdiff_t>(data), message.private_data.end(),
            parameters.private_data.begin());
  return parameters;
}

ConnectParameters parameters_of(const wire::CmReq& req) {
  ConnectParameters parameters = common_parameters_of(req, wire::kCmAddressSize);
  parameters.retry_count = req.retry_count;
  return parameters;
}

ConnectParameters parameters_of(const wire::CmRep& rep) {
  ConnectParameters parameters = common_parameters_of(rep, 0);
  parameters.qpn = rep.queue_pair();
  return parameters;
}

}  // namespace

Status ConnectionService::connect(RdmaId& id, const ConnectParameters& parameters, const wire::CmEce& ece,
                                  Instant now) {
  if (parameters.private_data_length > kReqDataMax) return Status{EINVAL};
  wire::CmReq req;
  req.service_id = service_of(id, id.remote);
  req.ca_guid = id.device->guid;
  req.qpn = parameters.qpn;
  req.responder_resources = parameters.responder_resources;
  req.initiator_depth = parameters.initiator_depth;
  req.flow_control = parameters.flow_control != 0;
  req.first_psn = id.receive_psn;
  req.retry_count = parameters.retry_count;
  req.rnr_retry_count = parameters.rnr_retry_count;
  req.transport = transport_of(id);
  req.extended_transport = id.xrc == XrcRole::kNone ? 0 : 1;
  req.path_mtu_code = mtu_code(id.path_mtu);
  req.srq = parameters.srq;
  req.path.ack_timeout = id.ack_timeout;
  req.path.traffic_class = id.traffic_class;
  req.ece = ece;
  wire::emit_cm_address({id.local.port, id.local.address, id.remote.address}, req.private_data.data());
  copy_data(parameters, wire::kCmAddressSize, req.private_data);
  const auto connection = parts_.agent.connect(endpoints_of(id), req, now);
  if (!connection) return connection.reason();
  id.connection = connection.value();
  by_connection_[connection.value()] = id.number;
  id.retry_count = parameters.retry_count;
  id.state = IdState::kConnecting;
  return Status::success();
}

Status ConnectionService::accept(RdmaId& id, const ConnectParameters& parameters, const wire::CmEce& ece, Instant now) {
  if (parameters.private_data_length > wire::CmRep{}.private_data.size()) return Status{EINVAL};
  wire::CmRep rep;
  rep.ca_guid = id.device->guid;
  rep.qpn = parameters.qpn;
  rep.first_psn = id.receive_psn;
  rep.responder_resources = parameters.responder_resources;
  rep.initiator_depth = parameters.initiator_depth;
  rep.flow_control = parameters.flow_control != 0;
  rep.rnr_retry_count = parameters.rnr_retry_count;
  rep.srq = parameters.srq;
  if (id.xrc == XrcRole::kTarget) {  // it sends no requests
    rep.eecn = std::exchange(rep.qpn, 0);
    rep.srq = true;
    rep.initiator_depth = 0;
    rep.flow_control = false;
  }
  rep.ece = ece;
  copy_data(parameters, 0, rep.private_data);
  if (const Status accepted = parts_.agent.accept(*id.connection, rep, now); !accepted.ok()) return accepted;
  id.responder_resources = parameters.responder_resources;
  id.initiator_depth = parameters.initiator_depth;
  id.state = IdState::kAccepted;
  return Status::success();
}

Status ConnectionService::confirm(RdmaId& id) {
  if (id.state != IdState::kResponded) return Status{EINVAL};
  if (const Status ready = parts_.agent.ready(*id.connection); !ready.ok()) return ready;
  id.state = IdState::kConnected;
  return Status::success();
}

Status ConnectionService::reject(RdmaId& id, std::uint8_t reason, ConstBytes private_data, Instant now) {
  const Status rejected =
      parts_.agent.reject(*id.connection, reason == 0 ? wire::reject::kConsumer : reason, private_data, now);
  if (!rejected.ok()) return rejected;
  forget_connection(id);
  id.state = IdState::kDisconnected;
  return Status::success();
}

Status ConnectionService::established(const RdmaId& id) {
  const Status status = parts_.agent.established(*id.connection);
  return is_connected(id) && !status.ok() ? Status{EISCONN} : status;
}

bool ConnectionService::is_connected(const RdmaId& id) {
  return parts_.agent.state(*id.connection) == ConnectionState::kEstablished;
}

void ConnectionService::destroy(const RdmaId& id, Instant now) {
  by_connection_.erase(*id.connection);
  parts_.agent.destroy(*id.connection, now);
}

Result<QueuePairSetting, Status> ConnectionService::setting(const RdmaId& id, QpState state) {
  QueuePairSetting setting;
  QpAttributes& qp = setting.attributes;
  qp.state = state;
  switch (state) {
    case QpState::kInit:
      setting.mask = kQpAttrState | kQpAttrAccess | kQpAttrPkeyIndex | kQpAttrPort;
      qp.access = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
      return setting;
    case QpState::kRtr:
      if (id.remote_qpn == 0) return Status{EINVAL};  // no request or reply yet
      setting.mask = kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrRqPsn | kQpAttrDestQpn;
      if (id.type == QpType::kRc && id.xrc != XrcRole::kInitiator)
        setting.mask |= kQpAttrMinRnrTimer | kQpAttrMaxDestRdAtomic;
      qp.path_mtu = id.path_mtu;
      qp.receive_psn = id.receive_psn;
      qp.destination_qpn = id.remote_qpn;
      qp.max_dest_rd_atomic = id.responder_resources;
      qp.sgid_index = id.device->sgid_index;
      qp.local_address = id.local.address;
      qp.peer_address = id.remote.address;
      qp.traffic_class = id.traffic_class;
      return setting;
    case QpState::kRts:
      if (id.remote_qpn == 0) return Status{EINVAL};
      setting.mask = kQpAttrState | kQpAttrSqPsn;
      if (id.type == QpType::kRc) setting.mask |= kQpAttrTimeout;
      if (id.type == QpType::kRc && id.xrc != XrcRole::kTarget)
        setting.mask |= kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrMaxRdAtomic;
      qp.timeout = id.ack_timeout;
      qp.retry_count = id.retry_count;
      qp.rnr_retry = id.rnr_retry_count;
      qp.send_psn = id.send_psn;
      qp.max_rd_atomic = id.initiator_depth;
      return setting;
    default:
      return Status{EINVAL};
  }
}

RdmaId* ConnectionService::id_of(CommId connection) {
  const auto found = by_connection_.find(connection);
  return found == by_connection_.end() ? nullptr : parts_.ids.find(found->second);
}

void ConnectionService::forget_connection(RdmaId& id) {
  by_connection_.erase(*id.connection);
  id.connection.reset();
}

void ConnectionService::on_request(const Event& event, Instant now) {
  const auto& req = std::get<wire::CmReq>(event.message);
  const auto made = parts_.accept_queue.make_child(event.endpoints, req.service_id, req.private_data.data());
  if (!made) {
    const std::uint16_t reason = made.reason() == AcceptQueue::Refusal::kBadAddress ? wire::reject::kConsumer
                                 : made.reason() == AcceptQueue::Refusal::kNobody   ? wire::reject::kInvalidServiceId
                                                                                    : wire::reject::kNoResources;
    (void)parts_.agent.reject(event.id, reason, {}, now);
    return;
  }
  RdmaId* const child = made.value();
  parts_.agent.taken(event.id);
  child->connection = event.id;
  child->receive_psn = Psn{static_cast<std::uint32_t>(parts_.random.next())};
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
  parts_.accept_queue.push(*child, {.parameters = parameters_of(req), .ece = req.ece});
}

void ConnectionService::on_reply(RdmaId& id, const wire::CmRep& rep) {
  id.remote_qpn = rep.queue_pair();
  id.send_psn = rep.first_psn;
  id.responder_resources = rep.initiator_depth;
  id.initiator_depth = rep.responder_resources;
  id.rnr_retry_count = rep.rnr_retry_count;
  id.state = IdState::kResponded;
  parts_.channels.queue(id.channel, {.kind = RdmaEventKind::kConnectResponse,
                                     .id = id.number,
                                     .user = id.user,
                                     .counted = id.number,
                                     .parameters = parameters_of(rep),
                                     .ece = rep.ece});
}

void ConnectionService::on_rejected(RdmaId& id, const wire::CmRej& rej) {
  RdmaEvent rejected{
      .kind = RdmaEventKind::kRejected, .id = id.number, .user = id.user, .counted = id.number, .status = rej.reason};
  rejected.parameters.private_data_length = static_cast<std::uint8_t>(rej.private_data.size());
  std::copy(rej.private_data.begin(), rej.private_data.end(), rejected.parameters.private_data.begin());
  if (id.state != IdState::kRequested) parts_.channels.queue(id.channel, rejected);
  id.state = IdState::kDisconnected;
  forget_connection(id);
}

void ConnectionService::on_unreachable(RdmaId& id) {
  const bool asked = id.state == IdState::kConnecting;
  parts_.channels.notify(id, asked ? RdmaEventKind::kUnreachable : RdmaEventKind::kConnectError, -ETIMEDOUT);
  id.state = IdState::kDisconnected;
  forget_connection(id);
}

void ConnectionService::on_event(RdmaId& id, const Event& event) {
  switch (event.kind) {
    case Event::Kind::kReply:
      return on_reply(id, std::get<wire::CmRep>(event.message));
    case Event::Kind::kReady:
      id.state = IdState::kConnected;
      return parts_.channels.notify(id, RdmaEventKind::kEstablished);
    case Event::Kind::kRejected:
      return on_rejected(id, std::get<wire::CmRej>(event.message));
    case Event::Kind::kUnreachable:
      return on_unreachable(id);
    case Event::Kind::kDisconnected:
      parts_.channels.notify(id, RdmaEventKind::kDisconnected);
      id.state = IdState::kDisconnected;
      return;
    case Event::Kind::kTimeWaitExit:
      parts_.channels.notify(id, RdmaEventKind::kTimeWaitExit);
      return forget_connection(id);
    case Event::Kind::kRequest:
      return;
  }
}

void ConnectionService::take_events(Instant now) {
  while (const auto event = parts_.agent.poll_event()) {
    if (event->kind == Event::Kind::kRequest) {
      on_request(*event, now);
    } else if (RdmaId* const id = id_of(event->id)) {
      on_event(*id, *event);
    }
  }
}

}  // namespace brdma::cm
