// io/netdev/gid_table.h - the GIDs of one device, by index, as the kernel keeps them: an address keeps its index for
// life.
//   slot 0          the default GID, made of the MAC (RoCEv2 names a device by it), for any set of addresses
//   the others      an IP address each; a new one takes the first free slot, a removed one leaves a hole (zero)
// The number of slots is ibv_port_attr::gid_tbl_len; it only grows, by doubling. Pure: the reader of the interfaces
// passes the addresses (io/netdev/gid_tables.h).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/ip_address.h"

namespace brdma::io {

inline constexpr std::size_t kGidSlotsMin = 16;
inline constexpr std::size_t kGidSlotsMax = 256;  // ibv_global_route::sgid_index has 8 bits; further addresses get none

class GidTable {
 public:
  GidTable() = default;
  // From another process, with any contents: update() drops invalid entries.
  explicit GidTable(std::span<const IpAddress> slots);

  // Sets the present addresses. `default_gid`: none where the interface has no MAC; then slot 0 is like the others.
  void update(const std::optional<IpAddress>& default_gid, std::span<const IpAddress> addresses);

  [[nodiscard]] const std::vector<IpAddress>& slots() const { return slots_; }

 private:
  void add(const IpAddress& address, std::size_t first);
  std::vector<IpAddress> slots_ = std::vector<IpAddress>(kGidSlotsMin);
};

}  // namespace brdma::io
