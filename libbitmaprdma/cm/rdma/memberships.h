// cm/rdma/memberships.h - multicast groups of datagram services. Over RoCEv2 a group is an IP multicast address.
// Joining gives the program the destination at once; the receiving socket joins the group when a queue pair is attached
// to it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "cm/rdma/event_channels.h"

namespace brdma::cm {

class Memberships {
 public:
  // Both outlive it.
  Memberships(IdTable& ids, EventChannels& channels) : ids_(ids), channels_(channels) {}

  // Returns the membership's number; kMulticastJoin carries the destination. The program attaches the queue pair.
  // ENOENT: no such identifier. EINVAL: no datagram service with a device, no group, or of another address family.
  // ENOMEM: too many.
  Result<IdNumber, Status> join(IdNumber id, std::uint64_t user, const SocketAddress& group);
  [[nodiscard]] std::optional<IdNumber> member(IdNumber membership) const;  // its identifier
  // Returns as RdmaCm::destroy(). ENOENT.
  Result<std::uint32_t, Status> leave(IdNumber membership);

  // The program has fetched an event of it.
  void on_fetched(IdNumber membership);
  // The identifier is destroyed.
  void end_all_of(IdNumber id);

 private:
  struct Membership {
    IdNumber id = 0;
    std::uint32_t events_reported = 0;
  };
  IdTable& ids_;
  EventChannels& channels_;
  std::map<IdNumber, Membership> memberships_;
  IdNumber next_ = 0;
};

}  // namespace brdma::cm
