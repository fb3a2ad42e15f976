// Texts that people write: a lab's topology and the controller's configuration. A mistake gives a sentence, never a
// crash; accepted input names its links and ports without contradiction, and a lab's topology file is a valid
// configuration.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/check.h"
#include "configuration.h"
#include "topology/topology_file.h"

namespace {

using namespace brdma;

void look_at(const fabric::Topology& topology) {
  for (std::uint32_t link = 0; link < topology.link_count(); ++link) {
    BRDMA_CHECK(fabric::find_link(topology, fabric::link_name(topology, link)) == link);
  }
  for (std::uint32_t at = 0; at < topology.switches.size(); ++at) {
    BRDMA_CHECK(fabric::find_switch(topology, topology.switches[at]) == at);
    const auto ports = fabric::ports_of(topology, at);
    for (std::uint32_t port = 0; port < ports.size(); ++port) {
      BRDMA_CHECK(fabric::find_port(topology, at, ports[port].name) == port);
    }
  }
  for (const auto& route : fabric::initial_routes(topology)) {
    BRDMA_CHECK(!route.ports.empty());
    for (const std::uint32_t port : route.ports) BRDMA_CHECK(port < fabric::ports_of(topology, route.at).size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{reinterpret_cast<const char*>(data), size};
  try {
    look_at(topology::parse_topology(text, "input"));
  } catch (const topology::TopologyError&) {
  }
  try {
    auto configuration = controller_program::parse_configuration(text);
    controller_program::ctl::Controller controller{std::move(configuration.map), configuration.settings, Instant{}};
    BRDMA_CHECK(!controller.poll());  // nobody is there
  } catch (const std::runtime_error&) {
  }
  return 0;
}
