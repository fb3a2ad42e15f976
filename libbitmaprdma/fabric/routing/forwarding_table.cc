#include "fabric/routing/forwarding_table.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"

namespace brdma::fabric {

namespace {

// As two numbers, first byte highest: byte operations, masks and comparisons would dominate a look-up.
struct Number {
  std::uint64_t high = 0, low = 0;
  friend auto operator<=>(const Number&, const Number&) = default;
};
Number number_of(const IpAddress& address) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(address.bytes.data());
  return {load_be64(bytes), load_be64(bytes + 8)};
}

// The highest `count` of 64 bits.
std::uint64_t mask_of(unsigned count) { return count == 0 ? 0 : ~std::uint64_t{0} << (64 - count); }

}  // namespace

Prefix Prefix::of(const IpAddress& address, std::uint8_t length) {
  BRDMA_CHECK(length <= 128);
  const Number number = number_of(address);
  Prefix prefix{{}, length};
  auto* const bytes = reinterpret_cast<std::byte*>(prefix.address.bytes.data());
  store_be64(bytes, number.high & mask_of(std::min<unsigned>(length, 64)));
  store_be64(bytes + 8, number.low & mask_of(length < 64 ? 0 : length - 64u));
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
  return a.length != b.length ? a.length > b.length : number_of(a.address) < number_of(b.address);
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
    const auto route = std::lower_bound(first, end, number_of(wanted), [](const Route& each, const Number& number) {
      return number_of(each.prefix.address) < number;
    });
    if (route == end || !(route->prefix.address == wanted)) continue;
    if (route->port_count == 1) return route->ports[0];
    const auto chosen = static_cast<unsigned __int128>(flow.hash(seed_)) * route->port_count >> 64;
    return route->ports[static_cast<std::size_t>(chosen)];
  }
  return std::nullopt;
}

}  // namespace brdma::fabric
