#include "forwarding/switch_core.h"

#include <nlohmann/json.hpp>

#include "forwarding/packet_owner.h"
#include "requests/control.h"
#include "requests/control_show.h"

namespace brdma::lab {

SwitchCore::SwitchCore(fabric::PacketPool& pool, const std::vector<std::string>& hosts,
                       const fabric::NetworkConfig& config)
    : pool_(pool), fabric_(hosts, config), notices_(pool), actions_(pool) {
  configure_feedback(config);
}

void SwitchCore::configure_feedback(const fabric::NetworkConfig& config) {
  notices_.configure(config.edn);
  actions_.configure(config, fabric::increment_of(config, fabric_.port_count(), config.link.rate));
}

void SwitchCore::configure(const fabric::NetworkConfig& config) {
  fabric_.configure(config);
  configure_feedback(config);
}

void SwitchCore::handle_packet(std::uint32_t port, const SwitchPacket& packet, const fabric::FrameInfo& info,
                               Instant now) {
  PacketOwner owner{pool_, &notices_, &actions_};
  fabric_.handle_packet(port, packet, info, packet.size, now, owner);
}

void SwitchCore::handle_timeout(Instant now) {
  PacketOwner owner{pool_, &notices_, &actions_};
  fabric_.handle_timeout(now, owner);
  notices_.handle_timeout(now);
  fabric::FrameInfo info;
  while (const auto packet = notices_.poll(info)) fabric_.send(*packet, info, packet->size, now, owner);
}

std::optional<SwitchPacket> SwitchCore::poll(std::uint32_t port, Instant now) {
  PacketOwner owner{pool_, &notices_, &actions_};
  return fabric_.poll(port, now, owner);
}

std::optional<Instant> SwitchCore::next_timeout() const {
  auto next = fabric_.next_timeout();
  if (const auto silent = notices_.next_timeout(); silent && (!next || *silent < *next)) next = silent;
  return next;
}

nlohmann::ordered_json SwitchCore::answer(const nlohmann::json& request, DataLoop& loop) {
  const std::string command = request.at("command");
  if (command == "show") return show_switch(*this, loop);
  if (command != "set") return failure("unknown command '" + command + "'");
  fabric::NetworkConfig config = fabric_.config();
  if (const auto error = take_options(request, config)) return failure(*error);
  if (config.link_state) return failure("link-state needs a topology: one Ethernet switch is no hop");
  configure(config);
  return {{"ok", true}, {"network", describe_network(config)}};
}

}  // namespace brdma::lab
