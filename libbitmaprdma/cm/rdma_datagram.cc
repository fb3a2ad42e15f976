// Datagram services (RDMA_PS_UDP, RDMA_PS_IB with UD): no connection is made. A sender asks for the queue pair of a
// port (cm/lookup.h) and gets its number, its Q_Key and its address; the other side accepts or refuses the request.
#include <algorithm>
#include <cerrno>

#include "cm/rdma_cm.h"

namespace brdma::cm {

Status RdmaCm::ask(RdmaId& id, const ConnectParameters& parameters, Instant now) {
  wire::CmSidrReq req;
  if (parameters.private_data_length > req.private_data.size() - wire::kCmAddressSize) return Status{EINVAL};
  req.service_id = wire::service_id(id.space, id.remote.port);
  wire::emit_cm_address({id.local.port, id.local.address, id.remote.address}, req.private_data.data());
  std::copy_n(parameters.private_data.begin(), parameters.private_data_length,
              req.private_data.begin() + wire::kCmAddressSize);
  const auto question = lookup_.ask(endpoints_of(id), req, now);
  if (!question) return question.reason();
  id.connection = question.value();
  by_question_[question.value()] = id.number;
  id.state = IdState::kConnecting;
  return Status::success();
}

Status RdmaCm::answer(RdmaId& id, const ConnectParameters& parameters, Instant now) {
  wire::CmSidrRep rep{.status = sidr_status::kValid, .qpn = parameters.qpn, .qkey = kDatagramQkey};
  if (parameters.private_data_length > rep.private_data.size()) return Status{EINVAL};
  std::copy_n(parameters.private_data.begin(), parameters.private_data_length, rep.private_data.begin());
  const Status answered = lookup_.answer(*id.connection, rep, now);
  if (!answered.ok()) return answered;
  by_question_.erase(*id.connection);
  id.connection.reset();
  id.state = IdState::kConnected;
  return Status::success();
}

Status RdmaCm::refuse(RdmaId& id, ConstBytes private_data, Instant now) {
  wire::CmSidrRep rep{.status = sidr_status::kRejected};
  if (private_data.size() > rep.private_data.size()) return Status{EINVAL};
  std::copy(private_data.begin(), private_data.end(), rep.private_data.begin());
  const Status refused = lookup_.answer(*id.connection, rep, now);
  if (!refused.ok()) return refused;
  by_question_.erase(*id.connection);
  id.connection.reset();
  id.state = IdState::kDisconnected;
  return Status::success();
}

void RdmaCm::on_question(const LookupEvent& event, Instant now) {
  const auto& req = std::get<wire::CmSidrReq>(event.message);
  const auto made = make_child(event.endpoints, req.service_id, req.private_data.data());
  if (!made) {
    if (made.reason() == Refusal::kNoRoom) return lookup_.destroy(event.id, now);
    (void)lookup_.answer(event.id, {.status = sidr_status::kUnsupported}, now);
    return;
  }
  RdmaId* const child = made.value();
  child->connection = event.id;
  by_question_[event.id] = child->number;
  RdmaEvent request;
  request.datagram.emplace();
  request.parameters.private_data_length = static_cast<std::uint8_t>(req.private_data.size() - wire::kCmAddressSize);
  std::copy(req.private_data.begin() + wire::kCmAddressSize, req.private_data.end(),
            request.parameters.private_data.begin());
  queue_request(*child, request);
}

// As in the kernel: a refusal is reported as "unreachable", with the answer's status.
void RdmaCm::on_answer(const LookupEvent& event) {
  const auto entry = by_question_.find(event.id);
  if (entry == by_question_.end()) return;
  RdmaId& id = *ids_.find(entry->second);
  by_question_.erase(entry);
  id.connection.reset();
  RdmaEvent notice{.kind = RdmaEventKind::kUnreachable,
                   .id = id.number,
                   .user = id.user,
                   .counted = id.number,
                   .status = -ETIMEDOUT};
  notice.datagram.emplace();
  id.state = IdState::kDisconnected;
  if (const auto* rep = std::get_if<wire::CmSidrRep>(&event.message)) {
    notice.status = rep->status;
    notice.parameters.private_data_length = static_cast<std::uint8_t>(rep->private_data.size());
    std::copy(rep->private_data.begin(), rep->private_data.end(), notice.parameters.private_data.begin());
    if (rep->status == sidr_status::kValid) {
      notice.kind = RdmaEventKind::kEstablished;
      notice.datagram = DatagramDestination{.qpn = rep->qpn,
                                            .qkey = rep->qkey,
                                            .address = id.remote.address,
                                            .sgid_index = id.device->sgid_index,
                                            .traffic_class = id.traffic_class};
      id.state = IdState::kConnected;
    }
  }
  queue(id.channel, notice);
}

void RdmaCm::take_lookup_events(Instant now) {
  while (const auto event = lookup_.poll_event()) {
    if (event->kind == LookupEvent::Kind::kRequest) {
      on_question(*event, now);
    } else {
      on_answer(*event);
    }
  }
}

// librdmacm itself makes the further transitions of a datagram queue pair.
Result<QueuePairSetting, Status> RdmaCm::datagram_setting(QpState state) {
  QueuePairSetting setting;
  setting.attributes.state = state;
  setting.attributes.qkey = kDatagramQkey;
  switch (state) {
    case QpState::kInit:
      setting.mask = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrQkey;
      return setting;
    case QpState::kRtr:
      setting.mask = kQpAttrState;
      return setting;
    case QpState::kRts:
      setting.mask = kQpAttrState | kQpAttrSqPsn;
      return setting;
    default:
      return Status{EINVAL};
  }
}

}  // namespace brdma::cm
