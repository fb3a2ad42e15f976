// Destinations whose rate is reduced because links towards them are congested (design WT-10, WT-14;
// congestion/managed_list.h). Link reports (qp/inquiry/link_inquiry.cc), the controller and operators put them there.
#include <algorithm>
#include <cerrno>

#include "device/engine_impl.h"
#include "qp/state/management.h"

namespace brdma {
namespace {

template <class Function>
void for_each_towards(Engine::Impl& me, const IpAddress& peer, const Function& function) {
  me.queue_pairs.for_each([&](QueuePair* qp) {
    const qp::Identity& identity = qp->identity();
    if (identity.type == QpType::kRc && identity.attributes.peer_address == peer) function(*qp);
  });
}

void set_managed(Engine::Impl& me, const IpAddress& peer, congestion::ManagedDestination* destination) {
  for_each_towards(me, peer, [&](QueuePair& qp) {
    qp.manage().set_managed(destination);
    me.touched(&qp);
  });
}

}  // namespace

Status Engine::manage_destination(const IpAddress& peer, Instant now) {
  impl_->now = now;
  bool any = false;
  for_each_towards(*impl_, peer, [&any](const QueuePair&) { any = true; });
  if (!any) return Status{ENOENT};
  return impl_->manage(peer) ? Status{} : Status{ENOSPC};
}

Status Engine::handle_control_packet(const IpAddress& peer, Instant now) {
  const Status status = manage_destination(peer, now);
  if (status.error() != ENOENT) impl_->environment.count(Counter::kControlPackets);
  return status;
}

Status Engine::release_destination(const IpAddress& peer, Instant now) {
  Impl& me = *impl_;
  me.now = now;
  if (me.managed.find(peer) == nullptr) return Status{ENOENT};
  me.release(peer);
  return {};
}

std::vector<ManagedReport> Engine::managed_destinations() const {
  std::vector<ManagedReport> reports;
  for (const auto& [peer, destination] : impl_->managed.all()) {
    reports.push_back({.peer = peer,
                       .rate = destination.pacer.rate(),
                       .full = destination.full,
                       .weight_percent = destination.weight_percent,
                       .since = destination.since});
  }
  return reports;
}

std::optional<recovery::LinkReport> Engine::poll_link_report() {
  auto& waiting = impl_->environment.links.reports;
  if (waiting.empty()) return std::nullopt;
  recovery::LinkReport report = std::move(waiting.front());
  waiting.pop_front();
  return report;
}

bool Engine::Impl::manage(const IpAddress& peer) {
  std::uint64_t delivered = 0;
  for_each_towards(*this, peer, [&](const QueuePair& qp) { delivered += qp.requester().delivered().bps(); });
  const bool known = managed.find(peer) != nullptr;
  congestion::ManagedDestination* const destination = managed.lower(
      peer, Bandwidth::from_bps(delivered), settings.config.recovery.congestion, settings.config.recovery.wan, now);
  if (destination == nullptr) {
    environment.count(Counter::kManagedFull);
    return false;
  }
  if (!known) environment.count(Counter::kManagedAdded);
  set_managed(*this, peer, destination);
  return true;
}

void Engine::Impl::release(const IpAddress& peer) {
  set_managed(*this, peer, nullptr);
  managed.remove(peer);
}

// Congested peers that queue pairs have found.
void Engine::Impl::take_congested_peers() {
  while (!environment.links.congested_peers.empty()) {
    const IpAddress peer = environment.links.congested_peers.front();
    environment.links.congested_peers.pop_front();
    manage(peer);
  }
}

// The longest acknowledgement delay of queue pairs with data in flight counts.
void Engine::Impl::visit_managed() {
  const auto next = managed.next_visit();
  if (!next || now < *next) return;
  std::vector<IpAddress> done;
  for (auto& [peer, destination] : managed.all()) {
    if (now < destination.visit_at) continue;
    congestion::ManagedList::Observed observed;
    for_each_towards(*this, peer, [&](const QueuePair& qp) {
      const auto sender = qp.requester().snapshot();
      observed.delivered = Bandwidth::from_bps(observed.delivered.bps() + qp.requester().delivered().bps());
      if (sender.unacked == 0 || sender.srtt <= observed.wait) return;
      observed.wait = sender.srtt;
      observed.shortest = sender.base_rtt;
    });
    switch (congestion::ManagedList::visit(destination, observed, settings.config.recovery.wan, now)) {
      case congestion::ManagedList::Visit::kKept:
        break;
      case congestion::ManagedList::Visit::kRaised:
        environment.count(Counter::kManagedRaised);
        break;
      case congestion::ManagedList::Visit::kDone:
        done.push_back(peer);
        break;
    }
  }
  for (const IpAddress& peer : done) {
    environment.count(Counter::kManagedReleased);
    release(peer);
  }
}

// A queue pair has (or changed) its peer.
void Engine::Impl::note_peer(QueuePair* qp) {
  if (managed.empty()) [[likely]]
    return;
  const qp::Identity& identity = qp->identity();
  if (identity.type == QpType::kRc) qp->manage().set_managed(managed.find(identity.attributes.peer_address));
}

}  // namespace brdma
