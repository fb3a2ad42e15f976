#include "cm/connection.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::cm {
namespace {

constexpr std::size_t kIdsMax =
    0xF000;  // of the low 16 bits of an id, never 0; some are left, so that one is found soon

bool in_use(const Connection& connection) {
  return connection.state != ConnectionState::kTimeWait && connection.state != ConnectionState::kRejected;
}

}  // namespace

ConnectionTable::ConnectionTable(std::uint16_t id_prefix, std::size_t connections_max, SecretRandom& random)
    : prefix_(std::uint32_t{id_prefix} << 16), max_(std::min(connections_max, kIdsMax)), random_(random) {}

Connection* ConnectionTable::add(const Endpoints& endpoints) {
  if (connections_.size() >= max_) return nullptr;
  CommId id = 0;
  do {
    id = prefix_ | static_cast<std::uint16_t>(random_.next() >> 48);
  } while (id == prefix_ || connections_.contains(id));
  Connection& connection = connections_[id];
  connection.id = id;
  connection.endpoints = endpoints;
  return &connection;
}

void ConnectionTable::remove(Connection& connection) {
  set_deadline(connection, std::nullopt);
  const auto by_id = by_remote_.find({connection.endpoints.remote, connection.remote_id});
  if (by_id != by_remote_.end() && by_id->second == connection.id) by_remote_.erase(by_id);
  const auto by_qp = by_remote_qp_.find({connection.endpoints.remote, connection.remote_guid, connection.remote_qpn});
  if (by_qp != by_remote_qp_.end() && by_qp->second == connection.id) by_remote_qp_.erase(by_qp);
  connections_.erase(connection.id);
}

Connection* ConnectionTable::find(CommId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

void ConnectionTable::set_remote_id(Connection& connection, CommId remote_id) {
  BRDMA_CHECK(connection.remote_id == 0);
  // A restarted peer may reuse an id that an old connection still has. Messages without our id then mean the newer
  // connection. The old one keeps its remote id, because the new request may be forged.
  connection.remote_id = remote_id;
  by_remote_[{connection.endpoints.remote, remote_id}] = connection.id;
}

Connection* ConnectionTable::find_remote(const IpAddress& remote, CommId remote_id) {
  const auto found = by_remote_.find({remote, remote_id});
  return found == by_remote_.end() ? nullptr : find(found->second);
}

void ConnectionTable::set_remote_qp(Connection& connection, std::uint64_t guid, std::uint32_t qpn) {
  connection.remote_guid = guid;
  connection.remote_qpn = qpn;
  by_remote_qp_[{connection.endpoints.remote, guid, qpn}] = connection.id;
}

Connection* ConnectionTable::find_remote_qp(const RemoteQp& qp) {
  const auto found = by_remote_qp_.find(qp);
  if (found == by_remote_qp_.end()) return nullptr;
  Connection* const connection = find(found->second);
  return connection != nullptr && in_use(*connection) ? connection : nullptr;
}

void ConnectionTable::set_deadline(Connection& connection, std::optional<Instant> deadline) {
  if (connection.deadline) deadlines_.erase({*connection.deadline, connection.id});
  connection.deadline = deadline;
  if (deadline) deadlines_.insert({*deadline, connection.id});
}

std::optional<Instant> ConnectionTable::first_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

Connection* ConnectionTable::take_due(Instant now) {
  if (deadlines_.empty() || deadlines_.begin()->first > now) return nullptr;
  Connection* const connection = find(deadlines_.begin()->second);
  set_deadline(*connection, std::nullopt);
  return connection;
}

}  // namespace brdma::cm
