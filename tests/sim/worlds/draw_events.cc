// Events: processes without a core, programs that do not poll, silent links and paths, a crash and a restart.
#include <algorithm>

#include "worlds/draws.h"
#include "worlds/world_settings.h"

namespace brdma::test {
namespace {

Duration longest_delay(const WorldSettings& world) {
  Duration longest{};
  for (const LinkSettings& link : world.links) longest = std::max(longest, link.clean.delay);
  return longest;
}

void draw_absences(WorldSettings& world, Random& random) {
  EventSettings& events = world.events;
  for (std::size_t host = 0; host < world.hosts.size(); ++host) {
    for (std::uint64_t left = one_in(random, 3) ? random.below(5) : 0; left > 0; --left) {
      const Duration length = draw_up_to(random, one_in(random, 3) ? 4_ms : 100_us);
      events.absences.push_back({{draw_up_to(random, events.faults_last), length}, host});
    }
  }
}

// Shorter than the time after which a peer counts as dead.
void draw_silences(WorldSettings& world, Random& random) {
  EventSettings& events = world.events;
  for (std::size_t i = 0; i < world.links.size(); ++i) {
    const LinkSettings& link = world.links[i];
    if (!link.agree) continue;
    if (one_in(random, 8)) {
      events.silences.push_back({{draw_up_to(random, events.faults_last), draw_up_to(random, 5_ms)}, i, std::nullopt});
    }
    if (link.clean.paths > 1 && one_in(random, 3)) {
      const Duration longest = one_in(random, 2) ? 30_ms : 3_ms;
      events.silences.push_back({{draw_up_to(random, events.faults_last), draw_up_to(random, longest)},
                                 i,
                                 std::size_t{random.below(link.clean.paths)}});
    }
  }
}

void draw_polling_breaks(WorldSettings& world, Random& random) {
  EventSettings& events = world.events;
  for (std::size_t i = 0; i < world.connections.size(); ++i) {
    for (std::size_t side = 0; side < 2; ++side) {
      if (!one_in(random, 6)) continue;
      const Duration length = draw_up_to(random, one_in(random, 2) ? 20_ms : 500_us);
      events.polling_breaks.push_back({{draw_up_to(random, events.faults_last), length}, i, side});
    }
  }
}

// The crashed host restarts, soon or late, and its former peers connect again. None of its connections ends in a
// refusal: its expected result is defined only without a crash.
void draw_crash(WorldSettings& world, Random& random) {
  EventSettings& events = world.events;
  if (!one_in(random, 6)) return;
  const std::size_t host = random.below(world.hosts.size());
  const Duration away = draw_up_to(random, one_in(random, 2) ? 50_ms : 200_us);
  events.crash = Crash{{draw_up_to(random, events.faults_last), away}, host};
  std::erase_if(events.absences, [host](const Absence& absence) { return absence.host == host; });
  for (ConnectionSettings& connection : world.connections) {
    if (connection.hosts[0] != host && connection.hosts[1] != host) continue;
    connection.ends_in_error = false;
    if (!world.after_restart.empty() && one_in(random, 2)) continue;
    ConnectionSettings again = draw_connection(connection.hosts, random);
    again.ends_in_error = false;
    for (auto& traffic : again.traffic) traffic.bytes_max /= 4;
    world.after_restart.push_back(again);
  }
}

}  // namespace

void draw_events(WorldSettings& world, Random& random) {
  world.events.faults_last =
      draw_up_to(random, one_in(random, 4) ? 30_ms : 3_ms) + draw_up_to(random, longest_delay(world) * 8);
  draw_absences(world, random);
  draw_silences(world, random);
  draw_polling_breaks(world, random);
  draw_crash(world, random);
}

}  // namespace brdma::test
