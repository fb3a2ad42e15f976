#include "fabric/forwarding_table.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::fabric {

Prefix Prefix::of(const IpAddress& address, std::uint8_t length) {
  BRDMA_CHECK(length <= 128);
  Prefix prefix{address, length};
  for (std::size_t i = 0; i < prefix.address.bytes.size(); ++i) {
    const std::size_t kept = std::min<std::size_t>(8, length - std::min<std::size_t>(length, i * 8));
    prefix.address.bytes[i] = static_cast<std::uint8_t>(prefix.address.bytes[i] & (0xFF00u >> kept));
  }
  return prefix;
}

Prefix Prefix::v4(const IpAddress& address, std::uint8_t length) {
  BRDMA_CHECK(address.is_v4() && length <= 32);
  return of(address, static_cast<std::uint8_t>(96 + length));
}

bool Prefix::covers(const IpAddress& other) const { return of(other, length).address == address; }

namespace {

// Longest first, then by address.
bool before(const Prefix& a, const Prefix& b) {
  return a.length != b.length ? a.length > b.length : a.address < b.address;
}

}  // namespace

std::size_t ForwardingTable::place_of(const Prefix& prefix) const {
  const auto place =
      std::lower_bound(routes_.begin(), routes_.end(), prefix,
                       [](const Route& route, const Prefix& wanted) { return before(route.prefix, wanted); });
  return static_cast<std::size_t>(place - routes_.begin());
}

const ForwardingTable::Route* ForwardingTable::find(const Prefix& given) const {
  const Prefix prefix = Prefix::of(given.address, given.length);
  const std::size_t place = place_of(prefix);
  return place < routes_.size() && routes_[place].prefix == prefix ? &routes_[place] : nullptr;
}

bool ForwardingTable::set(const Prefix& given, std::span<const std::uint32_t> ports) {
  if (ports.empty() || ports.size() > kPortsMax) return false;
  const Prefix prefix = Prefix::of(given.address, given.length);
  const std::size_t place = place_of(prefix);
  if (place == routes_.size() || !(routes_[place].prefix == prefix)) {
    if (routes_.size() == kRoutesMax) return false;
    routes_.insert(routes_.begin() + static_cast<std::ptrdiff_t>(place), Route{prefix, 0, {}});
    index_lengths();
  }
  routes_[place].port_count = static_cast<std::uint8_t>(ports.size());
  std::copy(ports.begin(), ports.end(), routes_[place].ports.begin());
  return true;
}

bool ForwardingTable::remove(const Prefix& given) {
  const Route* const route = find(given);
  if (route == nullptr) return false;
  routes_.erase(routes_.begin() + (route - routes_.data()));
  index_lengths();
  return true;
}

void ForwardingTable::index_lengths() {
  lengths_.clear();
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    const std::uint8_t length = routes_[i].prefix.length;
    if (lengths_.empty() || lengths_.back().length != length) lengths_.push_back({length, i, i});
    lengths_.back().end = i + 1;
  }
}

std::optional<std::uint32_t> ForwardingTable::port_for(const FiveTuple& flow) const {
  for (const Length& length : lengths_) {
    const IpAddress wanted = Prefix::of(flow.destination, length.length).address;
    const auto first = routes_.begin() + static_cast<std::ptrdiff_t>(length.first);
    const auto end = routes_.begin() + static_cast<std::ptrdiff_t>(length.end);
    const auto route = std::lower_bound(
        first, end, wanted, [](const Route& each, const IpAddress& address) { return each.prefix.address < address; });
    if (route == end || !(route->prefix.address == wanted)) continue;
    if (route->port_count == 1) return route->ports[0];
    const auto chosen = static_cast<unsigned __int128>(flow.hash(seed_)) * route->port_count >> 64;
    return route->ports[static_cast<std::size_t>(chosen)];
  }
  return std::nullopt;
}

}  // namespace brdma::fabric
