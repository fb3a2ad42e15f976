// Handling of the peers' messages.
#include "cm/agent.h"

namespace brdma::cm {
namespace {

bool is_established(ConnectionState state) {
  return state == ConnectionState::kEstablished || state == ConnectionState::kRepSent;
}
// Waits for the peer's answer: a MRA or REJ may come.
bool awaits_answer(ConnectionState state) {
  return state == ConnectionState::kReqSent || state == ConnectionState::kRepSent;
}

}  // namespace

void Agent::handle(const Endpoints& endpoints, const wire::CmMad& mad, Instant now) {
  const Received from{endpoints, mad.transaction, now};
  std::visit([&](const auto& message) { on(from, message); }, mad.message);
}

std::optional<std::uint16_t> Agent::refusal(const wire::CmReq& req) {
  switch (listeners_.admission(req.service_id, req.transport)) {
    case Listeners::Admission::kAdmitted:
      return std::nullopt;
    case Listeners::Admission::kNobody:
      return wire::reject::kInvalidServiceId;
    case Listeners::Admission::kOtherTransport:
      // IBTA has a reason of its own (9); Linux uses the reason of an application that refuses.
      return wire::reject::kConsumer;
    case Listeners::Admission::kBacklogFull:
      break;
  }
  ++counters_.backlog_full;
  return wire::reject::kNoResources;
}

// A queue pair requests a connection but has one already, as far as we know: its owner has restarted, or the request is
// forged. The peer must try again with another queue pair (IBTA 12.9.8.3.1). This does not end the old connection: our
// REP goes to its peer again, which confirms it, or rejects it as unknown.
void Agent::examine_stale(const Connection& old) {
  if (is_established(old.state) && old.service_id != 0) outbox_.push(old.endpoints, old.last_sent);
}

void Agent::on(const Received& from, const wire::CmReq& req) {
  if (req.path.local_gid != from.endpoints.remote) {  // an answer would go to a host that has not asked
    ++counters_.wrong_address;
    return;
  }
  if (req.local_comm_id == 0) {
    ++counters_.unexpected;
    return;
  }
  Connection* const known = table_.find_remote(from.endpoints.remote, req.local_comm_id);
  if (known != nullptr && known->transaction == from.transaction) return on_repeated(*known);

  std::optional<std::uint16_t> reason = refusal(req);
  if (req.path.remote_gid != from.endpoints.local) reason = wire::reject::kInvalidGid;
  const Connection* const old = table_.find_remote_qp({from.endpoints.remote, req.ca_guid, req.qpn});
  if (!reason && old != nullptr) {
    examine_stale(*old);
    reason = wire::reject::kStaleConnection;
  }
  Connection* const connection = reason ? nullptr : table_.add(from.endpoints);
  if (connection == nullptr) {
    const wire::CmRej rej{.remote_comm_id = req.local_comm_id, .reason = reason.value_or(wire::reject::kNoResources)};
    return outbox_.push(from.endpoints, wire::CmMad{.transaction = from.transaction, .message = rej});
  }
  connection->state = ConnectionState::kReqReceived;
  connection->transaction = from.transaction;
  connection->service_id = req.service_id;
  table_.set_remote_id(*connection, req.local_comm_id);
  table_.set_remote_qp(*connection, req.ca_guid, req.qpn);
  listeners_.enter(*connection);
  ++counters_.requests;
  events_.notify(*connection, Event::Kind::kRequest, req);
}

// The peer has not received our answer, or there is none yet.
void Agent::on_repeated(Connection& connection) {
  ++counters_.duplicates;
  switch (connection.state) {
    case ConnectionState::kReqReceived:
      return send(connection, wire::CmMra{.local_comm_id = connection.id,
                                          .remote_comm_id = connection.remote_id,
                                          .answered = wire::CmAnswered::kReq,
                                          .service_timeout = config_.service_timeout});
    case ConnectionState::kRepSent:
    case ConnectionState::kRejected:
      return outbox_.push(connection.endpoints, connection.last_sent);
    default:
      return;  // it has received the answer since: this one was late
  }
}

void Agent::on(const Received& from, const wire::CmRep& rep) {
  Connection* const connection = demultiplexer_.addressee(from, rep);
  if (connection == nullptr) {  // ends the peer's wait before its timeout
    const wire::CmRej rej{.remote_comm_id = rep.local_comm_id,
                          .answered = wire::CmAnswered::kRep,
                          .reason = wire::reject::kInvalidCommId};
    return outbox_.push(from.endpoints, wire::CmMad{.transaction = from.transaction, .message = rej});
  }
  switch (connection->state) {
    case ConnectionState::kReqSent:
      connection->state = ConnectionState::kRepReceived;
      table_.set_deadline(*connection, std::nullopt);
      table_.set_remote_id(*connection, rep.local_comm_id);
      table_.set_remote_qp(*connection, rep.ca_guid, rep.queue_pair());
      return events_.notify(*connection, Event::Kind::kReply, rep);
    case ConnectionState::kRepReceived:
      ++counters_.duplicates;
      return send(*connection, wire::CmMra{.local_comm_id = connection->id,
                                           .remote_comm_id = connection->remote_id,
                                           .answered = wire::CmAnswered::kRep,
                                           .service_timeout = config_.service_timeout});
    case ConnectionState::kEstablished:
      ++counters_.duplicates;  // our RTU was lost
      return send(*connection, wire::CmRtu{.local_comm_id = connection->id, .remote_comm_id = connection->remote_id});
    case ConnectionState::kRejected:
      ++counters_.duplicates;
      return outbox_.push(connection->endpoints, connection->last_sent);
    default:
      ++counters_.unexpected;
  }
}

void Agent::on(const Received& from, const wire::CmRtu& rtu) {
  Connection* const connection = demultiplexer_.addressee(from, rtu);
  if (connection == nullptr) return;
  if (connection->state == ConnectionState::kRepSent) {
    (void)established(connection->id);
  } else {
    ++counters_.duplicates;
  }
}

void Agent::on(const Received& from, const wire::CmRej& rej) {
  Connection* const connection = demultiplexer_.rejected(from, rej);
  if (connection == nullptr) return;
  switch (connection->state) {
    case ConnectionState::kReqSent:
    case ConnectionState::kRepReceived:
    case ConnectionState::kReqReceived:
    case ConnectionState::kRepSent:
      events_.notify(*connection, Event::Kind::kRejected, rej);
      listeners_.leave(*connection);
      return table_.remove(*connection);
    case ConnectionState::kEstablished:  // our RTU met a peer that had given up
      events_.notify(*connection, Event::Kind::kDisconnected);
      return begin_time_wait(*connection, from.now);
    default:
      ++counters_.unexpected;
  }
}

void Agent::on(const Received& from, const wire::CmMra& mra) {
  Connection* const connection = demultiplexer_.addressee(from, mra);
  if (connection == nullptr) return;
  if (!awaits_answer(connection->state)) {
    ++counters_.unexpected;
    return;
  }
  connection->tries_left = config_.tries - 1;  // the peer is alive, and needs time
  table_.set_deadline(*connection, from.now + wire::cm_timeout(mra.service_timeout) + connection->wait);
}

void Agent::on(const Received& from, const wire::CmDreq& dreq) {
  // Answered in any case, so that the peer need not wait: with the ids from its message, and only to itself.
  const wire::CmDrep drep{.local_comm_id = dreq.remote_comm_id, .remote_comm_id = dreq.local_comm_id};
  Connection* const connection = demultiplexer_.addressee(from, dreq);
  if (connection != nullptr && dreq.remote_qpn != connection->local_qpn) {
    ++counters_.unexpected;
    return;
  }
  outbox_.push(from.endpoints, wire::CmMad{.transaction = from.transaction, .message = drep});
  if (connection == nullptr) return;
  if (is_established(connection->state) || connection->state == ConnectionState::kDreqSent) {
    events_.notify(*connection, Event::Kind::kDisconnected);
    begin_time_wait(*connection, from.now);
  } else {
    ++counters_.duplicates;
  }
}

void Agent::on(const Received& from, const wire::CmDrep& drep) {
  Connection* const connection = demultiplexer_.addressee(from, drep);
  if (connection == nullptr) return;
  if (connection->state != ConnectionState::kDreqSent) {
    ++counters_.duplicates;
    return;
  }
  events_.notify(*connection, Event::Kind::kDisconnected);
  begin_time_wait(*connection, from.now);
}

void Agent::on(const Received& from, const wire::CmLap& lap) {
  if (demultiplexer_.addressee(from, lap) == nullptr) return;
  const wire::CmApr apr{
      .local_comm_id = lap.remote_comm_id, .remote_comm_id = lap.local_comm_id, .status = wire::kAprUnsupported};
  outbox_.push(from.endpoints, wire::CmMad{.transaction = from.transaction, .message = apr});
}

// An answer to a LAP, which we never send; messages about datagram services, which cm/lookup.h handles.
template <class Other>
void Agent::on(const Received&, const Other&) {
  ++counters_.unexpected;
}

}  // namespace brdma::cm
