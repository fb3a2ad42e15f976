#include "fabric/controller/port_numbers.h"

namespace brdma::fabric::controller {

bool PortNumbers::admits(std::optional<SwitchIndex> index, std::uint32_t switch_number) const {
  const auto owner = switches_.find(switch_number);
  return owner == switches_.end() || owner->second == index;
}

void PortNumbers::assign(SwitchIndex index, std::uint32_t switch_number, const std::vector<PortPeer>& ports) {
  std::erase_if(switches_, [index](const auto& entry) { return entry.second == index; });
  std::erase_if(ports_, [index](const auto& entry) { return entry.first.first == index; });
  if (switch_number == 0) return;
  switches_[switch_number] = index;
  for (const PortPeer& port : ports) ports_[{index, port.number}] = port.port;
}

std::optional<PortNumbers::Port> PortNumbers::find(std::uint32_t switch_number, std::uint32_t port_number) const {
  const auto index = switches_.find(switch_number);
  if (index == switches_.end()) return std::nullopt;
  const auto port = ports_.find({index->second, port_number});
  if (port == ports_.end()) return std::nullopt;
  return Port{index->second, port->second};
}

}  // namespace brdma::fabric::controller
