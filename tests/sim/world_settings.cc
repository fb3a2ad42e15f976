#include "world_settings.h"

#include <algorithm>

namespace brdma::test {
namespace {

constexpr PathMtu kMtus[] = {PathMtu::k256,  PathMtu::k512,  PathMtu::k1024,
                             PathMtu::k1024, PathMtu::k2048, PathMtu::k4096};
constexpr RecoveryMode kModes[] = {RecoveryMode::kBitmap, RecoveryMode::kStandard, RecoveryMode::kGoBackN};

// From the engine's own seed, so that all else stays as it was drawn before there were these.
void draw_windows(EngineConfig& engine) {
  Random random{engine.seed, "windows"};
  RecoveryConfig& recovery = engine.recovery;
  recovery.base_packets = 64u << random.below(2);
  recovery.segment_packets = 64u << random.below(3);
  recovery.extension_packets = 64u << random.below(4);
  if (one_in(random, 2)) recovery.granularity = 1u << random.below(7);
  if (one_in(random, 2)) recovery.slide_step = 1u << random.below(6);
  if (one_in(random, 4)) recovery.state_bytes_max = 1u << 16;
}

EngineConfig draw_engine(Random& random) {
  EngineConfig engine;
  engine.segments_max = one_in(random, 3) ? 1 : draw(random, 1, 64);
  engine.ip_id_counts_in_batch = !one_in(random, 4);
  engine.recovery.window_packets = 64u << random.below(7);
  engine.recovery.standard_window_packets = draw(random, 8, 107);
  engine.recovery.ack_packets = draw(random, 1, 32);
  engine.receive_packets = draw(random, 16, 515);
  engine.receive_bytes = draw(random, 40'000, 440'000);
  if (one_in(random, 4)) engine.recovery.hold_bytes_max = draw(random, 0, 60'000);
  if (one_in(random, 4)) {
    engine.recovery.depth_max = draw(random, 0, 40);
    engine.recovery.age_max = draw_up_to(random, 200_us);
    engine.recovery.stall_max = draw_up_to(random, 300_us);
  }
  if (one_in(random, 4)) engine.recovery.adaptive = false;
  engine.seed = random.next();
  draw_windows(engine);
  return engine;
}

// Large transfers in two worlds of three, from a size on that many messages have; escape channels down to none.
void draw_transfers(WorldSettings& world, Random& random) {
  if (one_in(random, 3)) return;
  for (EngineConfig& engine : world.engines) {
    if (one_in(random, 6)) continue;  // as sender, one side only
    engine.transfer.threshold_bytes = draw(random, 1, 12'000);
    if (!one_in(random, 8)) engine.transfer.segment_bytes = 256u << random.below(8);
  }
  for (EngineConfig& engine : world.engines) {
    if (one_in(random, 3)) engine.transfer.escape_bytes_max = draw(random, 0, 30'000);
    if (one_in(random, 3)) engine.transfer.escape_time = 10_us + draw_up_to(random, 300_us);
    engine.transfer.regular_turns = draw(random, 1, 20);
  }
}

void draw_hosts(WorldSettings& world, Random& random) {
  const bool bitmap = !one_in(random, 3);
  const bool v6 = one_in(random, 4);
  for (std::size_t side = 0; side < 2; ++side) {
    world.engines[side] = draw_engine(random);
    world.engines[side].recovery.mode = bitmap ? RecoveryMode::kBitmap : kModes[random.below(3)];
    sim::HostConfig& host = world.hosts[side];
    host.name = side == 0 ? "a" : "b";
    host.address = IpAddress::v4(10, 77, 0, static_cast<std::uint8_t>(side + 1));
    if (v6)
      host.address =
          IpAddress{{0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(side + 1)}};
    host.sees_ip_id = one_in(random, 6);
    host.defers_acknowledgements = one_in(random, 3);
    if (one_in(random, 3)) {  // the socket takes what the engine was told, and no more
      host.socket_packets = std::max(64u, world.engines[side].receive_packets);
      host.socket_bytes = std::max(64u * 4200, world.engines[side].receive_bytes);
    }
  }
}

EndpointConfig draw_endpoint(Random& random) {
  EndpointConfig endpoint;
  endpoint.first_psn =
      one_in(random, 2) ? Psn{0xFFFFFFu - draw(random, 0, 300)} : Psn{static_cast<std::uint32_t>(random.next())};
  endpoint.timeout = static_cast<std::uint8_t>(draw(random, 10, 13));  // 4 .. 34 ms; dead after 8 of them in silence
  endpoint.rd_atomic_max = static_cast<std::uint8_t>(draw(random, 1, 16));
  endpoint.send_wr_max = draw(random, 8, 67);
  endpoint.receive_wr_max = draw(random, 1, 64);
  endpoint.min_rnr_timer = static_cast<std::uint8_t>(draw(random, 1, 10));  // 10 us .. 320 us
  endpoint.inline_bytes_max = one_in(random, 2) ? 0 : draw(random, 0, 220);
  endpoint.signal_all = one_in(random, 4);
  return endpoint;
}

TrafficConfig draw_traffic(Random& random) {
  TrafficConfig traffic;
  traffic.bytes_max = one_in(random, 6) ? 700 * 1024 : draw(random, 20'000, 220'000);
  if (one_in(random, 5)) traffic.operation_bytes_max = 256;  // many small ones
  switch (random.below(12)) {                                // some have half the kinds only
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

ConnectionSettings draw_connection(Random& random) {
  ConnectionSettings connection;
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
  connection.traffic[0].ends_in_error = connection.ends_in_error;
  if (connection.ends_in_error) connection.traffic[1].operations_max = 0;
  return connection;
}

// A connection that hears nothing for long enough ends, as it must: keep away from that. Bursts are counted in packets,
// and few go when all are lost; without bitmap mode a packet may be lost only so many times.
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
    faults.reorder_depth = draw(random, 1, 32);
  }
  if (one_in(random, 3)) faults.duplicate_ppm = draw(random, 0, 100'000);
  if (one_in(random, 3)) faults.corrupt_ppm = draw(random, 0, agree ? 50'000 : 10'000);
  if (one_in(random, 3)) faults.jitter = draw_up_to(random, 50_us);
}

void draw_network(WorldSettings& world, Random& random) {
  world.clean.delay = draw_up_to(random, 100_us);
  if (!one_in(random, 3)) world.clean.rate = Bandwidth::from_bps(draw(random, 1, 40) * std::uint64_t{1'000'000'000});
  world.clean.queue_bytes = one_in(random, 3) ? draw(random, 64 * 1024, 265'000) : 8u << 20;
  for (auto& link : world.faulty) {
    link = world.clean;
    draw_faults(link.impairments, world.agree(), random);
  }
  world.faults_last = draw_up_to(random, one_in(random, 4) ? 30_ms : 3_ms);
  if (world.agree() && one_in(random, 8)) world.partition = draw_up_to(random, 5_ms);
  const bool spares_answers = world.faulty[1].impairments == fabric::ImpairmentConfig{} &&
                              world.partition == Duration{} && world.clean.queue_bytes >= (8u << 20) &&
                              world.hosts[0].socket_packets == sim::HostConfig{}.socket_packets;
  for (auto& connection : world.connections) connection.endpoints[0].refusal_may_be_lost = !spares_answers;
}

const char* name_of(RecoveryMode mode) {
  constexpr const char* kNames[] = {"bitmap", "standard", "gobackn"};
  return kNames[static_cast<std::size_t>(mode)];
}
std::string percent(std::uint32_t ppm) {
  return std::to_string(ppm / 10'000) + "." + std::to_string(ppm / 1000 % 10) + " %";
}
std::string us(Duration duration) { return std::to_string(duration.ns() / 1000) + " us"; }

std::string text_of(const EngineConfig& engine) {
  const RecoveryConfig& r = engine.recovery;
  return std::string{name_of(r.mode)} + ", window " + std::to_string(r.window_packets) + ", standard window " +
         std::to_string(r.standard_window_packets) + ", segments " + std::to_string(engine.segments_max) + ", credit " +
         std::to_string(engine.receive_packets) + "/" + std::to_string(engine.receive_bytes) + ", hold " +
         std::to_string(r.hold_bytes_max) + ", ack after " + std::to_string(r.ack_packets) + ", depth " +
         std::to_string(r.depth_max) + ", large from " + std::to_string(engine.transfer.threshold_bytes) + " by " +
         std::to_string(engine.transfer.segment_bytes) + ", escape " +
         std::to_string(engine.transfer.escape_bytes_max) + "/" + us(engine.transfer.escape_time);
}

std::string text_of(const fabric::ImpairmentConfig& f) {
  return "loss " + percent(f.loss_ppm) + ", bursts " + percent(f.burst_loss_ppm) + " of " +
         std::to_string(f.burst_length_mean) + ", reorder " + percent(f.reorder_ppm) + " depth " +
         std::to_string(f.reorder_depth) + ", duplicate " + percent(f.duplicate_ppm) + ", corrupt " +
         percent(f.corrupt_ppm) + ", jitter " + us(f.jitter);
}

std::string text_of(const EndpointConfig& e) {
  return "first PSN " + std::to_string(e.first_psn.value()) + ", SQ " + std::to_string(e.send_wr_max) + ", RQ " +
         std::to_string(e.receive_wr_max) + ", rd_atomic " + std::to_string(e.rd_atomic_max) + ", timeout " +
         std::to_string(e.timeout);
}

}  // namespace

WorldSettings draw_world(Random& random) {
  WorldSettings world;
  draw_hosts(world, random);
  const std::uint64_t connections = one_in(random, 3) ? 1 + random.below(4) : 1;
  for (std::uint64_t i = 0; i < connections; ++i) {
    world.connections.push_back(draw_connection(random));
    for (auto& traffic : world.connections.back().traffic) traffic.bytes_max /= connections;
  }
  draw_network(world, random);
  draw_transfers(world, random);
  return world;
}

std::string WorldSettings::text() const {
  std::string text;
  for (std::size_t side = 0; side < 2; ++side) {
    text += hosts[side].name + ": " + text_of(engines[side]) + "\n   sends into " + text_of(faulty[side].impairments) +
            "\n";
  }
  for (const ConnectionSettings& c : connections) {
    text += "connection: MTU " + std::to_string(mtu_bytes(c.endpoints[0].mtu)) +
            (c.ends_in_error ? ", ends in error" : "") + "\n   a " + text_of(c.endpoints[0]) + "\n   b " +
            text_of(c.endpoints[1]) + "\n";
  }
  return text + "network: delay " + us(clean.delay) + ", rate " +
         (clean.rate ? std::to_string(clean.rate->bps() / 1'000'000) + " Mbit/s" : "none") + ", queue " +
         std::to_string(clean.queue_bytes) + ", faults for " + us(faults_last) + ", partition " + us(partition) + "\n";
}

}  // namespace brdma::test
