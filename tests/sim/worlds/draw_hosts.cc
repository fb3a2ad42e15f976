// Hosts: two to eight, their engines' settings, the sizes of their sockets.
#include <algorithm>

#include "worlds/draws.h"
#include "worlds/world_settings.h"

namespace brdma::test {
namespace {

constexpr RecoveryMode kModes[] = {RecoveryMode::kBitmap, RecoveryMode::kStandard, RecoveryMode::kGoBackN};

void draw_windows(RecoveryConfig& recovery, Random& random) {
  recovery.window_packets = 64u << random.below(7);
  recovery.standard_window_packets = draw(random, 8, 107);
  recovery.base_packets = 64u << random.below(2);
  recovery.segment_packets = 64u << random.below(3);
  recovery.extension_packets = 64u << random.below(4);
  if (one_in(random, 2)) recovery.granularity = 1u << random.below(7);
  if (one_in(random, 2)) recovery.slide_step = 1u << random.below(6);
  if (one_in(random, 4)) recovery.state_bytes_max = 1u << 16;
}

void draw_recovery(RecoveryConfig& recovery, Random& random) {
  draw_windows(recovery, random);
  recovery.ack_packets = draw(random, 1, 32);
  if (one_in(random, 4)) recovery.hold_bytes_max = draw(random, 0, 60'000);
  if (one_in(random, 4)) {
    recovery.depth_max = draw(random, 0, 40);
    recovery.age_max = draw_up_to(random, 200_us);
    recovery.stall_max = draw_up_to(random, 300_us);
  }
  if (one_in(random, 4)) recovery.adaptive = false;
  if (one_in(random, 8)) recovery.aggregate_delay = draw_up_to(random, 50_us);
  if (one_in(random, 8)) recovery.resend_window = draw(random, 1, 64);
}

// Several ports in every second world's engines; a peer may distinguish fewer.
void draw_paths(EngineConfig& engine, Random& random) {
  const std::uint32_t paths = one_in(random, 2) ? 1 : draw(random, 2, 8);
  engine.recovery.paths = paths;
  for (std::uint16_t path = 1; path < paths; ++path) {
    engine.source_ports.push_back(static_cast<std::uint16_t>(0xC000 + path));
  }
  if (one_in(random, 3)) engine.recovery.path_bitmaps = draw(random, 1, kPathsMax);
  engine.recovery.spraying = static_cast<Spraying>(random.below(3));
}

// Large transfers in two engines of three, from a size on that many messages reach; escape channels down to none.
void draw_transfers(TransferConfig& transfer, Random& random) {
  if (!one_in(random, 3)) {
    transfer.threshold_bytes = draw(random, 1, 12'000);
    if (!one_in(random, 8)) transfer.segment_bytes = 256u << random.below(8);
  }
  if (one_in(random, 3)) transfer.escape_bytes_max = draw(random, 0, 30'000);
  if (one_in(random, 3)) transfer.escape_time = 10_us + draw_up_to(random, 300_us);
  transfer.regular_turns = draw(random, 1, 20);
}

EngineConfig draw_engine(Random& random) {
  EngineConfig engine;
  engine.segments_max = one_in(random, 3) ? 1 : draw(random, 1, 64);
  engine.ip_id_counts_in_batch = !one_in(random, 4);
  engine.receive_packets = one_in(random, 6) ? draw(random, 2, 16) : draw(random, 16, 515);
  engine.receive_bytes = one_in(random, 6) ? draw(random, 9'000, 40'000) : draw(random, 40'000, 440'000);
  draw_recovery(engine.recovery, random);
  draw_paths(engine, random);
  draw_transfers(engine.transfer, random);
  engine.seed = random.next();
  return engine;
}

IpAddress address_of(std::size_t host, bool v6) {
  const auto number = static_cast<std::uint8_t>(host + 1);
  if (!v6) return IpAddress::v4(10, 77, 0, number);
  return IpAddress{{0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number}};
}

}  // namespace

// One of sixteen worlds in the baseline mode (loss judged as TCP does), four in the modes for long paths.
constexpr RecoveryMode kCommonModes[] = {
    RecoveryMode::kSelective,   RecoveryMode::kWan,    RecoveryMode::kWan,    RecoveryMode::kWanFeedback,
    RecoveryMode::kWanFeedback, RecoveryMode::kBitmap, RecoveryMode::kBitmap, RecoveryMode::kBitmap,
    RecoveryMode::kBitmap,      RecoveryMode::kBitmap, RecoveryMode::kBitmap, RecoveryMode::kBitmap,
    RecoveryMode::kBitmap,      RecoveryMode::kBitmap, RecoveryMode::kBitmap, RecoveryMode::kBitmap};

void draw_hosts(WorldSettings& world, Random& random) {
  const std::size_t count = one_in(random, 2) ? 2 : 2 + random.below(7);
  // Two worlds of three in bitmap mode (some in the baseline mode that must be set at all hosts), or any mixture.
  const bool mixed = one_in(random, 3);
  const RecoveryMode common = kCommonModes[random.below(std::size(kCommonModes))];
  const bool v6 = one_in(random, 4);
  for (std::size_t i = 0; i < count; ++i) {
    sim::HostConfig& host = world.hosts.emplace_back();
    host.name = std::string(1, static_cast<char>('a' + i));
    host.address = address_of(i, v6);
    host.engine = draw_engine(random);
    host.engine.recovery.mode = mixed ? kModes[random.below(3)] : common;
    host.sees_ip_id = one_in(random, 6);
    host.defers_acknowledgements = one_in(random, 3);
    if (one_in(random, 3)) {  // the socket takes the engine's credit, and little more
      host.socket_packets = std::max(16u, host.engine.receive_packets);
      host.socket_bytes = std::max(16u * 4200, host.engine.receive_bytes);
    }
  }
}

// One world of three: data to another host is passed by reference, from a size on that many messages reach.
void draw_machine(WorldSettings& world, Random& random) {
  world.one_machine = one_in(random, 3);
  for (sim::HostConfig& host : world.hosts) {
    host.engine.transfer.local = !one_in(random, 8);
    host.engine.transfer.local_threshold_bytes = draw(random, 1, 8'000);
  }
}

}  // namespace brdma::test
