// brdmad/worker/quotas.h - limits of one user of a daemon that serves several (--system), so that nobody can keep the
// others out. The daemon's own user and root have no quota: a part of everything is reserved for them.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lease/shared_state.h"
#include "options.h"

namespace brdma::daemon {

struct Quotas {
  // Leases of one user at a time. Slots that the user had at once, or that rest, stay the user's (shared_state.h).
  std::uint32_t leases = io::kSlotCount;
  std::uint32_t extra_slots = kExtraSlotsMax;
  // Limits for users with a quota: unused slots from here on, further slots beyond, and descriptors are reserved.
  std::uint32_t slots_end = io::kSlotCount;
  std::uint32_t extra_slots_of_all = kExtraSlotsMax;
  std::uint32_t descriptors_left = 0;
  // Connections of one user, of one without service (may only ask for the version), and of all users with a quota.
  std::size_t connections = 0, connections_of_stranger = 16, connections_of_all = 0;

  [[nodiscard]] SlotLimits slots() const { return {.owned_max = leases + kRestingSlots, .unused_end = slots_end}; }
};

// `files`: descriptors that the daemon may have; a lease takes three.
[[nodiscard]] inline Quotas quotas_of(const Options& options, std::uint64_t files) {
  constexpr std::uint32_t kRootsSlots = 256, kRootsExtraSlots = 64, kFilesOfALease = 3;
  constexpr std::size_t kClientsMax = 3 * io::kSlotCount;  // a lease, RDMA-CM, and a query each
  constexpr std::size_t kRootsConnections = 1024;
  Quotas quotas;
  const auto some = static_cast<std::uint32_t>(std::min<std::uint64_t>(files / 8, kClientsMax));
  quotas.descriptors_left = some;
  quotas.connections_of_all = kClientsMax - kRootsConnections;
  quotas.connections = quotas.connections_of_stranger;
  if (!options.system) return quotas;
  // A quarter of the descriptors left by the sockets of port 4791.
  const std::uint64_t possible = files > kSlotsAtFirst ? (files - kSlotsAtFirst) / kFilesOfALease / 4 : 0;
  quotas.leases = std::min(options.user_leases, static_cast<std::uint32_t>(std::min<std::uint64_t>(
                                                    std::max<std::uint64_t>(possible, 1), io::kSlotCount)));
  quotas.extra_slots = kExtraSlotsMax / 4;
  quotas.slots_end = kExtraSlotsFirst - kRootsSlots;
  quotas.extra_slots_of_all = kExtraSlotsMax - kRootsExtraSlots;
  quotas.connections = 3 * std::size_t{quotas.leases} + 64;
  return quotas;
}

[[nodiscard]] inline bool has_quota(uid_t uid, uid_t own) { return uid != 0 && uid != own; }

}  // namespace brdma::daemon
