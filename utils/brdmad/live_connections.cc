#include "live_connections.h"

#include <algorithm>

namespace brdma::daemon {
namespace {

constexpr std::size_t kRequestsMax = 4096;  // the oldest are forgotten: their programs have not answered for long

}  // namespace

void LiveConnections::received(const IpAddress& local, const IpAddress& remote, const wire::CmMad& mad) {
  if (const auto* req = std::get_if<wire::CmReq>(&mad.message)) {
    requests_.push_back({local, remote, req->local_comm_id, req->qpn});
    if (requests_.size() > kRequestsMax) requests_.pop_front();
  } else if (const auto* rep = std::get_if<wire::CmRep>(&mad.message)) {
    connections_[rep->remote_comm_id] = {local, remote, mad.transaction, rep->local_comm_id, rep->qpn};
  } else if (const auto* rej = std::get_if<wire::CmRej>(&mad.message)) {
    connections_.erase(rej->remote_comm_id);
  } else if (const auto* dreq = std::get_if<wire::CmDreq>(&mad.message)) {
    connections_.erase(dreq->remote_comm_id);
  } else if (const auto* drep = std::get_if<wire::CmDrep>(&mad.message)) {
    connections_.erase(drep->remote_comm_id);
  }
}

// A DREQ ends nothing yet: lost, and its process gone, nobody would say it again.
void LiveConnections::sent(const wire::CmMad& mad) {
  if (const auto* rep = std::get_if<wire::CmRep>(&mad.message)) {
    const auto request = std::find_if(requests_.begin(), requests_.end(), [&](const Request& candidate) {
      return candidate.remote_id == rep->remote_comm_id;
    });
    if (request == requests_.end()) return;  // said again
    connections_[rep->local_comm_id] = {request->local, request->remote, mad.transaction, request->remote_id,
                                        request->qpn};
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
    wire::CmDreq dreq;
    dreq.local_comm_id = entry->first;
    dreq.remote_comm_id = entry->second.remote_id;
    dreq.remote_qpn = entry->second.remote_qpn;
    farewells.push_back({entry->second.local, entry->second.remote, {entry->second.transaction, dreq}});
  }
  connections_.erase(begin, end);
  return farewells;
}

}  // namespace brdma::daemon
