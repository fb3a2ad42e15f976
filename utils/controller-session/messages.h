// controller-session/messages.h - messages between switches, hosts and their controller
// (docs/explanation/wan.md#sessions): values, and their text form, a JSON object with a "type". A malformed message is
// refused as a whole; members that a newer version added are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "control/address_text.h"
#include "fabric/controller/controller.h"

namespace brdma::session {

namespace ctl = fabric::controller;

inline constexpr unsigned kVersion = 1;
inline constexpr std::size_t kMessageMax = std::size_t{1} << 20;
inline constexpr std::size_t kNameMax = 64;  // letters, digits, '.', '_', '-', ':'
inline constexpr std::size_t kPortsMax = 1024, kRoutesMax = 4096, kFlowsMax = 64, kHopsMax = 64;

// From a member, the first message.
struct SwitchGreeting {
  unsigned version = kVersion;
  ctl::SwitchHello hello;
};
struct HostGreeting {
  unsigned version = kVersion;
  ctl::HostHello hello;
};
// From the controller, the first message.
struct Welcome {
  unsigned version = kVersion;
};
// From a switch.
struct RoutesInstalled {
  std::uint64_t epoch = 0;
  bool installed = false;
};
struct LinkReports {
  std::vector<ctl::PortReport> ports;
};
struct ActiveFeedback {
  ctl::PortReport port;
  std::vector<ctl::FlowEnds> flows;
};
// From a host.
struct PassiveFeedback {
  ctl::FlowEnds flow;
  std::vector<ctl::HopReport> hops;
};
// From the controller.
struct Routes {
  std::uint64_t epoch = 0;
  std::vector<ctl::PortRoute> routes;
};
struct ControlPacket {
  IpAddress destination;
  std::uint32_t congested_links = 0;
};
// From both, so that silence is a sign of failure.
struct Alive {};

using Message = std::variant<Alive, SwitchGreeting, HostGreeting, Welcome, RoutesInstalled, LinkReports, ActiveFeedback,
                             PassiveFeedback, Routes, ControlPacket>;

struct Parsed {
  bool ok = false;
  Message message;
  std::string error;  // a sentence for the log
};
[[nodiscard]] Parsed parse_message(std::string_view text);
[[nodiscard]] std::string message_text(const Message& message);

[[nodiscard]] bool good_name(std::string_view name);
[[nodiscard]] std::string prefix_text(const fabric::Prefix& prefix);
[[nodiscard]] std::optional<fabric::Prefix> parse_prefix(const std::string& text);

}  // namespace brdma::session
