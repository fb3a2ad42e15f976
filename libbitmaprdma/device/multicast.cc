// Multicast: the groups of each queue pair, and a copy of each packet for every member. The driver handles the socket's
// membership in the group.
#include "base/multicast.h"

#include <algorithm>
#include <cerrno>

#include "device/engine_impl.h"

namespace brdma {

Status Engine::attach_multicast(QueuePair* qp, const IpAddress& group) {
  if (qp->identity().type != QpType::kUd || !is_multicast(group)) return Status{EINVAL};
  auto& members = impl_->members;
  const bool attached =
      std::ranges::any_of(members, [&](const auto& member) { return member.qp == qp && member.group == group; });
  if (attached) return Status::success();
  auto& sizes = impl_->group_sizes;
  const auto size = sizes.find(group);
  const bool room = size == sizes.end() ? sizes.size() < kMulticastGroupsMax : size->second < kMulticastGroupMembersMax;
  if (!room || members.size() >= kMulticastMembersMax) return Status{ENOMEM};
  members.push_back({group, qp});
  ++sizes[group];
  return Status::success();
}

Status Engine::detach_multicast(QueuePair* qp, const IpAddress& group) {
  const std::size_t detached =
      std::erase_if(impl_->members, [&](const auto& member) { return member.qp == qp && member.group == group; });
  if (detached == 0) return Status{EINVAL};
  if (--impl_->group_sizes[group] == 0) impl_->group_sizes.erase(group);
  return Status::success();
}

bool Engine::has_members(const IpAddress& group) const { return impl_->group_sizes.contains(group); }

// Each copy counts as a packet received, so that accepted plus all drops equals received.
void Engine::Impl::handle_multicast(const Datagram& datagram, const wire::Packet& packet) {
  bool any = false;
  for (const Member& member : members) {
    if (member.group != datagram.destination) continue;
    if (!any && !icrc_holds(datagram, packet, nullptr)) return drop(datagram, DropReason::kBadIcrc);
    if (any) environment.count(Counter::kReceivedPackets);
    any = true;
    if (!qp::speaks(QpType::kUd, packet.bth.opcode)) {
      drop(datagram, DropReason::kUnknownOpcode);
    } else if (!member.qp->identity().can_receive()) {
      drop(datagram, DropReason::kQpState);
    } else {
      member.qp->handle_packet(packet, datagram, now);
      touched(member.qp);
    }
  }
  if (!any) drop(datagram, DropReason::kUnknownQp);
}

}  // namespace brdma
