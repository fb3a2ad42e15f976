// brdma-switch/forwarding/switch_core.h - one Ethernet switch with a host behind each port (fabric/switch/switch.h).
#pragma once

#include <string>
#include <vector>

#include "fabric/network.h"
#include "fabric/packet_pool.h"
#include "fabric/switch/switch.h"
#include "feedback/drop_notices.h"
#include "feedback/ip_actions.h"
#include "forwarding/core.h"

namespace brdma::lab {

class SwitchCore : public Core {
 public:
  SwitchCore(fabric::PacketPool& pool, const std::vector<std::string>& hosts, const fabric::NetworkConfig& config);

  void handle_packet(std::uint32_t port, const SwitchPacket& packet, const fabric::FrameInfo& info,
                     Instant now) override;
  void handle_timeout(Instant now) override;
  [[nodiscard]] std::optional<SwitchPacket> poll(std::uint32_t port, Instant now) override;
  [[nodiscard]] std::optional<Instant> next_timeout() const override;
  [[nodiscard]] nlohmann::ordered_json answer(const nlohmann::json& request, DataLoop& loop) override;

  [[nodiscard]] fabric::Switch<SwitchPacket>& fabric() { return fabric_; }
  [[nodiscard]] const DropNotices& drop_notices() const { return notices_; }
  [[nodiscard]] const IpActions& ip_actions() const { return actions_; }
  void configure(const fabric::NetworkConfig& config);

 private:
  void configure_feedback(const fabric::NetworkConfig& config);

  fabric::PacketPool& pool_;
  fabric::Switch<SwitchPacket> fabric_;
  DropNotices notices_;
  IpActions actions_;
};

}  // namespace brdma::lab
