// Multicast groups of datagram services. Over RoCEv2 a group is an IP multicast address. Joining gives the program the
// destination at once; the receiving socket joins the group when a queue pair is attached to it.
#include <cerrno>

#include "base/multicast.h"
#include "cm/rdma_cm.h"

namespace brdma::cm {
namespace {

constexpr std::size_t kMembershipsMax = 65'536;  // of a process

}  // namespace

Result<IdNumber, Status> RdmaCm::join(IdNumber number, std::uint64_t user, const SocketAddress& group) {
  const RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (!id->is_datagram() || !id->device || !is_multicast(group.address)) return Status{EINVAL};
  if (group.address.is_v4() != id->local.address.is_v4()) return Status{EINVAL};
  if (memberships_.size() >= kMembershipsMax) return Status{ENOMEM};
  while (memberships_.contains(next_membership_)) ++next_membership_;
  const IdNumber membership = next_membership_++;
  memberships_[membership] = {.id = number, .events_reported = 0};
  queue(id->channel, {.kind = RdmaEventKind::kMulticastJoin,
                      .id = number,
                      .user = user,
                      .counted = number,
                      .datagram = DatagramDestination{.qpn = kMulticastQpn,
                                                      .qkey = kDatagramQkey,
                                                      .address = group.address,
                                                      .sgid_index = id->device->sgid_index,
                                                      .traffic_class = id->traffic_class},
                      .group = membership});
  return membership;
}

std::optional<IdNumber> RdmaCm::member(IdNumber membership) const {
  const auto entry = memberships_.find(membership);
  if (entry == memberships_.end()) return std::nullopt;
  return entry->second.id;
}

Result<std::uint32_t, Status> RdmaCm::leave(IdNumber membership) {
  const auto entry = memberships_.find(membership);
  if (entry == memberships_.end()) return Status{ENOENT};
  std::uint32_t reported = entry->second.events_reported;
  if (const RdmaId* const id = ids_.find(entry->second.id)) {
    reported += take_back(
        id->channel, [membership](const RdmaEvent& event) { return event.group == membership; },
        [](const RdmaEvent&) {});
  }
  memberships_.erase(entry);
  return reported;
}

}  // namespace brdma::cm
