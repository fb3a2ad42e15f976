// sim/worlds/world_settings.h - all decisions of a seed about a random world before it runs, as plain values. By
// subject, each drawn from a random stream and by a file of its own: hosts, connections with their traffic, the
// network, events.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "fabric/link.h"
#include "fabric/switch/drop_notifier.h"
#include "fabric/switch/rtt_translator.h"
#include "sim/host.h"
#include "support/endpoint.h"
#include "support/traffic.h"

namespace brdma::test {

// Of a connection or a link, by side.
template <class T>
using Sides = std::array<T, 2>;

struct ConnectionSettings {
  Sides<std::size_t> hosts{};
  Sides<EndpointConfig> endpoints;
  Sides<TrafficConfig> traffic;
  bool ends_in_error = false;  // [1] refuses [0]'s last request; [1] itself requests nothing
  std::uint64_t seed = 0;      // of the traffic, and of its posting times
};

// One receiver's group of senders (message_group.h): UC, UD, or RC with a shared receive queue or memory windows.
struct GroupSettings {
  QpType type = QpType::kUc;
  bool shared = false;  // receives of a shared queue
  bool windows = false, second_type = false;
  bool duplicated = false;  // the network may deliver twice
  std::size_t receiver = 0;
  std::vector<std::size_t> senders;
  PathMtu mtu = PathMtu::k1024;
  Psn first_psn;
  std::uint8_t timeout = 12;
  std::uint32_t messages = 1, receives = 1, bytes_max = 0;
  std::uint64_t iova = 0, seed = 0;
};

// Between two hosts that have a connection.
struct LinkSettings {
  Sides<std::size_t> hosts{};
  bool agree = true;  // both hosts negotiate bitmap mode
  fabric::LinkConfig clean;
  Sides<fabric::LinkConfig> faulty;  // a side's outgoing link while there are faults

  [[nodiscard]] bool joins(std::size_t a, std::size_t b) const {
    return (hosts[0] == a && hosts[1] == b) || (hosts[0] == b && hosts[1] == a);
  }
  // Longest round trip while no queue has formed.
  [[nodiscard]] Duration round_trip() const { return (clean.delay + clean.skew) * 2; }
};

// The same for all links; marks are a link's own.
struct SwitchSettings {
  fabric::DropNotifier::Config edn;  // off: drops are not reported
  std::optional<fabric::RttTranslator::Config> translation;
};

// Times count from the world's beginning.
struct Span {
  Duration from, length;
};
struct Absence : Span {  // a process has no core
  std::size_t host = 0;
};
struct Silence : Span {  // a link, or one path of it, passes nothing
  std::size_t link = 0;
  std::optional<std::size_t> path;
};
struct PollingBreak : Span {  // a program neither posts nor polls
  std::size_t connection = 0, side = 0;
};
struct Crash : Span {  // a host crashes and comes back after `length`
  std::size_t host = 0;
};

struct EventSettings {
  Duration faults_last;
  std::vector<Absence> absences;
  std::vector<Silence> silences;
  std::vector<PollingBreak> polling_breaks;
  std::optional<Crash> crash;
};

struct WorldSettings {
  std::vector<sim::HostConfig> hosts;
  bool one_machine = false;  // the hosts are processes of one machine, and may read each other's memory
  std::vector<ConnectionSettings> connections;
  std::vector<ConnectionSettings> after_restart;  // begun when the crashed host is back
  std::vector<GroupSettings> groups;
  std::vector<LinkSettings> links;
  SwitchSettings switches;
  EventSettings events;

  [[nodiscard]] bool agree(const ConnectionSettings& connection) const;  // both sides negotiate bitmap mode
  [[nodiscard]] bool all_agree() const;
  [[nodiscard]] bool all_in(RecoveryMode mode) const;
  [[nodiscard]] bool any_in(RecoveryMode mode) const;
  [[nodiscard]] bool corrupts() const;
  // Nothing but delays, rates and queues.
  [[nodiscard]] bool faultless() const;
  // Round trips and differences between paths are within the engine's assumptions before it has measured them.
  [[nodiscard]] bool near() const;
  [[nodiscard]] const LinkSettings& link_of(const ConnectionSettings& connection) const;
  [[nodiscard]] const LinkSettings* link_between(std::size_t a, std::size_t b) const;  // null: they have none
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] WorldSettings draw_world(std::uint64_t seed);

// In this order: each reads the decisions of those before it.
void draw_hosts(WorldSettings& world, Random& random);        // draw_hosts.cc
void draw_machine(WorldSettings& world, Random& random);      // likewise: are they one machine
void draw_connections(WorldSettings& world, Random& random);  // draw_connections.cc: their hosts and traffic
void draw_network(WorldSettings& world, Random& random);      // draw_network.cc
void draw_switches(WorldSettings& world, Random& random);     // draw_switches.cc: their functions, the hosts' reactions
void draw_events(WorldSettings& world, Random& random);       // draw_events.cc
void draw_endpoints(WorldSettings& world, Random& random);    // draw_connections.cc: times that fit the network
void draw_groups(WorldSettings& world, Random& random);       // draw_groups.cc: other kinds of queue pairs
// Of one connection.
[[nodiscard]] ConnectionSettings draw_connection(Sides<std::size_t> hosts, Random& random);

}  // namespace brdma::test
