// device/multicast_groups.h - which queue pairs receive what is sent to a multicast group. Limits: base/multicast.h.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <vector>

#include "base/ip_address.h"
#include "base/multicast.h"
#include "base/result.h"
#include "qp/state/queue_pair.h"

namespace brdma::device {

class MulticastGroups {
 public:
  // Again: no change. ENOMEM: too many groups or members.
  Status attach(QueuePair* qp, const IpAddress& group);
  Status detach(QueuePair* qp, const IpAddress& group);  // EINVAL: not attached
  [[nodiscard]] bool has_members(const IpAddress& group) const { return sizes_.contains(group); }
  [[nodiscard]] bool is_member(const QueuePair* qp) const {  // of any
    return std::ranges::any_of(members_, [qp](const Member& member) { return member.qp == qp; });
  }
  // In the order of attaching.
  template <class Function>
  void for_each_member(const IpAddress& group, Function&& function) const {
    for (const Member& member : members_) {
      if (member.group == group) function(member.qp);
    }
  }

 private:
  struct Member {
    IpAddress group;
    QueuePair* qp = nullptr;
  };
  std::vector<Member> members_;
  std::map<IpAddress, std::uint32_t> sizes_;
};

}  // namespace brdma::device
