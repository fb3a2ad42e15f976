// The network: a link for each two hosts with a connection, with paths, delays, rates and queues, and the faults of
// each direction.
#include <algorithm>
#include <iterator>

#include "worlds/draws.h"
#include "worlds/world_settings.h"

namespace brdma::test {
namespace {

// A connection that receives nothing for long enough ends, as it must: stay away from that. Bursts are counted in
// packets, and few are sent when all are lost; without bitmap mode a packet may be lost only so many times.
void draw_faults(fabric::ImpairmentConfig& faults, bool agree, Random& random) {
  if (one_in(random, 4)) return;
  const std::uint32_t loss_most = agree ? 200'000 : 30'000;
  if (!one_in(random, 3)) faults.loss_ppm = draw(random, 0, one_in(random, 2) ? loss_most : 20'000);
  if (agree && one_in(random, 4)) {
    faults.burst_loss_ppm = draw(random, 0, 20'000);
    faults.burst_length_mean = draw(random, 1, 4);
  }
  if (one_in(random, 2)) {
    faults.reorder_ppm = draw(random, 0, agree ? 300'000 : 50'000);
    faults.reorder_depth = draw(random, 1, 64);
  }
  if (one_in(random, 3)) faults.duplicate_ppm = draw(random, 0, 100'000);
  if (one_in(random, 3)) faults.corrupt_ppm = draw(random, 0, agree ? 50'000 : 10'000);
  if (one_in(random, 3)) faults.jitter = draw_up_to(random, 50_us);
}

// From a cable to a satellite.
Duration draw_delay(Random& random) {
  constexpr Duration kMost[] = {10_us, 100_us, 100_us, 100_us, 100_us, 1_ms, 10_ms, 100_ms};
  return 1_us + draw_up_to(random, kMost[random.below(std::size(kMost))] - 1_us);
}

LinkSettings draw_link(Sides<std::size_t> hosts, bool agree, Duration delay, Random& random) {
  LinkSettings link;
  link.hosts = hosts;
  link.agree = agree;
  link.clean.delay = delay;
  if (!one_in(random, 3)) link.clean.rate = Bandwidth::from_bps(draw(random, 1, 40) * std::uint64_t{1'000'000'000});
  link.clean.queue_bytes = one_in(random, 3) ? draw(random, 64 * 1024, 265'000) : 8u << 20;
  if (!one_in(random, 3)) {
    link.clean.paths = draw(random, 1, fabric::kLinkPathsMax);
    link.clean.skew = draw_up_to(random, one_in(random, 3) ? 1_ms : 100_us);
  }
  for (auto& way : link.faulty) {
    way = link.clean;
    draw_faults(way.impairments, agree, random);
    if (agree && one_in(random, 4)) way.path_loss_ppm[random.below(link.clean.paths)] = draw(random, 0, 200'000);
  }
  return link;
}

}  // namespace

void draw_network(WorldSettings& world, Random& random) {
  const bool alike = one_in(random, 2);
  const Duration delay = draw_delay(random);
  for (const ConnectionSettings& connection : world.connections) {
    const auto [a, b] = connection.hosts;
    const auto joins = [a = a, b = b](const LinkSettings& link) { return link.joins(a, b); };
    if (std::any_of(world.links.begin(), world.links.end(), joins)) continue;
    world.links.push_back(draw_link({a, b}, world.agree(connection), alike ? delay : draw_delay(random), random));
  }
}

}  // namespace brdma::test
