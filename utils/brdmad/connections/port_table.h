// brdmad/connections/port_table.h - RDMA-CM's ports: their owners and listeners. A process is known by its id prefix.
// Not stored for the next worker: the processes repeat their claims (io/cm/cm_link.h).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "base/secret_random.h"
#include "wire/cm/cm_address.h"

namespace brdma::daemon {

struct PortClaim {
  wire::PortSpace space{};
  IpAddress address;  // 0.0.0.0 and :: stand for all of their kind
  std::uint16_t port = 0;
  bool reuse = false;      // shared with others that set it too, while at most one listens
  bool ipv6_only = false;  // :: does not stand for IPv4 too
};

class PortTable {
 public:
  static constexpr std::size_t kClaimsPerOwner = 32'768;
  explicit PortTable(Seed seed) : random_(seed, "ports") {}

  // Port 0: a free one of the range that `first` and `last` bound. EADDRINUSE, ENOMEM.
  Result<std::uint16_t, Status> take(std::uint16_t owner, PortClaim claim, std::uint16_t first, std::uint16_t last);
  // EADDRINUSE: somebody listens there, be it the owner itself by another claim; EINVAL: not its own.
  Status listen(std::uint16_t owner, const PortClaim& claim);
  // A process may have several claims on one address; `listening` selects one.
  void release(std::uint16_t owner, const PortClaim& claim, bool listening);
  void release_all(std::uint16_t owner);
  // The listener for this address: the most specific.
  [[nodiscard]] std::optional<std::uint16_t> listener(wire::PortSpace space, const IpAddress& address,
                                                      std::uint16_t port) const;
  // Somebody has it, or was the last to listen there and gave it back.
  [[nodiscard]] bool was_used(wire::PortSpace space, const IpAddress& address, std::uint16_t port) const;
  struct Entry {
    std::uint16_t owner = 0;
    PortClaim claim;
    bool listening = false;
  };
  [[nodiscard]] std::vector<Entry> entries() const;

 private:
  [[nodiscard]] bool free(const PortClaim& claim) const;
  void remember(const Entry& entry);
  [[nodiscard]] std::multimap<std::uint32_t, Entry>::iterator find(std::uint16_t owner, const PortClaim& claim,
                                                                   bool listening);
  struct OnPort {
    std::multimap<std::uint32_t, Entry>::const_iterator first, last;
    [[nodiscard]] auto begin() const { return first; }
    [[nodiscard]] auto end() const { return last; }
  };
  [[nodiscard]] OnPort on_port(const PortClaim& claim) const {
    const auto [first, last] = entries_.equal_range(key(claim));
    return {first, last};
  }

  SecretRandom random_;
  static std::uint32_t key(const PortClaim& claim) {
    return std::uint32_t{static_cast<std::uint8_t>(claim.space)} << 16 | claim.port;
  }
  std::multimap<std::uint32_t, Entry> entries_;     // by port space and port
  std::map<std::uint16_t, std::size_t> claims_of_;  // how many, by owner
  std::deque<PortClaim> released_;                  // claims that were listened on recently
};

}  // namespace brdma::daemon
