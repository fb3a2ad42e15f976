#include "cm/rdma/datagram_service.h"

#include <algorithm>
#include <cerrno>

#include "cm/rdma/transport.h"

namespace brdma::cm {

Status DatagramService::ask(RdmaId& id, const ConnectParameters& parameters, Instant now) {
  wire::CmSidrReq req;
  if (parameters.private_data_length > req.private_data.size() - wire::kCmAddressSize) return Status{EINVAL};
  req.service_id = service_of(id, id.remote);
  wire::emit_cm_address({id.local.port, id.local.address, id.remote.address}, req.private_data.data());
  std::copy_n(parameters.private_data.begin(), parameters.private_data_length,
              req.private_data.begin() + wire::kCmAddressSize);
  const auto question = parts_.lookup.ask(endpoints_of(id), req, now);
  if (!question) return question.reason();
  id.connection = question.value();
  by_question_[question.value()] = id.number;
  id.state = IdState::kConnecting;
  return Status::success();
}

Status DatagramService::answer(RdmaId& id, const ConnectParameters& parameters, Instant now) {
  wire::CmSidrRep rep{.status = sidr_status::kValid, .qpn = parameters.qpn, .qkey = kDatagramQkey};
  if (parameters.private_data_length > rep.private_data.size()) return Status{EINVAL};
  std::copy_n(parameters.private_data.begin(), parameters.private_data_length, rep.private_data.begin());
  const Status answered = parts_.lookup.answer(*id.connection, rep, now);
  if (!answered.ok()) return answered;
  finish(id, IdState::kConnected);
  return Status::success();
}

Status DatagramService::refuse(RdmaId& id, ConstBytes private_data, Instant now) {
  wire::CmSidrRep rep{.status = sidr_status::kRejected};
  if (private_data.size() > rep.private_data.size()) return Status{EINVAL};
  std::copy(private_data.begin(), private_data.end(), rep.private_data.begin());
  const Status refused = parts_.lookup.answer(*id.connection, rep, now);
  if (!refused.ok()) return refused;
  finish(id, IdState::kDisconnected);
  return Status::success();
}

void DatagramService::finish(RdmaId& id, IdState state) {
  by_question_.erase(*id.connection);
  id.connection.reset();
  id.state = state;
}

void DatagramService::destroy(const RdmaId& id, Instant now) {
  by_question_.erase(*id.connection);
  parts_.lookup.destroy(*id.connection, now);
}

void DatagramService::on_question(const LookupEvent& event, Instant now) {
  const auto& req = std::get<wire::CmSidrReq>(event.message);
  const auto made = parts_.accept_queue.make_child(event.endpoints, req.service_id, req.private_data.data());
  if (!made) {
    if (made.reason() == AcceptQueue::Refusal::kNoRoom) return parts_.lookup.destroy(event.id, now);
    (void)parts_.lookup.answer(event.id, {.status = sidr_status::kUnsupported}, now);
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
  parts_.accept_queue.push(*child, request);
}

// As in the kernel: a refusal is reported as "unreachable", with the answer's status.
void DatagramService::on_answer(const LookupEvent& event) {
  const auto entry = by_question_.find(event.id);
  if (entry == by_question_.end()) return;
  RdmaId& id = *parts_.ids.find(entry->second);
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
  parts_.channels.queue(id.channel, notice);
}

void DatagramService::take_events(Instant now) {
  while (const auto event = parts_.lookup.poll_event()) {
    if (event->kind == LookupEvent::Kind::kRequest) {
      on_question(*event, now);
    } else {
      on_answer(*event);
    }
  }
}

// librdmacm itself makes the further transitions of a datagram queue pair.
Result<QueuePairSetting, Status> DatagramService::setting(QpState state) {
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
