#include "io/netdev/gid_table.h"

#include <algorithm>

namespace brdma::io {

GidTable::GidTable(std::span<const IpAddress> slots) {
  while (slots_.size() < slots.size() && slots_.size() < kGidSlotsMax) slots_.resize(2 * slots_.size());
  std::ranges::copy(slots.first(std::min(slots.size(), slots_.size())), slots_.begin());
}

void GidTable::update(const std::optional<IpAddress>& default_gid, std::span<const IpAddress> addresses) {
  const std::size_t first = default_gid ? 1 : 0;
  for (std::size_t i = first; i < slots_.size(); ++i) {
    const auto same = std::find(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(i), slots_[i]);
    const bool twice = same != slots_.begin() + static_cast<std::ptrdiff_t>(i);
    if (twice || slots_[i] == default_gid || std::ranges::find(addresses, slots_[i]) == addresses.end())
      slots_[i] = IpAddress{};
  }
  if (default_gid) slots_[0] = *default_gid;
  for (const IpAddress& address : addresses) {
    if (std::ranges::find(slots_, address) == slots_.end()) add(address, first);
  }
}

void GidTable::add(const IpAddress& address, std::size_t first) {
  auto free = std::find(slots_.begin() + static_cast<std::ptrdiff_t>(first), slots_.end(), IpAddress{});
  if (free == slots_.end()) {
    if (slots_.size() == kGidSlotsMax) return;
    const std::size_t used = slots_.size();
    slots_.resize(2 * used);
    free = slots_.begin() + static_cast<std::ptrdiff_t>(used);
  }
  *free = address;
}

}  // namespace brdma::io
