// fabric/controller/port_numbers.h - the numbers by which passive feedback names switches and their ports. A switch has
// one number, or 0: none. The number of a switch is its own for good: no other one may take it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fabric/controller/member_messages.h"
#include "fabric/controller/network_map.h"

namespace brdma::fabric::controller {

class PortNumbers {
 public:
  struct Port {
    SwitchIndex at = 0;
    std::string name;
  };

  // False: another switch has this number. `index` is nothing for a switch that the map does not know yet.
  [[nodiscard]] bool admits(std::optional<SwitchIndex> index, std::uint32_t switch_number) const;
  // The numbers that the switch had before are gone. Precondition: admits(index, switch_number).
  void assign(SwitchIndex index, std::uint32_t switch_number, const std::vector<PortPeer>& ports);
  [[nodiscard]] std::optional<Port> find(std::uint32_t switch_number, std::uint32_t port_number) const;

 private:
  std::map<std::uint32_t, SwitchIndex> switches_;
  std::map<std::pair<SwitchIndex, std::uint32_t>, std::string> ports_;
};

}  // namespace brdma::fabric::controller
