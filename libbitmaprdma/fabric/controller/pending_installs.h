// fabric/controller/pending_installs.h - orders to switches to install routes that are not acknowledged yet. The epoch
// of an order counts the orders to one switch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "fabric/controller/network_map.h"

namespace brdma::fabric::controller {

using Prefixes = std::vector<PrefixIndex>;

class PendingInstalls {
 public:
  void add(SwitchIndex to, std::uint64_t epoch, Prefixes prefixes, Instant deadline);
  // The order that this acknowledges; nothing: stale.
  [[nodiscard]] std::optional<Prefixes> take(SwitchIndex from, std::uint64_t epoch);
  // All of a switch, the oldest first.
  [[nodiscard]] std::vector<Prefixes> take_all(SwitchIndex of);

  // Switches that should have acknowledged by `now`; one with several such orders several times.
  [[nodiscard]] std::vector<SwitchIndex> overdue(Instant now) const;
  [[nodiscard]] std::optional<Instant> next_deadline() const;

 private:
  struct Install {
    Prefixes prefixes;
    Instant deadline;
  };
  std::map<std::pair<SwitchIndex, std::uint64_t>, Install> installs_;  // by switch and epoch
};

}  // namespace brdma::fabric::controller
