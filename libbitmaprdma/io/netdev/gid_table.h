// io/netdev/gid_table.h - the GIDs of one device, by index, as the kernel keeps them: an address has its index for
// life.
//   slot 0          the default GID, made of the MAC (RoCEv2 names a device by it), whatever addresses there are
//   the others      an IP address each; one that comes takes the first free slot, one that goes leaves a hole (zero)
// The number of slots is what ibv_port_attr::gid_tbl_len says; it only grows, by doubling. Pure: who reads the
// interfaces says what there is (io/gid_memory.h).
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
  // As another process keeps it. It may say anything: update() drops what is not so.
  explicit GidTable(std::span<const IpAddress> slots);

  // What there is now. `default_gid`: none where the interface has no MAC; then slot 0 is one as the others.
  void update(const std::optional<IpAddress>& default_gid, std::span<const IpAddress> addresses);

  [[nodiscard]] const std::vector<IpAddress>& slots() const { return slots_; }

 private:
  void add(const IpAddress& address, std::size_t first);
  std::vector<IpAddress> slots_ = std::vector<IpAddress>(kGidSlotsMin);
};

}  // namespace brdma::io
