// run/models.h - flows between hosts that run models of other protocols (run/model_host.h), for a simulation. A build
// without the models has none: make_model_flows() returns null, and there are no names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "run/flows.h"
#include "run/standalone.h"
#include "scenario/scenario.h"
#include "sim/world.h"

namespace brdma::simulator {

struct ModelCounts {
  std::uint64_t sent = 0;  // data frames, for the first time
  std::uint64_t timeouts = 0, notices = 0;
  std::map<std::string, std::uint64_t> retransmitted;  // by the names of the engine's counters
};

class ModelFlows {
 public:
  virtual ~ModelFlows() = default;
  // In the order of the shape's hosts, those that run models alone. Its plan outlives this.
  virtual sim::Station& add_host(std::uint32_t number, const IpAddress& address, const std::optional<Bandwidth>& rate,
                                 const ProtocolPlan& plan) = 0;
  // Both of its hosts run models; the sender's protocol counts.
  virtual void begin(std::size_t id, const Flow& flow, Instant now) = 0;
  // Flows of that host that are done since the last call.
  virtual void take_done(sim::Station& host, FunctionRef<void(std::size_t)> done) = 0;
  [[nodiscard]] virtual ModelCounts counts() const = 0;
  // Of a flow of that host: its packets, and the payload of a full one.
  [[nodiscard]] virtual std::pair<PacketSizes, std::uint32_t> sizes(std::uint32_t host) const = 0;
};

[[nodiscard]] std::vector<std::string_view> model_names();
[[nodiscard]] bool is_notified_model(std::string_view name);  // it applies drop notifications
[[nodiscard]] std::unique_ptr<ModelFlows> make_model_flows(sim::World& world, sim::RoutedNetwork& network,
                                                           const Scenario& scenario, const Shape& shape);

}  // namespace brdma::simulator
