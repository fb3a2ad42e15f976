#include "cm/rdma/memberships.h"

#include <cerrno>

#include "base/multicast.h"

namespace brdma::cm {
namespace {

constexpr std::size_t kMembershipsMax = 65'536;  // of a process

}  // namespace

Result<IdNumber, Status> Memberships::join(IdNumber number, std::uint64_t user, const SocketAddress& group) {
  const RdmaId* const id = ids_.find(number);
  if (id == nullptr) return Status{ENOENT};
  if (!id->is_datagram() || !id->device || !is_multicast(group.address)) return Status{EINVAL};
  if (group.address.is_v4() != id->local.address.is_v4()) return Status{EINVAL};
  if (memberships_.size() >= kMembershipsMax) return Status{ENOMEM};
  while (memberships_.contains(next_)) ++next_;
  const IdNumber membership = next_++;
  memberships_[membership] = {.id = number, .events_reported = 0};
  channels_.queue(id->channel, {.kind = RdmaEventKind::kMulticastJoin,
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

std::optional<IdNumber> Memberships::member(IdNumber membership) const {
  const auto entry = memberships_.find(membership);
  if (entry == memberships_.end()) return std::nullopt;
  return entry->second.id;
}

Result<std::uint32_t, Status> Memberships::leave(IdNumber membership) {
  const auto entry = memberships_.find(membership);
  if (entry == memberships_.end()) return Status{ENOENT};
  std::uint32_t reported = entry->second.events_reported;
  if (const RdmaId* const id = ids_.find(entry->second.id)) reported += channels_.drop_group(id->channel, membership);
  memberships_.erase(entry);
  return reported;
}

void Memberships::on_fetched(IdNumber membership) {
  if (const auto entry = memberships_.find(membership); entry != memberships_.end()) ++entry->second.events_reported;
}

void Memberships::end_all_of(IdNumber id) {
  std::erase_if(memberships_, [id](const auto& entry) { return entry.second.id == id; });
}

}  // namespace brdma::cm
