// lab/network/plan.h - the parts of a lab: names, addresses, the network. Known to the client and to the keeper.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/network.h"
#include "fabric/routing/frame.h"
#include "fabric/topology.h"

namespace brdma::lab {

inline constexpr std::uint32_t kHostsMax = 64;
inline constexpr const char* kHostInterface = "eth0";

// NETWORK as it was given: option name to value text, checked. Empty: hosts joined without the switch.
using NetworkOptions = std::map<std::string, std::string, std::less<>>;

struct LabPlan {
  std::string name = "lab";
  std::uint32_t hosts = 2;
  NetworkOptions network;
  // Several switches (docs/reference/lab.md#several-switches): the text, and its parsed form; none: one network of all
  // hosts.
  std::string topology_text;
  std::shared_ptr<const fabric::Topology> topology;
  std::string controller, controller_key;  // of its switches: its endpoint, a file; none: empty

  // mtu and seed alone impair nothing: they do not need the switch.
  [[nodiscard]] bool wants_switch() const {
    if (topology) return true;
    for (const auto& [option, value] : network) {
      if (option != "mtu" && option != "seed") return true;
    }
    return false;
  }
  [[nodiscard]] std::uint32_t interface_mtu() const { return fabric::interface_mtu(number("mtu", 4096)); }
  [[nodiscard]] std::uint32_t paths() const { return number("paths", 1); }
  // The rate at which `host` can send, in whole Mbit/s, rounded up; the rate of its link if the direction to the switch
  // has none. 0: no rate.
  [[nodiscard]] std::uint32_t port_rate_mbps(std::uint32_t host) const;

  // Hosts are numbered from 1.
  [[nodiscard]] std::string host_ipv4(std::uint32_t host) const;
  [[nodiscard]] std::string host_ipv6(std::uint32_t host) const;

 private:
  [[nodiscard]] std::uint32_t number(std::string_view option, std::uint32_t otherwise) const {
    const auto found = network.find(option);
    return found == network.end() ? otherwise : static_cast<std::uint32_t>(std::stoul(found->second));
  }
};

[[nodiscard]] inline std::string host_name(std::uint32_t host) { return "h" + std::to_string(host); }
// Host 254 is a gateway, also without a topology. The subnet is of switch `at`.
[[nodiscard]] inline std::string subnet_ipv4(std::optional<std::uint32_t> at, std::uint32_t host) {
  return "10.77." + std::to_string(at ? *at + 1 : 0) + "." + std::to_string(host);
}
[[nodiscard]] inline std::string subnet_ipv6(std::optional<std::uint32_t> at, std::uint32_t host) {
  // The numbers are written in decimal digits, so that h12 is ...::12.
  return (at ? "fd77:0:0:" + std::to_string(*at + 1) : "fd77") + "::" + std::to_string(host);
}
// Locally administered.
[[nodiscard]] constexpr fabric::MacAddress host_mac(std::uint32_t host) { return fabric::topology_host_mac(host - 1); }
[[nodiscard]] constexpr fabric::MacAddress switch_mac(std::uint32_t host) {
  return fabric::topology_port_mac(host - 1);
}

// Interface indices: a host's, and of its link's other end (lab/network/netlink.h: they must differ).
[[nodiscard]] constexpr std::uint32_t host_index(std::uint32_t host) { return 10 + host; }
[[nodiscard]] constexpr std::uint32_t switch_index(std::uint32_t host) { return 1000 + host; }

inline std::string LabPlan::host_ipv4(std::uint32_t host) const {
  return subnet_ipv4(topology ? std::optional{topology->hosts[host - 1].at} : std::nullopt, host);
}
inline std::string LabPlan::host_ipv6(std::uint32_t host) const {
  return subnet_ipv6(topology ? std::optional{topology->hosts[host - 1].at} : std::nullopt, host);
}

inline std::uint32_t LabPlan::port_rate_mbps(std::uint32_t host) const {
  fabric::NetworkConfig config;
  for (const auto& [option, value] : network) (void)fabric::set_option(config, option, value);
  if (topology) {
    config.link.rate.reset();  // the rate of links between switches
    for (const auto& [option, value] : topology->hosts[host - 1].options) {
      (void)fabric::set_option(config, option, value);
    }
  }
  const auto uplink = config.uplink_config().rate;
  const auto rate = uplink ? uplink : config.link.rate;
  return rate ? static_cast<std::uint32_t>((rate->bps() + 999'999) / 1'000'000) : 0;
}

// A name that can be part of a socket's name: letters, digits, '-', '_', '.'; 1 to 40 characters.
[[nodiscard]] inline bool is_lab_name(const std::string& name) {
  if (name.empty() || name.size() > 40) return false;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

}  // namespace brdma::lab
