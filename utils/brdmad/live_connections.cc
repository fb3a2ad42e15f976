#include "live_connections.h"

#include <algorithm>

namespace brdma::daemon {
namespace {

constexpr std::size_t kRequestsMax = 4096;        // the oldest are forgotten: their programs have not answered for long
constexpr std::size_t kConnectionsMax = 1 << 18;  // of all processes; the peers of further ones are not told

}  // namespace

void LiveConnections::remember(std::uint32_t id, const Connection& connection) {
  if (connections_.size() < kConnectionsMax || connections_.contains(id)) connections_[id] = connection;
}

void LiveConnections::forget(std::uint32_t id, const cm::Endpoints& endpoints) {
  const auto entry = connections_.find(id);
  if (entry != connections_.end() && entry->second.endpoints == endpoints) connections_.erase(entry);
}

void LiveConnections::received(const cm::Endpoints& endpoints, const wire::CmMad& mad) {
  if (const auto* req = std::get_if<wire::CmReq>(&mad.message)) {
    requests_.push_back({endpoints, req->local_comm_id, req->qpn});
    if (requests_.size() > kRequestsMax) requests_.pop_front();
  } else if (const auto* rep = std::get_if<wire::CmRep>(&mad.message)) {
    const auto asked = connections_.find(rep->remote_comm_id);
    if (asked == connections_.end() || asked->second.endpoints != endpoints || asked->second.remote_id != 0) return;
    asked->second.remote_id = rep->local_comm_id;
    asked->second.remote_qpn = rep->qpn;
  } else if (const auto* rej = std::get_if<wire::CmRej>(&mad.message)) {
    forget(rej->remote_comm_id, endpoints);
  } else if (const auto* dreq = std::get_if<wire::CmDreq>(&mad.message)) {
    forget(dreq->remote_comm_id, endpoints);
  } else if (const auto* drep = std::get_if<wire::CmDrep>(&mad.message)) {
    forget(drep->remote_comm_id, endpoints);
  }
}

// A DREQ ends nothing yet: lost, and its process gone, nobody would say it again.
void LiveConnections::sent(const cm::Endpoints& endpoints, const wire::CmMad& mad) {
  if (const auto* req = std::get_if<wire::CmReq>(&mad.message)) {
    if (!connections_.contains(req->local_comm_id)) remember(req->local_comm_id, {endpoints, mad.transaction});
  } else if (const auto* rep = std::get_if<wire::CmRep>(&mad.message)) {
    const auto request = std::find_if(requests_.begin(), requests_.end(), [&](const Request& candidate) {
      return candidate.remote_id == rep->remote_comm_id && candidate.endpoints == endpoints;
    });
    if (request == requests_.end()) return;  // said again
    remember(rep->local_comm_id, {request->endpoints, mad.transaction, request->remote_id, request->qpn});
    requests_.erase(request);
  } else if (const auto* rej = std::get_if<wire::CmRej>(&mad.message)) {
    connections_.erase(rej->local_comm_id);
  }
}

std::vector<LiveConnections::Farewell> LiveConnections::take(std::uint16_t prefix) {
  std::vector<Farewell> farewells;
  const std::uint32_t first = std::uint32_t{prefix} << 16;
  const auto begin = connections_.lower_bound(first), end = connections_.upper_bound(first | 0xFFFF);
  for (auto entry = begin; entry != end; ++entry) {
    if (entry->second.remote_id == 0) continue;  // its REP, when it comes, is refused
    wire::CmDreq dreq;
    dreq.local_comm_id = entry->first;
    dreq.remote_comm_id = entry->second.remote_id;
    dreq.remote_qpn = entry->second.remote_qpn;
    farewells.push_back({entry->second.endpoints, {entry->second.transaction, dreq}});
  }
  connections_.erase(begin, end);
  return farewells;
}

}  // namespace brdma::daemon
