// Multicast: the groups of each queue pair, and a copy of each packet for every member. The driver handles the socket's
// membership in the group.
#include <cerrno>

#include "device/engine_impl.h"

namespace brdma {
namespace device {

Status MulticastGroups::attach(QueuePair* qp, const IpAddress& group) {
  const bool attached =
      std::ranges::any_of(members_, [&](const Member& member) { return member.qp == qp && member.group == group; });
  if (attached) return Status::success();
  const auto size = sizes_.find(group);
  const bool room =
      size == sizes_.end() ? sizes_.size() < kMulticastGroupsMax : size->second < kMulticastGroupMembersMax;
  if (!room || members_.size() >= kMulticastMembersMax) return Status{ENOMEM};
  members_.push_back({group, qp});
  ++sizes_[group];
  return Status::success();
}

Status MulticastGroups::detach(QueuePair* qp, const IpAddress& group) {
  const std::size_t detached =
      std::erase_if(members_, [&](const Member& member) { return member.qp == qp && member.group == group; });
  if (detached == 0) return Status{EINVAL};
  if (--sizes_[group] == 0) sizes_.erase(group);
  return Status::success();
}

}  // namespace device

Status Engine::attach_multicast(QueuePair* qp, const IpAddress& group) {
  if (qp->identity().type != QpType::kUd || !is_multicast(group)) return Status{EINVAL};
  return impl_->groups.attach(qp, group);
}

Status Engine::detach_multicast(QueuePair* qp, const IpAddress& group) { return impl_->groups.detach(qp, group); }

bool Engine::has_members(const IpAddress& group) const { return impl_->groups.has_members(group); }

// Each copy counts as a packet received, so that accepted plus all drops equals received.
void Engine::Impl::handle_multicast(const Datagram& datagram, const wire::Packet& packet) {
  if (!groups.has_members(datagram.destination)) return drop(datagram, DropReason::kUnknownQp);
  if (!icrc.holds(datagram, packet, nullptr)) return drop(datagram, DropReason::kBadIcrc);
  bool first = true;
  groups.for_each_member(datagram.destination, [&](QueuePair* qp) {
    if (!std::exchange(first, false)) environment.count(Counter::kReceivedPackets);
    if (!qp::speaks(QpType::kUd, packet.bth.opcode)) {
      drop(datagram, DropReason::kUnknownOpcode);
    } else if (!qp->identity().can_receive()) {
      drop(datagram, DropReason::kQpState);
    } else {
      qp->handle_packet(packet, datagram, now);
      touched(qp);
    }
  });
}

}  // namespace brdma
