// brdma-switch/requests/control_show.h - the switch's settings and counters as JSON: the answer to "show".
// docs/reference/cli.md has the keys.
#pragma once

#include <nlohmann/json.hpp>

#include "datapath/data_loop.h"
#include "fabric/link.h"
#include "fabric/network.h"
#include "forwarding/switch_core.h"

namespace brdma::lab {

[[nodiscard]] nlohmann::ordered_json describe_network(const fabric::NetworkConfig& config);
// In the loop's thread.
[[nodiscard]] nlohmann::ordered_json show_switch(SwitchCore& core, DataLoop& loop);

// Parts of it, for other cores.
[[nodiscard]] nlohmann::ordered_json link_json(const fabric::LinkCounters& counters);
[[nodiscard]] nlohmann::ordered_json queue_json(const fabric::OutputQueue<SwitchPacket>& queue, std::uint32_t classes);
[[nodiscard]] nlohmann::ordered_json trouble_json(const PortTrouble& trouble);
[[nodiscard]] nlohmann::ordered_json processing_json(const fabric::ProcessorCounters& counters);
[[nodiscard]] nlohmann::ordered_json edn_json(const fabric::DropNotifier& notifier);
[[nodiscard]] nlohmann::ordered_json ecn_json(const IpActions& actions);
[[nodiscard]] nlohmann::ordered_json flows_json(const fabric::FlowCounters& flows);

}  // namespace brdma::lab
