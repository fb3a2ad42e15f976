#include "random_world.h"

#include <algorithm>
#include <memory>

#include "support/endpoint.h"
#include "support/flight_checker.h"

namespace brdma::test {
namespace {

std::string percent(std::uint32_t ppm) { return std::to_string(ppm / 10'000) + "." + std::to_string(ppm / 1000 % 10); }

const char* name_of(RecoveryMode mode) {
  switch (mode) {
    case RecoveryMode::kBitmap:
      return "bitmap";
    case RecoveryMode::kStandard:
      return "standard";
    case RecoveryMode::kGoBackN:
      return "gobackn";
  }
  return "?";
}

class RandomWorld {
 public:
  RandomWorld(std::uint64_t seed, const WorldOptions& options)
      : random_(seed, "world"), traced_(options.traced), seed_(seed), world_(seed) {
    draw_modes();
    draw_endpoints();
    plan();
    draw_network();
    for (int side = 0; side < 2; ++side) make_side(side);
    world_.join(*hosts_[0], *hosts_[1], faulty_[0], faulty_[1]);
    connect();
    schedule();
    if (options.canary) plant_canary();
  }

  WorldResult run() {
    const auto done = [this] {
      for (auto& endpoint : endpoints_) endpoint->progress();
      return (endpoints_[0]->done() && endpoints_[1]->done()) || found();
    };
    const bool finished = world_.run_until(done, (faults_end_ - world_.now()) + bound_);
    if (!finished) findings_.push_back("not done " + std::to_string(bound_.ns() / 1000) + " us after the last fault");
    if (finished && !found()) {
      // Nothing more may happen: no completion, no byte, no timer that goes on for ever.
      world_.configure_links(clean_);
      if (!world_.run_until_idle(kIdleWithin))
        findings_.push_back("not idle " + std::to_string(kIdleWithin.ns() / 1'000'000) + " ms after the end");
      for (auto& endpoint : endpoints_) {
        endpoint->progress();
        endpoint->check_end();
      }
      if (world_.packets().in_use() != 0) findings_.push_back("packets are left over");
    }
    return result();
  }

 private:
  static constexpr Duration kIdleWithin = 1_s;

  bool chance(std::uint32_t one_in) { return random_.below(one_in) == 0; }
  Duration up_to(Duration most) {
    return Duration::from_ns(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most.ns()) + 1)));
  }

  void draw_modes() {
    constexpr RecoveryMode kModes[] = {RecoveryMode::kBitmap, RecoveryMode::kStandard, RecoveryMode::kGoBackN};
    const bool bitmap = !chance(3);
    for (auto& mode : modes_) mode = bitmap ? RecoveryMode::kBitmap : kModes[random_.below(3)];
    agrees_ = modes_[0] == RecoveryMode::kBitmap && modes_[1] == RecoveryMode::kBitmap;
  }

  void draw_endpoints() {
    constexpr PathMtu kMtus[] = {PathMtu::k256,  PathMtu::k512,  PathMtu::k1024,
                                 PathMtu::k1024, PathMtu::k2048, PathMtu::k4096};
    const PathMtu mtu = kMtus[random_.below(6)];
    for (auto& e : settings_) {
      e.mtu = mtu;
      e.first_psn = chance(2) ? Psn{0xFFFFFFu - static_cast<std::uint32_t>(random_.below(300))}
                              : Psn{static_cast<std::uint32_t>(random_.next())};
      e.timeout = static_cast<std::uint8_t>(10 + random_.below(4));  // 4 .. 34 ms; dead after 8 of them in silence
      e.rd_atomic_max = static_cast<std::uint8_t>(1 + random_.below(16));
      e.send_wr_max = static_cast<std::uint32_t>(8 + random_.below(60));
      e.receive_wr_max = static_cast<std::uint32_t>(1 + random_.below(64));
      e.min_rnr_timer = static_cast<std::uint8_t>(1 + random_.below(10));  // 10 us .. 320 us
      e.inline_bytes_max = chance(2) ? 0 : static_cast<std::uint32_t>(random_.below(220));
      e.signal_all = chance(4);
    }
    for (auto& engine : engines_) draw_engine(engine);
    engines_[0].recovery.mode = modes_[0];
    engines_[1].recovery.mode = modes_[1];
  }

  void draw_engine(EngineConfig& engine) {
    engine.segments_max = chance(3) ? 1 : static_cast<std::uint32_t>(1 + random_.below(64));
    engine.ip_id_counts_in_batch = !chance(4);
    engine.recovery.window_packets = 64u << random_.below(7);
    engine.recovery.standard_window_packets = static_cast<std::uint32_t>(8 + random_.below(100));
    engine.recovery.ack_packets = static_cast<std::uint32_t>(1 + random_.below(32));
    engine.receive_packets = static_cast<std::uint32_t>(16 + random_.below(500));
    engine.receive_bytes = static_cast<std::uint32_t>(40'000 + random_.below(400'000));
    if (chance(4)) engine.recovery.hold_bytes_max = static_cast<std::uint32_t>(random_.below(60'000));
    if (chance(4)) {
      engine.recovery.depth_max = static_cast<std::uint32_t>(random_.below(40));
      engine.recovery.age_max = up_to(200_us);
      engine.recovery.stall_max = up_to(300_us);
    }
    engine.seed = random_.next();
  }

  void plan() {
    for (int side = 0; side < 2; ++side) {
      arenas_[side] = std::make_unique<Arena>(static_cast<std::uint64_t>(side + 1) << 44,
                                              Random{seed_, side == 0 ? "arena 0" : "arena 1"});
    }
    TrafficConfig config;
    config.mtu = mtu_bytes(settings_[0].mtu);
    config.bytes_max = chance(6) ? 700 * 1024 : 20'000 + random_.below(200'000);
    if (chance(5)) config.operation_bytes_max = 256;  // many small ones
    switch (random_.below(12)) {                      // some worlds have half the kinds only
      case 0:
        config.reads = config.atomics = false;
        break;
      case 1:
        config.sends = config.writes = false;
        break;
      default:
        break;
    }
    for (int side = 0; side < 2; ++side) {
      config.inline_bytes_max = settings_[side].inline_bytes_max;
      config.operations_max = side == 1 && chance(4) ? 1 : 40;
      traffic_[side] = plan_traffic(config, random_, *arenas_[side], *arenas_[1 - side]);
    }
    for (auto& arena : arenas_) arena->freeze();
  }

  void draw_network() {
    // A connection that hears nothing for long enough ends, as it must: keep away from that. Bursts are counted in
    // packets, and few go when all are lost; without bitmap mode a packet may be lost only so many times.
    const std::uint32_t loss_most = agrees_ ? 200'000 : 30'000;
    clean_.delay = up_to(100_us);
    if (!chance(3)) clean_.rate = Bandwidth::from_bps((1 + random_.below(40)) * 1'000'000'000);
    clean_.queue_bytes = chance(3) ? 64 * 1024 + random_.below(200'000) : 8u << 20;
    for (auto& link : faulty_) {
      link = clean_;
      auto& faults = link.impairments;
      if (chance(4)) continue;
      if (!chance(3)) faults.loss_ppm = static_cast<std::uint32_t>(random_.below(chance(2) ? loss_most : 20'000));
      if (chance(4) && agrees_) {
        faults.burst_loss_ppm = static_cast<std::uint32_t>(random_.below(20'000));
        faults.burst_length_mean = static_cast<std::uint32_t>(1 + random_.below(4));
      }
      if (chance(2)) {
        faults.reorder_ppm = static_cast<std::uint32_t>(random_.below(agrees_ ? 300'000 : 50'000));
        faults.reorder_depth = static_cast<std::uint32_t>(1 + random_.below(32));
      }
      if (chance(3)) faults.duplicate_ppm = static_cast<std::uint32_t>(random_.below(100'000));
      if (chance(3)) faults.corrupt_ppm = static_cast<std::uint32_t>(random_.below(agrees_ ? 50'000 : 10'000));
      if (chance(3)) faults.jitter = up_to(50_us);
    }
  }

  void make_side(int side) {
    sim::HostConfig host;
    host.name = side == 0 ? "a" : "b";
    host.address = IpAddress::v4(10, 77, 0, static_cast<std::uint8_t>(side + 1));
    host.engine = engines_[side];
    host.sees_ip_id = chance(6);
    host.defers_acknowledgements = chance(3);
    host.traced = traced_;
    hosts_[side] = &world_.add_host(host);
    endpoints_[side] = std::make_unique<Endpoint>(world_, *hosts_[side], settings_[side], *arenas_[side]);
    endpoints_[side]->start();
    flights_[side] =
        std::make_unique<FlightChecker>(*hosts_[side], settings_[side].first_psn, mtu_bytes(settings_[side].mtu));
    world_.add_observer(*flights_[side]);
  }

  void connect() {
    endpoints_[0]->connect(*endpoints_[1]);
    endpoints_[1]->connect(*endpoints_[0]);
    for (int side = 0; side < 2; ++side) endpoints_[side]->set_traffic(traffic_[side], traffic_[1 - side]);
  }

  // Posts in bursts, receives late, descheduled processes, partitions; then the faults stop.
  void schedule() {
    const Duration faults_last = up_to(chance(4) ? 30_ms : 3_ms);
    faults_end_ = world_.now() + faults_last;
    for (int side = 0; side < 2; ++side) {
      Endpoint& endpoint = *endpoints_[side];
      if (chance(2)) {
        endpoint.allow_operations(0);
        release(traffic_[side].operations.size(), faults_last,
                [&endpoint](std::size_t n) { endpoint.allow_operations(n); });
      }
      if (chance(4)) {
        endpoint.allow_receives(0);
        release(traffic_[1 - side].receives.size(), faults_last,
                [&endpoint](std::size_t n) { endpoint.allow_receives(n); });
      }
      for (std::uint64_t pauses = chance(3) ? random_.below(5) : 0; pauses > 0; --pauses) {
        const Duration length = up_to(chance(3) ? 4_ms : 100_us);
        world_.at(world_.now() + up_to(faults_last), [this, side, length] { world_.pause(*hosts_[side], length); });
      }
    }
    if (agrees_ && chance(8)) {
      const Instant from = world_.now() + up_to(faults_last);
      fabric::LinkConfig cut = clean_;
      cut.impairments.loss_ppm = 1'000'000;
      world_.at(from, [this, cut] { world_.configure_links(cut); });
      partition_ = up_to(5_ms);
      world_.at(from + partition_, [this] {
        world_.configure_link(*hosts_[0], *hosts_[1], faulty_[0]);
        world_.configure_link(*hosts_[1], *hosts_[0], faulty_[1]);
      });
      faults_end_ = std::max(faults_end_, from + partition_);
    }
    world_.at(faults_end_, [this] { world_.configure_links(clean_); });
    bound_ = liveness_bound();
  }

  void plant_canary() {
    Random random{seed_, "canary"};
    Arena& arena = *arenas_[random.below(2)];
    arena.bytes()[random.below(Arena::kGuard)] ^= std::byte{1};  // a guard byte before the first buffer
  }

  template <class Allow>
  void release(std::size_t total, Duration within, const Allow& allow) {
    std::size_t released = 0;
    while (released < total) {
      released += 1 + random_.below(chance(3) ? total : 4);
      world_.at(world_.now() + up_to(within), [allow, released, total, this] { allow(std::min(released, total)); });
    }
    world_.at(world_.now() + within, [allow, total] { allow(total); });
  }

  // What the slowest part may take: the timers as far as they may have grown, RNR waits, and the bytes themselves.
  [[nodiscard]] Duration liveness_bound() const {
    const unsigned timeout = std::max(settings_[0].timeout, settings_[1].timeout);
    const Duration timer = Duration::from_ns(4096) * (std::int64_t{1} << timeout);
    const std::uint64_t bytes = traffic_[0].bytes + traffic_[1].bytes;
    const auto operations = static_cast<std::int64_t>(traffic_[0].operations.size() + traffic_[1].operations.size());
    return timer * 4 + 10_ms + clean_.delay * (4 * operations) + 500_us * operations +
           Bandwidth::from_bps(50'000'000).time_for(bytes);
  }

  [[nodiscard]] bool found() const {
    for (int side = 0; side < 2; ++side) {
      if (!endpoints_[side]->findings().empty() || !flights_[side]->findings().empty()) return true;
    }
    return false;
  }

  WorldResult result() {
    WorldResult result;
    result.findings = findings_;
    for (int side = 0; side < 2; ++side) {
      for (const auto& finding : endpoints_[side]->findings()) result.findings.push_back(finding);
      for (const auto& finding : flights_[side]->findings()) result.findings.push_back(finding);
      const Statistics& s = hosts_[side]->statistics();
      const auto& link = world_.link_counters(*hosts_[side], *hosts_[1 - side]);
      result.packets += link.offered;
      result.lost += link.lost + link.burst_lost + link.queue_dropped + link.corrupted;
      for (const Counter c : {Counter::kRetransmittedFfm, Counter::kRetransmittedNak, Counter::kRetransmittedTimeout,
                              Counter::kRetransmittedProbe, Counter::kRetransmittedAck}) {
        result.retransmitted += s.get(c);
      }
      result.bytes += traffic_[side].bytes;
    }
    result.virtual_ns = world_.now().ns();
    if (traced_) result.trace = world_.trace().full_trace();
    if (traced_ || !result.ok()) result.settings = describe();
    return result;
  }

  [[nodiscard]] std::string describe() const {
    std::string text;
    for (int side = 0; side < 2; ++side) {
      const auto& e = settings_[side];
      const auto& r = engines_[side].recovery;
      const auto& f = faulty_[side].impairments;
      text += std::string(side == 0 ? "a" : "b") + ": " + name_of(r.mode) + ", first PSN " +
              std::to_string(e.first_psn.value()) + ", window " + std::to_string(r.window_packets) +
              ", standard window " + std::to_string(r.standard_window_packets) + ", segments " +
              std::to_string(engines_[side].segments_max) + ", credit " +
              std::to_string(engines_[side].receive_packets) + "/" + std::to_string(engines_[side].receive_bytes) +
              ", SQ " + std::to_string(e.send_wr_max) + ", RQ " + std::to_string(e.receive_wr_max) + ", rd_atomic " +
              std::to_string(e.rd_atomic_max) + ", timeout " + std::to_string(e.timeout) + ", hold " +
              std::to_string(r.hold_bytes_max) + ", " + std::to_string(traffic_[side].operations.size()) +
              " operations, " + std::to_string(traffic_[side].bytes) + " bytes\n   sends into: loss " +
              percent(f.loss_ppm) + " %, bursts " + percent(f.burst_loss_ppm) + " % of " +
              std::to_string(f.burst_length_mean) + ", reorder " + percent(f.reorder_ppm) + " % depth " +
              std::to_string(f.reorder_depth) + ", duplicate " + percent(f.duplicate_ppm) + " %, corrupt " +
              percent(f.corrupt_ppm) + " %, jitter " + std::to_string(f.jitter.ns()) + " ns\n   " +
              endpoints_[side]->state();
    }
    text += "both: MTU " + std::to_string(mtu_bytes(settings_[0].mtu)) + ", delay " +
            std::to_string(clean_.delay.ns()) + " ns, rate " +
            (clean_.rate ? std::to_string(clean_.rate->bps() / 1'000'000) + " Mbit/s" : "none") + ", queue " +
            std::to_string(clean_.queue_bytes) + ", faults until " + std::to_string(faults_end_.ns() / 1000) +
            " us, partition " + std::to_string(partition_.ns() / 1000) + " us\n";
    return text;
  }

  Random random_;
  bool traced_;
  std::uint64_t seed_;
  sim::World world_;
  RecoveryMode modes_[2];
  bool agrees_ = false;
  EndpointConfig settings_[2];
  EngineConfig engines_[2];
  std::unique_ptr<Arena> arenas_[2];
  Traffic traffic_[2];
  fabric::LinkConfig clean_, faulty_[2];
  sim::Host* hosts_[2] = {};
  std::unique_ptr<Endpoint> endpoints_[2];
  std::unique_ptr<FlightChecker> flights_[2];
  Instant faults_end_;
  Duration partition_{};
  Duration bound_;
  std::vector<std::string> findings_;
};

}  // namespace

WorldResult run_random_world(std::uint64_t seed, const WorldOptions& options) {
  return RandomWorld{seed, options}.run();
}

}  // namespace brdma::test
