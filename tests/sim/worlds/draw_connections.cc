// Connections: their hosts, the traffic of each side, and queue pairs' attributes that fit the network.
#include <algorithm>
#include <iterator>

#include "worlds/draws.h"
#include "worlds/world_settings.h"

namespace brdma::test {
namespace {

constexpr PathMtu kMtus[] = {PathMtu::k256,  PathMtu::k512,  PathMtu::k1024,
                             PathMtu::k1024, PathMtu::k2048, PathMtu::k4096};
constexpr std::uint64_t kConnectionsMax = 12;

EndpointConfig draw_endpoint(Random& random) {
  EndpointConfig endpoint;
  endpoint.first_psn =
      one_in(random, 2) ? Psn{0xFFFFFFu - draw(random, 0, 300)} : Psn{static_cast<std::uint32_t>(random.next())};
  endpoint.timeout = static_cast<std::uint8_t>(draw(random, 10, 13));  // 4 .. 34 ms; dead after 8 of them in silence
  endpoint.rd_atomic_max = static_cast<std::uint8_t>(draw(random, 1, 16));
  endpoint.send_wr_max = one_in(random, 8) ? draw(random, 1, 8) : draw(random, 8, 67);
  endpoint.receive_wr_max = draw(random, 1, 64);
  endpoint.min_rnr_timer = static_cast<std::uint8_t>(draw(random, 1, 10));  // 10 us .. 320 us
  endpoint.inline_bytes_max = one_in(random, 2) ? 0 : draw(random, 0, 220);
  endpoint.signal_all = one_in(random, 4);
  return endpoint;
}

TrafficConfig draw_traffic(Random& random) {
  TrafficConfig traffic;
  traffic.bytes_max = one_in(random, 6) ? 1200 * 1024 : draw(random, 20'000, 220'000);
  if (one_in(random, 5)) traffic.operation_bytes_max = 256;  // many small ones
  switch (random.below(12)) {                                // some have only half the kinds
    case 0:
      traffic.reads = traffic.atomics = false;
      break;
    case 1:
      traffic.sends = traffic.writes = false;
      break;
    default:
      break;
  }
  return traffic;
}

// The local ACK timeout is at least two round trips: else a standard peer goes back needlessly for ever.
void fit_timeout(EndpointConfig& endpoint, const LinkSettings& link) {
  const Duration least = link.round_trip() * 2 + 1_ms;
  while (Duration::from_ns(std::int64_t{4096} << endpoint.timeout) < least) ++endpoint.timeout;
}

bool answers_may_be_lost(const WorldSettings& world, const ConnectionSettings& connection) {
  const LinkSettings& link = world.link_of(connection);
  const sim::HostConfig& host = world.hosts[connection.hosts[0]];
  const std::size_t back = link.hosts[0] == connection.hosts[0] ? 1 : 0;
  return link.faulty[back] != link.clean || !world.events.silences.empty() || link.clean.queue_bytes < (8u << 20) ||
         host.socket_packets != sim::HostConfig{}.socket_packets;
}

}  // namespace

ConnectionSettings draw_connection(Sides<std::size_t> hosts, Random& random) {
  ConnectionSettings connection;
  connection.hosts = hosts;
  connection.seed = random.next();
  const PathMtu mtu = kMtus[random.below(std::size(kMtus))];
  const TrafficConfig kinds = draw_traffic(random);
  connection.ends_in_error = one_in(random, 12);
  for (std::size_t side = 0; side < 2; ++side) {
    connection.endpoints[side] = draw_endpoint(random);
    connection.endpoints[side].mtu = mtu;
    TrafficConfig& traffic = connection.traffic[side];
    traffic = kinds;
    traffic.mtu = mtu_bytes(mtu);
    traffic.inline_bytes_max = connection.endpoints[side].inline_bytes_max;
    traffic.sges_max = connection.endpoints[side].sges_max;
    if (side == 1 && one_in(random, 4)) traffic.operations_max = 1;
  }
  return connection;
}

void draw_connections(WorldSettings& world, Random& random) {
  const std::uint64_t hosts = world.hosts.size();
  std::uint64_t count = one_in(random, 3) ? 1 + random.below(4) : 1;
  if (hosts > 2) count = draw(random, hosts - 1, kConnectionsMax);
  for (std::uint64_t i = 0; i < count; ++i) {
    // Every host has at least one; the others are between any two.
    const std::size_t a = i + 1 < hosts ? i + 1 : random.below(hosts);
    const std::size_t b = i + 1 < hosts ? random.below(i + 1) : (a + 1 + random.below(hosts - 1)) % hosts;
    world.connections.push_back(draw_connection({a, b}, random));
    for (auto& traffic : world.connections.back().traffic) traffic.bytes_max = traffic.bytes_max * 2 / (count + 1);
  }
}

void draw_endpoints(WorldSettings& world, Random&) {
  for (auto* list : {&world.connections, &world.after_restart}) {
    for (ConnectionSettings& connection : *list) {
      connection.traffic[0].ends_in_error = connection.ends_in_error;
      if (connection.ends_in_error) connection.traffic[1].operations_max = 0;
      for (EndpointConfig& endpoint : connection.endpoints) fit_timeout(endpoint, world.link_of(connection));
      connection.endpoints[0].refusal_may_be_lost = answers_may_be_lost(world, connection);
    }
  }
}

}  // namespace brdma::test
