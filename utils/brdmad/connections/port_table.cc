#include "connections/port_table.h"

#include <algorithm>
#include <cerrno>

namespace brdma::daemon {
namespace {

constexpr std::size_t kReleasedMax = 16;

bool is_any(const IpAddress& address) { return address.is_zero() || address == IpAddress::v4(0, 0, 0, 0); }

// Would both receive a packet to some address?
bool overlap(const PortClaim& a, const PortClaim& b) {
  if (a.address == b.address) return true;
  const auto covers = [](const PortClaim& wide, const PortClaim& other) {
    if (!is_any(wide.address)) return false;
    return wide.address.is_v4() ? other.address.is_v4() : !other.address.is_v4() || !wide.ipv6_only;
  };
  return covers(a, b) || covers(b, a);
}

bool collide(const PortClaim& a, const PortClaim& b) { return a.space == b.space && a.port == b.port && overlap(a, b); }

}  // namespace

std::vector<PortTable::Entry> PortTable::entries() const {
  std::vector<Entry> all;
  for (const auto& [key, entry] : entries_) all.push_back(entry);
  return all;
}

bool PortTable::free(const PortClaim& claim) const {
  return std::ranges::none_of(on_port(claim), [&](const auto& other) {
    return overlap(other.second.claim, claim) && !(other.second.claim.reuse && claim.reuse && !other.second.listening);
  });
}

std::multimap<std::uint32_t, PortTable::Entry>::iterator PortTable::find(std::uint16_t owner, const PortClaim& claim,
                                                                         bool listening) {
  const auto [first, last] = entries_.equal_range(key(claim));
  const auto found = std::find_if(first, last, [&](const auto& entry) {
    return entry.second.owner == owner && entry.second.claim.address == claim.address &&
           entry.second.listening == listening;
  });
  return found == last ? entries_.end() : found;
}

Result<std::uint16_t, Status> PortTable::take(std::uint16_t owner, PortClaim claim, std::uint16_t first,
                                              std::uint16_t last) {
  std::size_t& owned = claims_of_[owner];
  if (owned >= kClaimsPerOwner) return Status{ENOMEM};
  if (claim.port == 0) {
    const std::uint32_t count = last - first + 1u;
    const auto start = static_cast<std::uint32_t>(random_.below(count));
    for (std::uint32_t i = 0; i < count && claim.port == 0; ++i) {
      claim.port = static_cast<std::uint16_t>(first + (start + i) % count);
      if (!free(claim)) claim.port = 0;
    }
    if (claim.port == 0) return Status{EADDRINUSE};
  } else if (!free(claim)) {
    return Status{EADDRINUSE};
  }
  entries_.emplace(key(claim), Entry{owner, claim});
  ++owned;
  return claim.port;
}

Status PortTable::listen(std::uint16_t owner, const PortClaim& claim) {
  const auto mine = find(owner, claim, false);
  if (mine == entries_.end()) return Status{find(owner, claim, true) == entries_.end() ? EINVAL : EADDRINUSE};
  for (const auto& other : on_port(claim)) {
    if (other.second.listening && overlap(other.second.claim, mine->second.claim)) return Status{EADDRINUSE};
  }
  mine->second.listening = true;
  return Status::success();
}

void PortTable::release(std::uint16_t owner, const PortClaim& claim, bool listening) {
  const auto entry = find(owner, claim, listening);
  if (entry == entries_.end()) return;
  remember(entry->second);
  entries_.erase(entry);
  --claims_of_[owner];
}

void PortTable::release_all(std::uint16_t owner) {
  std::erase_if(entries_, [owner](const auto& entry) { return entry.second.owner == owner; });  // the listener is gone
  claims_of_.erase(owner);
}

void PortTable::remember(const Entry& entry) {
  if (!entry.listening) return;
  released_.push_back(entry.claim);
  if (released_.size() > kReleasedMax) released_.pop_front();
}

bool PortTable::was_used(wire::PortSpace space, const IpAddress& address, std::uint16_t port) const {
  const PortClaim wanted{.space = space, .address = address, .port = port};
  return std::ranges::any_of(on_port(wanted), [&](const auto& entry) { return overlap(entry.second.claim, wanted); }) ||
         std::ranges::any_of(released_, [&](const PortClaim& claim) { return collide(claim, wanted); });
}

std::optional<std::uint16_t> PortTable::listener(wire::PortSpace space, const IpAddress& address,
                                                 std::uint16_t port) const {
  const PortClaim wanted{.space = space, .address = address, .port = port};
  const Entry* best = nullptr;
  for (const auto& [key, entry] : on_port(wanted)) {
    if (!entry.listening || !overlap(entry.claim, wanted)) continue;
    if (best == nullptr || entry.claim.address == address) best = &entry;
  }
  if (best == nullptr) return std::nullopt;
  return best->owner;
}

}  // namespace brdma::daemon
