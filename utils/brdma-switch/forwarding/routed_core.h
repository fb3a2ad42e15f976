// brdma-switch/forwarding/routed_core.h - a topology in one process: several routers and the links between them, a host
// behind each port (fabric/routing/routed_fabric.h). Each router has its own functions beyond forwarding (drop notices,
// marks, flows).
//
// One process instead of one for each switch: a packet then meets the kernel only at its two ends, however many routers
// lie between, and the routers need no scheduling among each other. A router's failure is a failure of its links; each
// router has its own name, counters and routes on the control socket.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fabric/network.h"
#include "fabric/packet_pool.h"
#include "fabric/routing/routed_fabric.h"
#include "fabric/switch/link_state_agent.h"
#include "fabric/topology.h"
#include "feedback/drop_notices.h"
#include "feedback/ip_actions.h"
#include "forwarding/core.h"

namespace brdma::lab {

class RoutedCore : public Core {
 public:
  using Fabric = fabric::RoutedFabric<SwitchPacket>;
  // Parts of a router, beside its ports.
  struct Node {
    explicit Node(fabric::PacketPool& pool) : notices(pool), actions(pool) {}
    DropNotices notices;
    IpActions actions;
    std::optional<fabric::LinkStateAgent> agent;  // --link-state
  };
  // Active feedback of a router. In the data loop's thread: it must not wait.
  using ReportHandler = std::function<void(std::uint32_t router, const fabric::ActiveFeedback&)>;

  // `config`: options that the topology does not set.
  RoutedCore(fabric::PacketPool& pool, fabric::Topology topology, const fabric::NetworkConfig& config);

  void handle_packet(std::uint32_t port, const SwitchPacket& packet, const fabric::FrameInfo& info,
                     Instant now) override;
  void handle_timeout(Instant now) override;
  [[nodiscard]] std::optional<SwitchPacket> poll(std::uint32_t port, Instant now) override;
  [[nodiscard]] std::optional<Instant> next_timeout() const override;
  [[nodiscard]] nlohmann::ordered_json answer(const nlohmann::json& request, DataLoop& loop) override;

  [[nodiscard]] const fabric::Topology& topology() const { return topology_; }
  [[nodiscard]] const fabric::NetworkConfig& config() const { return config_; }
  [[nodiscard]] Fabric& fabric() { return fabric_; }
  [[nodiscard]] const Node& node(std::uint32_t router) const { return *nodes_[router]; }
  // The link's present options: both directions alike.
  [[nodiscard]] const fabric::NetworkConfig& link_config(std::uint32_t link) const { return link_configs_[link]; }
  void configure(const fabric::NetworkConfig& config, std::vector<fabric::NetworkConfig> links);  // all of it
  void configure_link(std::uint32_t link, const fabric::NetworkConfig& config);
  void set_link_up(std::uint32_t link, bool up);
  void on_report(ReportHandler handler) { report_handler_ = std::move(handler); }
  // A link was cut, came up, or has other options. The handler must not wait either.
  void on_link_change(std::function<void()> handler) { link_handler_ = std::move(handler); }
  // The agent's present view of a port.
  [[nodiscard]] fabric::PortFacts port_facts(std::uint32_t router, std::uint32_t port, Instant now);

 private:
  class Owner;
  [[nodiscard]] fabric::NetworkConfig initial_config(std::uint32_t link) const;
  [[nodiscard]] fabric::LinkConfig config_of(std::uint32_t link, bool back) const;
  void configure_nodes();
  void configure_translation(std::uint32_t router);
  void configure_agent(std::uint32_t router);
  void join_all();
  void serve_agent(std::uint32_t router, Instant now);
  void links_changed();

  fabric::PacketPool& pool_;
  fabric::Topology topology_;
  fabric::NetworkConfig config_;
  std::vector<fabric::NetworkConfig> link_configs_;
  Fabric fabric_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::uint64_t> built_rates_;  // of links, bytes a second, from the topology; 0: none
  ReportHandler report_handler_;
  std::function<void()> link_handler_;
};

}  // namespace brdma::lab
