// io/netdev/neighbours.h - Ethernet addresses of peers behind one interface, from the kernel's routes and neighbour
// table, for packets that bypass both (AF_XDP).
//
// Queried by netlink when a peer is first sent to, and again after kKeep, or after any change of a neighbour, route,
// address or link: changes are checked every kLookEvery. To a neighbour that the kernel regards as stale one batch is
// sent by UDP, which makes the kernel query it; else a moved neighbour would stay unnoticed. Nothing blocks. One thread
// at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/datagram.h"
#include "base/units.h"
#include "io/system/file_descriptor.h"

namespace brdma::io {

using MacBytes = std::array<std::uint8_t, 6>;

struct NextHop {
  MacBytes destination{}, source{};
  std::uint32_t mtu = 0;  // the longest IP packet
};

class Neighbours {
 public:
  explicit Neighbours(std::uint32_t ifindex);

  // Null: send by UDP, for now or for ever. Reasons: another interface's peer, this machine's own address, multicast,
  // no route, or the kernel does not know its Ethernet address or is verifying it. Valid until the next call.
  [[nodiscard]] const NextHop* find(const IpAddress& source, const IpAddress& destination, Instant now);

  static constexpr Duration kKeep = 1_s, kKeepUnknown = 100_ms, kLookEvery = 10_ms;

 private:
  static constexpr std::size_t kEntries = 256;
  struct Entry {
    IpAddress source, destination;
    NextHop hop;
    bool known = false, usable = false;
    bool made_sure = false;  // a batch went by UDP since the kernel called the address stale
    std::uint32_t generation = 0;
    Instant good_until;
  };
  [[nodiscard]] Entry& place_of(const IpAddress& source, const IpAddress& destination);
  void look_for_changes();
  void ask(Entry& entry);
  [[nodiscard]] bool ask_interface(NextHop& hop) const;

  std::uint32_t ifindex_;
  FileDescriptor changes_, questions_, any_;
  std::uint32_t generation_ = 0;
  Instant looked_at_;
  std::unique_ptr<std::array<Entry, kEntries>> entries_;
};

}  // namespace brdma::io
