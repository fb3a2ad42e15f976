#include "cm/agent.h"

#include <algorithm>
#include <cerrno>

namespace brdma::cm {
namespace {

constexpr std::uint8_t kResponseTimeout = 20;  // our worst response time, as stated to peers: 4.3 s
constexpr std::uint8_t kCmRetries = 15;

bool ends_quietly(ConnectionState state) {
  return state == ConnectionState::kRejected || state == ConnectionState::kTimeWait;
}

wire::CmRej rejection_of(const Connection& connection, std::uint16_t reason) {
  wire::CmRej rej{.local_comm_id = connection.id, .remote_comm_id = connection.remote_id, .reason = reason};
  if (connection.state == ConnectionState::kRepReceived) rej.answered = wire::CmAnswered::kRep;
  if (connection.state == ConnectionState::kReqSent || connection.state == ConnectionState::kRepSent)
    rej.answered = wire::CmAnswered::kOther;
  if (connection.state == ConnectionState::kReqSent) {  // the peer's id is unknown: it finds the request by our GUID
    rej.information_length = sizeof connection.local_guid;
    store_be64(rej.information.data(), connection.local_guid);
  }
  return rej;
}

}  // namespace

Agent::Agent(const Config& config, Outbox& outbox)
    : config_(config),
      outbox_(outbox),
      random_(config.seed, "connection manager"),
      table_(config.id_prefix, config.connections_max, random_) {}

Status Agent::listen(std::uint64_t service_id, std::uint32_t backlog, std::uint8_t transport) {
  return listeners_.listen(service_id, backlog, transport);
}

void Agent::taken(CommId id) {
  if (Connection* const connection = table_.find(id)) listeners_.leave(*connection);
}

Result<CommId, Status> Agent::connect(const Endpoints& endpoints, wire::CmReq req, Instant now) {
  Connection* const connection = table_.add(endpoints);
  if (connection == nullptr) return Status{ENOMEM};
  connection->state = ConnectionState::kReqSent;
  connection->transaction = random_.next();
  connection->local_qpn = req.qpn;
  connection->local_guid = req.ca_guid;
  req.local_comm_id = connection->id;
  req.path.local_gid = endpoints.local;
  req.path.remote_gid = endpoints.remote;
  req.remote_response_timeout = req.local_response_timeout = kResponseTimeout;
  req.cm_retries = kCmRetries;
  resender_.send(*connection, req, now);
  return connection->id;
}

Status Agent::ready(CommId id) {
  Connection* const connection = table_.find(id);
  if (connection == nullptr) return Status{ENOENT};
  if (connection->state != ConnectionState::kRepReceived) return Status{EINVAL};
  connection->state = ConnectionState::kEstablished;
  table_.set_deadline(*connection, std::nullopt);
  send(*connection, wire::CmRtu{.local_comm_id = id, .remote_comm_id = connection->remote_id});
  return Status::success();
}

Status Agent::accept(CommId id, wire::CmRep rep, Instant now) {
  Connection* const connection = table_.find(id);
  if (connection == nullptr) return Status{ENOENT};
  if (connection->state != ConnectionState::kReqReceived) return Status{EINVAL};
  listeners_.leave(*connection);
  connection->state = ConnectionState::kRepSent;
  connection->local_qpn = rep.queue_pair();
  rep.local_comm_id = id;
  rep.remote_comm_id = connection->remote_id;
  resender_.send(*connection, rep, now);
  return Status::success();
}

Status Agent::reject(CommId id, std::uint16_t reason, ConstBytes private_data, Instant now) {
  Connection* const connection = table_.find(id);
  if (connection == nullptr) return Status{ENOENT};
  if (connection->state != ConnectionState::kReqReceived && connection->state != ConnectionState::kRepReceived)
    return Status{EINVAL};
  if (private_data.size() > wire::CmRej{}.private_data.size()) return Status{EINVAL};
  send_rejection(*connection, reason, private_data, now);
  return Status::success();
}

Status Agent::established(CommId id) {
  Connection* const connection = table_.find(id);
  if (connection == nullptr) return Status{ENOENT};
  if (connection->state != ConnectionState::kRepSent) return Status{EINVAL};
  connection->state = ConnectionState::kEstablished;
  table_.set_deadline(*connection, std::nullopt);
  events_.notify(*connection, Event::Kind::kReady);
  return Status::success();
}

Status Agent::disconnect(CommId id, Instant now) {
  Connection* const connection = table_.find(id);
  if (connection == nullptr) return Status{ENOENT};
  switch (connection->state) {
    case ConnectionState::kEstablished:
    case ConnectionState::kRepSent:  // the peer's queue pair may be ready already
      begin_disconnect(*connection, now);
      return Status::success();
    case ConnectionState::kDreqSent:
    case ConnectionState::kTimeWait:  // the peer was faster: nothing is left to do
      return Status::success();
    default:
      return Status{EINVAL};
  }
}

void Agent::destroy(CommId id, Instant now) {
  Connection* const connection = table_.find(id);
  if (connection == nullptr) return;
  connection->owned = false;
  events_.forget(id);
  switch (connection->state) {
    case ConnectionState::kReqSent:
      return send_rejection(*connection, wire::reject::kTimeout, {}, now);
    case ConnectionState::kReqReceived:
    case ConnectionState::kRepReceived:
      return send_rejection(*connection, wire::reject::kConsumer, {}, now);
    case ConnectionState::kRepSent:
    case ConnectionState::kEstablished:
      return begin_disconnect(*connection, now);
    case ConnectionState::kDreqSent:
    case ConnectionState::kRejected:
    case ConnectionState::kTimeWait:
      return;
  }
}

void Agent::handle_timeout(Instant now) {
  while (Connection* const connection = table_.take_due(now)) {
    if (ends_quietly(connection->state)) {
      end(*connection, Event::Kind::kTimeWaitExit);
    } else if (!resender_.send_again(*connection, now)) {
      give_up(*connection, now);
    }
  }
}

void Agent::give_up(Connection& connection, Instant now) {
  ++counters_.timeouts;
  if (connection.state == ConnectionState::kDreqSent) {  // disconnected, as requested
    events_.notify(connection, Event::Kind::kDisconnected);
    return begin_time_wait(connection, now);
  }
  if (connection.state == ConnectionState::kRepSent) ++counters_.half_open;
  // The peer may exist all the same, and regard the connection as established, now or later.
  send(connection, rejection_of(connection, wire::reject::kTimeout));
  end(connection, Event::Kind::kUnreachable);
}

std::optional<ConnectionState> Agent::state(CommId id) {
  const Connection* const connection = table_.find(id);
  if (connection == nullptr) return std::nullopt;
  return connection->state;
}

void Agent::send(const Connection& connection, const wire::CmMessage& message) {
  outbox_.push(connection.endpoints, wire::CmMad{.transaction = connection.transaction, .message = message});
}

// A passive side repeats it for a repeated REQ, for a while; an active one has nothing to wait for.
void Agent::send_rejection(Connection& connection, std::uint16_t reason, ConstBytes private_data, Instant now) {
  wire::CmRej rej = rejection_of(connection, reason);
  std::copy(private_data.begin(), private_data.end(), rej.private_data.begin());
  wire::emit_cm({.transaction = connection.transaction, .message = rej}, connection.last_sent);
  outbox_.push(connection.endpoints, connection.last_sent);
  listeners_.leave(connection);
  connection.owned = false;
  connection.state = ConnectionState::kRejected;
  table_.set_deadline(connection, now + config_.time_wait);
}

void Agent::begin_disconnect(Connection& connection, Instant now) {
  connection.state = ConnectionState::kDreqSent;
  const wire::CmDreq dreq{
      .local_comm_id = connection.id, .remote_comm_id = connection.remote_id, .remote_qpn = connection.remote_qpn};
  resender_.send(connection, dreq, now);
}

void Agent::begin_time_wait(Connection& connection, Instant now) {
  connection.state = ConnectionState::kTimeWait;
  table_.set_deadline(connection, now + config_.time_wait);
}

void Agent::end(Connection& connection, Event::Kind kind) {
  events_.notify(connection, kind);
  listeners_.leave(connection);
  table_.remove(connection);
}

}  // namespace brdma::cm
