#include "connections/live_connections.h"

#include <algorithm>

namespace brdma::daemon {
namespace {

constexpr std::size_t kRequestsMax = 4096;  // the oldest are forgotten: their programs have not answered for long

}  // namespace

LiveConnections::LiveConnections(ConnectionTable* table) : table_(table) {
  if (table_ == nullptr) return;
  table_->rows_used = std::min<std::uint32_t>(table_->rows_used, kConnectionsMax);
  for (std::uint32_t row = 0; row < table_->rows_used; ++row) {
    const ConnectionRecord& record = table_->rows[row];
    if (record.id != 0 && connections_.emplace(record.id, record).second) {
      rows_[record.id] = row;
    } else {
      free_rows_.push_back(row);
    }
  }
}

LiveConnections::Connections::const_iterator LiveConnections::first_of(std::uint16_t prefix) const {
  const auto first = connections_.lower_bound(std::uint32_t{prefix} << 16);
  return first != connections_.end() && first->first >> 16 == prefix ? first : connections_.end();
}

std::map<std::uint16_t, std::uint32_t> LiveConnections::processes() const {
  std::map<std::uint16_t, std::uint32_t> all;
  for (const auto& [id, connection] : connections_) all[static_cast<std::uint16_t>(id >> 16)] = connection.pid;
  return all;
}

void LiveConnections::write_row(const ConnectionRecord& connection) {
  if (table_ == nullptr) return;
  auto row = rows_.find(connection.id);
  if (row == rows_.end()) {
    if (free_rows_.empty()) free_rows_.push_back(table_->rows_used++);  // as many rows as there may be connections
    row = rows_.emplace(connection.id, free_rows_.back()).first;
    free_rows_.pop_back();
  }
  ConnectionRecord& record = table_->rows[row->second];
  const auto set_id = [&record](std::uint32_t id) { __atomic_store_n(&record.id, id, __ATOMIC_RELEASE); };
  ConnectionRecord without_id = connection;
  without_id.id = 0;
  set_id(0);
  record = without_id;
  set_id(connection.id);
}

void LiveConnections::clear_row(std::uint32_t id) {
  const auto row = rows_.find(id);
  if (row == rows_.end()) return;
  __atomic_store_n(&table_->rows[row->second].id, 0u, __ATOMIC_RELEASE);
  free_rows_.push_back(row->second);
  rows_.erase(row);
}

void LiveConnections::remember(const ConnectionRecord& connection) {
  if (connections_.size() >= kConnectionsMax && !connections_.contains(connection.id)) return;
  connections_[connection.id] = connection;
  write_row(connection);
}

// As in the process: a message that names another peer, or comes from another address, is ignored.
void LiveConnections::forget(const Ids& ids, const cm::Endpoints& endpoints) {
  const auto entry = connections_.find(ids.ours);
  if (entry == connections_.end() || entry->second.endpoints != endpoints) return;
  if (entry->second.remote_id != 0 && entry->second.remote_id != ids.theirs) return;
  connections_.erase(entry);
  clear_row(ids.ours);
}

void LiveConnections::accepted(const cm::Endpoints& endpoints, std::uint64_t transaction, const wire::CmRep& rep) {
  const auto asked = connections_.find(rep.remote_comm_id);
  if (asked == connections_.end() || asked->second.endpoints != endpoints || asked->second.remote_id != 0) return;
  if (asked->second.transaction != transaction) return;
  asked->second.remote_id = rep.local_comm_id;
  asked->second.remote_qpn = rep.qpn;
  write_row(asked->second);
}

void LiveConnections::rejected(const cm::Endpoints& endpoints, std::uint64_t transaction, const wire::CmRej& rej) {
  const auto entry = connections_.find(rej.remote_comm_id);
  if (entry == connections_.end() || entry->second.transaction != transaction) return;
  forget({rej.remote_comm_id, rej.local_comm_id == 0 ? entry->second.remote_id : rej.local_comm_id}, endpoints);
}

void LiveConnections::received(const cm::Endpoints& endpoints, const wire::CmMad& mad) {
  if (const auto* req = std::get_if<wire::CmReq>(&mad.message)) {
    requests_.push_back({endpoints, req->local_comm_id, req->qpn});
    if (requests_.size() > kRequestsMax) requests_.pop_front();
  } else if (const auto* rep = std::get_if<wire::CmRep>(&mad.message)) {
    accepted(endpoints, mad.transaction, *rep);
  } else if (const auto* rej = std::get_if<wire::CmRej>(&mad.message)) {
    rejected(endpoints, mad.transaction, *rej);
  } else if (const auto* dreq = std::get_if<wire::CmDreq>(&mad.message)) {
    forget({dreq->remote_comm_id, dreq->local_comm_id}, endpoints);
  } else if (const auto* drep = std::get_if<wire::CmDrep>(&mad.message)) {
    forget({drep->remote_comm_id, drep->local_comm_id}, endpoints);
  }
}

// A DREQ ends nothing yet: if it is lost and its process gone, nobody would repeat it.
void LiveConnections::sent(std::uint32_t pid, const cm::Endpoints& endpoints, const wire::CmMad& mad) {
  if (const auto* req = std::get_if<wire::CmReq>(&mad.message)) {
    if (connections_.contains(req->local_comm_id)) return;  // a repetition
    remember({.id = req->local_comm_id, .pid = pid, .transaction = mad.transaction, .endpoints = endpoints});
  } else if (const auto* rep = std::get_if<wire::CmRep>(&mad.message)) {
    const auto request = std::find_if(requests_.begin(), requests_.end(), [&](const Request& candidate) {
      return candidate.remote_id == rep->remote_comm_id && candidate.endpoints == endpoints;
    });
    if (request == requests_.end()) return;  // a repetition
    remember({.id = rep->local_comm_id,
              .pid = pid,
              .remote_id = request->remote_id,
              .remote_qpn = request->qpn,
              .transaction = mad.transaction,
              .endpoints = request->endpoints});
    requests_.erase(request);
  } else if (const auto* rej = std::get_if<wire::CmRej>(&mad.message)) {
    connections_.erase(rej->local_comm_id);
    clear_row(rej->local_comm_id);
  }
}

std::vector<LiveConnections::Farewell> LiveConnections::take(std::uint16_t prefix) {
  std::vector<Farewell> farewells;
  for (auto entry = first_of(prefix); entry != connections_.end() && entry->first >> 16 == prefix;) {
    const ConnectionRecord& connection = entry->second;
    if (connection.remote_id != 0) {  // else its REP, when it comes, is refused
      wire::CmDreq dreq;
      dreq.local_comm_id = connection.id;
      dreq.remote_comm_id = connection.remote_id;
      dreq.remote_qpn = connection.remote_qpn;
      farewells.push_back({connection.endpoints, {connection.transaction, dreq}});
    }
    clear_row(connection.id);
    entry = connections_.erase(entry);
  }
  return farewells;
}

}  // namespace brdma::daemon
