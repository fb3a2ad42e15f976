#include "port_table.h"

#include <algorithm>
#include <cerrno>

namespace brdma::daemon {
namespace {

constexpr std::size_t kReleasedMax = 16;

bool is_any(const IpAddress& address) { return address.is_zero() || address == IpAddress::v4(0, 0, 0, 0); }

// Would a packet to some address be for both?
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

bool PortTable::free(const PortClaim& claim) const {
  return std::none_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return collide(entry.claim, claim) && !(entry.claim.reuse && claim.reuse && !entry.listening);
  });
}

PortTable::Entry* PortTable::find(std::uint16_t owner, const PortClaim& claim) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.owner == owner && entry.claim.space == claim.space && entry.claim.port == claim.port &&
           entry.claim.address == claim.address;
  });
  return found == entries_.end() ? nullptr : &*found;
}

Result<std::uint16_t, Status> PortTable::take(std::uint16_t owner, PortClaim claim, std::uint16_t first,
                                              std::uint16_t last) {
  const auto owned = std::count_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.owner == owner; });
  if (static_cast<std::size_t>(owned) >= kClaimsPerOwner) return Status{ENOMEM};
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
  entries_.push_back({owner, claim});
  return claim.port;
}

Status PortTable::listen(std::uint16_t owner, const PortClaim& claim) {
  Entry* const mine = find(owner, claim);
  if (mine == nullptr) return Status{EINVAL};
  for (const Entry& entry : entries_) {
    if (&entry != mine && entry.listening && collide(entry.claim, mine->claim)) return Status{EADDRINUSE};
  }
  mine->listening = true;
  return Status::success();
}

void PortTable::release(std::uint16_t owner, const PortClaim& claim) {
  if (Entry* const entry = find(owner, claim)) {
    remember(*entry);
    *entry = entries_.back();
    entries_.pop_back();
  }
}

void PortTable::release_all(std::uint16_t owner) {
  std::erase_if(entries_, [owner](const Entry& entry) { return entry.owner == owner; });  // whoever listened has ended
}

void PortTable::remember(const Entry& entry) {
  if (!entry.listening) return;
  released_.push_back(entry.claim);
  if (released_.size() > kReleasedMax) released_.pop_front();
}

bool PortTable::was_used(wire::PortSpace space, const IpAddress& address, std::uint16_t port) const {
  const PortClaim wanted{.space = space, .address = address, .port = port};
  const auto matches = [&](const PortClaim& claim) { return collide(claim, wanted); };
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return matches(entry.claim); }) ||
         std::any_of(released_.begin(), released_.end(), matches);
}

std::optional<std::uint16_t> PortTable::listener(wire::PortSpace space, const IpAddress& address,
                                                 std::uint16_t port) const {
  const PortClaim wanted{.space = space, .address = address, .port = port};
  const Entry* best = nullptr;
  for (const Entry& entry : entries_) {
    if (!entry.listening || !collide(entry.claim, wanted)) continue;
    if (best == nullptr || entry.claim.address == address) best = &entry;
  }
  if (best == nullptr) return std::nullopt;
  return best->owner;
}

}  // namespace brdma::daemon
