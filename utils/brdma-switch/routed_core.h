// brdma-switch/routed_core.h - a topology in one process: several routers and the links between them, a host behind
// each port (fabric/routed_fabric.h). What each router does beyond forwarding (drop notices, marks, flows) is its own.
//
// One process and not one a switch: a packet then meets the kernel at its two ends alone, however many routers lie
// between, and the routers need no scheduling among each other. A router's failure is that of its links; each has its
// own name, counters and routes on the control socket.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core.h"
#include "drop_notices.h"
#include "fabric/network.h"
#include "fabric/packet_pool.h"
#include "fabric/routed_fabric.h"
#include "fabric/topology.h"
#include "ip_actions.h"

namespace brdma::lab {

class RoutedCore : public Core {
 public:
  using Fabric = fabric::RoutedFabric<SwitchPacket>;
  // Of a router, beside its ports.
  struct Node {
    explicit Node(fabric::PacketPool& pool) : notices(pool), actions(pool) {}
    DropNotices notices;
    IpActions actions;
  };

  // `config`: what holds where the topology says nothing else.
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
  // As the link is now: both directions alike.
  [[nodiscard]] const fabric::NetworkConfig& link_config(std::uint32_t link) const { return link_configs_[link]; }
  void configure(const fabric::NetworkConfig& config, std::vector<fabric::NetworkConfig> links);  // all of it
  void configure_link(std::uint32_t link, const fabric::NetworkConfig& config);
  void set_link_up(std::uint32_t link, bool up);

 private:
  class Owner;
  [[nodiscard]] fabric::NetworkConfig initial_config(std::uint32_t link) const;
  [[nodiscard]] fabric::LinkConfig config_of(const fabric::NetworkConfig& config) const;
  void configure_nodes();
  void join_all();

  fabric::PacketPool& pool_;
  fabric::Topology topology_;
  fabric::NetworkConfig config_;
  std::vector<fabric::NetworkConfig> link_configs_;
  Fabric fabric_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace brdma::lab
