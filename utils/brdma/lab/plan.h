// lab/plan.h - what a lab is made of: names, addresses, the network. Known to whoever asks for it and to its keeper.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/frame.h"
#include "fabric/network.h"

namespace brdma::lab {

inline constexpr std::uint32_t kHostsMax = 64;
inline constexpr const char* kHostInterface = "eth0";

// NETWORK as it was given: option name to value text, checked. Empty: hosts joined without the switch.
using NetworkOptions = std::map<std::string, std::string, std::less<>>;

struct LabPlan {
  std::string name = "lab";
  std::uint32_t hosts = 2;
  NetworkOptions network;

  // mtu and seed alone impair nothing: they do not call for the switch.
  [[nodiscard]] bool wants_switch() const {
    for (const auto& [option, value] : network) {
      if (option != "mtu" && option != "seed") return true;
    }
    return false;
  }
  [[nodiscard]] std::uint32_t interface_mtu() const { return fabric::interface_mtu(number("mtu", 4096)); }
  [[nodiscard]] std::uint32_t paths() const { return number("paths", 1); }

 private:
  [[nodiscard]] std::uint32_t number(std::string_view option, std::uint32_t otherwise) const {
    const auto found = network.find(option);
    return found == network.end() ? otherwise : static_cast<std::uint32_t>(std::stoul(found->second));
  }
};

// Hosts are numbered from 1.
[[nodiscard]] inline std::string host_name(std::uint32_t host) { return "h" + std::to_string(host); }
[[nodiscard]] inline std::string host_ipv4(std::uint32_t host) { return "10.77.0." + std::to_string(host); }
[[nodiscard]] inline std::string host_ipv6(std::uint32_t host) {
  // The number is written in decimal digits, so that h12 is ...::12.
  return "fd77::" + std::to_string(host);
}
// Locally administered, holding the IPv4 address.
[[nodiscard]] constexpr fabric::MacAddress host_mac(std::uint32_t host) { return 0x0200'0A4D'0000u + host; }
[[nodiscard]] constexpr fabric::MacAddress switch_mac(std::uint32_t host) { return 0x0200'0A4D'0100u + host; }

// Interface indices: a host's, and of its link's other end (lab/netlink.h: they must differ).
[[nodiscard]] constexpr std::uint32_t host_index(std::uint32_t host) { return 10 + host; }
[[nodiscard]] constexpr std::uint32_t switch_index(std::uint32_t host) { return 1000 + host; }

// A name that can be part of a socket's: letters, digits, '-', '_', '.'; 1 to 40 characters.
[[nodiscard]] inline bool is_lab_name(const std::string& name) {
  if (name.empty() || name.size() > 40) return false;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

}  // namespace brdma::lab
