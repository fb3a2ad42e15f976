// fabric/controller/member_messages.h - messages between a controller and its members, switches and hosts, as values
// (docs/design/wan-transport.md; their text: docs/explanation/wan.md). Each of them may come from a hostile member.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/ip_address.h"
#include "fabric/controller/link_health.h"
#include "fabric/controller/network_map.h"

namespace brdma::fabric::controller {

struct PortRoute {
  Prefix prefix;
  std::vector<std::string> ports;
};
struct PortPeer {  // a switch's report of a port's other end
  std::string port, peer_switch, peer_port;
  LinkFacts facts;
  std::uint32_t number = 0;  // names the port in passive feedback
};
struct SwitchHello {
  std::string id;
  std::uint64_t epoch = 0;  // of the last routes installed
  std::vector<PortPeer> links;
  std::vector<Prefix> prefixes;  // behind it
  std::vector<PortRoute> routes;
  std::uint32_t number = 0;  // names the switch in passive feedback; 0: none
};
struct HostHello {
  std::string id;
  std::vector<IpAddress> addresses;
};
struct PortReport {
  std::string port;
  LinkReport report;
};
struct FlowEnds {
  IpAddress source, destination;
};
struct HopReport {  // of passive feedback: docs/reference/wire.md#link-state
  std::uint32_t switch_number = 0, port_number = 0;
  LinkReport report;
};

// Actions for the driver.
struct InstallRoutes {
  std::string switch_id;
  std::uint64_t epoch = 0;
  std::vector<PortRoute> routes;
};
struct LowerDestination {  // the control packet of design WT-13
  std::string host_id;
  IpAddress destination;
  std::uint32_t congested_links = 0;
};
struct CutOff {  // end its session: it does not answer
  std::string switch_id;
};
using Order = std::variant<InstallRoutes, LowerDestination, CutOff>;

}  // namespace brdma::fabric::controller
