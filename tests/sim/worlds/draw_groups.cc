// Groups of senders of other kinds than connections: UC, UD, RC with a shared receive queue, RC through memory windows.
#include <iterator>

#include "worlds/draws.h"
#include "worlds/world_settings.h"

namespace brdma::test {
namespace {

constexpr std::uint64_t kIova = std::uint64_t{1} << 60;
constexpr PathMtu kMtus[] = {PathMtu::k256, PathMtu::k1024, PathMtu::k4096};

bool duplicates(const LinkSettings& link) {
  return link.faulty[0].impairments.duplicate_ppm != 0 || link.faulty[1].impairments.duplicate_ppm != 0;
}

GroupSettings draw_group(const WorldSettings& world, Random& random) {
  GroupSettings group;
  constexpr QpType kTypes[] = {QpType::kUc, QpType::kUd, QpType::kRc, QpType::kRc};
  group.type = kTypes[random.below(std::size(kTypes))];
  group.receiver = random.below(world.hosts.size());
  const std::uint64_t most = group.type == QpType::kUc ? 1 : 3;  // each UC queue pair would have receives of its own
  for (std::size_t host = 0; host < world.hosts.size() && group.senders.size() < most; ++host) {
    if (world.link_between(host, group.receiver) != nullptr) group.senders.push_back(host);
  }
  group.windows = group.type == QpType::kRc && one_in(random, 2);
  group.second_type = one_in(random, 2);
  group.shared =
      (group.type == QpType::kRc && group.senders.size() > 1) || (group.type != QpType::kUc && one_in(random, 2));
  group.mtu = kMtus[random.below(std::size(kMtus))];
  group.first_psn = one_in(random, 2) ? Psn{0xFFFFFFu - draw(random, 0, 30)} : Psn{draw(random, 0, 0xFFFFFF)};
  group.messages = draw(random, 2, 40);
  group.receives = draw(random, 1, 16);
  const std::uint32_t packets = group.type == QpType::kUd ? 1 : draw(random, 1, 6);
  group.bytes_max = draw(random, 1, std::uint64_t{packets} * mtu_bytes(group.mtu));
  for (const std::size_t sender : group.senders) {
    const LinkSettings& link = *world.link_between(sender, group.receiver);
    group.duplicated = group.duplicated || duplicates(link);
    while (Duration::from_ns(std::int64_t{4096} << group.timeout) < link.round_trip() * 2 + 1_ms) ++group.timeout;
  }
  group.iova = kIova;
  group.seed = random.next();
  return group;
}

}  // namespace

// Only without a crash: the remains of such a group are another question.
void draw_groups(WorldSettings& world, Random& random) {
  if (world.events.crash || !one_in(random, 2)) return;
  world.groups.push_back(draw_group(world, random));
}

}  // namespace brdma::test
