#include "random_world.h"

#include <algorithm>
#include <memory>

#include "support/flight_checker.h"
#include "support/statistics_checker.h"
#include "world_settings.h"

namespace brdma::test {
namespace {

constexpr Duration kIdleWithin = 1_s;  // after the last completion nothing may go on for longer

// One queue pair on each host, what they ask of each other, and who watches them.
struct Connection {
  Sides<std::unique_ptr<Arena>> arenas;
  Sides<Traffic> traffic;
  Sides<std::unique_ptr<Endpoint>> endpoints;
  Sides<std::unique_ptr<FlightChecker>> flights;
};

class RandomWorld {
 public:
  RandomWorld(std::uint64_t seed, const WorldOptions& options)
      : seed_(seed), options_(options), random_(seed, "world"), settings_(draw_world(random_)), world_(seed) {
    for (std::size_t side = 0; side < 2; ++side) {
      sim::HostConfig host = settings_.hosts[side];
      host.engine = settings_.engines[side];
      host.traced = options.traced;
      hosts_[side] = &world_.add_host(host);
    }
    world_.join(*hosts_[0], *hosts_[1], settings_.faulty[0], settings_.faulty[1]);
    for (const ConnectionSettings& settings : settings_.connections) make_connection(settings);
    if (options.canary) plant_canary();
    schedule_faults();
    bound_ = liveness_bound();
  }

  WorldResult run() {
    const auto done = [this] { return progress() || found(); };
    if (!world_.run_until(done, faults_end_ - world_.now() + bound_)) {
      findings_.push_back("not done " + std::to_string(bound_.ns() / 1000) + " us after the last fault");
    } else if (!found()) {
      check_end();
    }
    return result();
  }

 private:
  void make_connection(const ConnectionSettings& settings) {
    Connection& connection = *connections_.emplace_back(std::make_unique<Connection>());
    for (std::size_t side = 0; side < 2; ++side) {
      const std::uint64_t number = connections_.size() * 2 + side;
      connection.arenas[side] = std::make_unique<Arena>(number << 44, Random{seed_, "arena " + std::to_string(number)});
    }
    for (std::size_t side = 0; side < 2; ++side) {
      if (settings.traffic[side].operations_max == 0) continue;
      connection.traffic[side] =
          plan_traffic(settings.traffic[side], random_, *connection.arenas[side], *connection.arenas[1 - side]);
    }
    for (std::size_t side = 0; side < 2; ++side) {
      connection.arenas[side]->freeze();
      connection.endpoints[side] =
          std::make_unique<Endpoint>(world_, *hosts_[side], settings.endpoints[side], *connection.arenas[side]);
      connection.endpoints[side]->start();
    }
    for (std::size_t side = 0; side < 2; ++side) {
      Endpoint& own = *connection.endpoints[side];
      const Endpoint& peer = *connection.endpoints[1 - side];
      const EndpointConfig& config = settings.endpoints[side];
      connection.flights[side] = std::make_unique<FlightChecker>(
          *hosts_[side], FlightChecker::Connection{own.qpn(), peer.qpn(), config.first_psn, mtu_bytes(config.mtu)});
      world_.add_observer(*connection.flights[side]);
      own.connect(peer);
      own.set_traffic(connection.traffic[side], connection.traffic[1 - side]);
      schedule_work(own, connection.traffic[side].operations.size(), connection.traffic[1 - side].receives.size());
    }
  }

  // All at once, or in bursts with idle times; receives that come late are answered by RNR NAKs.
  void schedule_work(Endpoint& endpoint, std::size_t operations, std::size_t receives) {
    if (one_in(random_, 2)) {
      endpoint.allow_operations(0);
      release(operations, [&endpoint](std::size_t count) { endpoint.allow_operations(count); });
    }
    if (one_in(random_, 4)) {
      endpoint.allow_receives(0);
      release(receives, [&endpoint](std::size_t count) { endpoint.allow_receives(count); });
    }
  }

  template <class Allow>
  void release(std::size_t total, const Allow& allow) {
    std::vector<Instant> when;
    std::vector<std::size_t> counts;
    for (std::size_t released = 0; released < total;) {
      released = std::min(total, released + 1 + random_.below(one_in(random_, 3) ? total : 4));
      counts.push_back(released);
      when.push_back(world_.now() + draw_up_to(random_, settings_.faults_last));
    }
    std::sort(when.begin(), when.end());
    for (std::size_t i = 0; i < when.size(); ++i) {
      world_.at(when[i], [allow, count = counts[i]] { allow(count); });
    }
  }

  // Descheduled processes, a partition; then the faults stop.
  void schedule_faults() {
    const Instant began = world_.now();
    faults_end_ = began + settings_.faults_last;
    for (sim::Host* host : hosts_) {
      for (std::uint64_t pauses = one_in(random_, 3) ? random_.below(5) : 0; pauses > 0; --pauses) {
        const Duration length = draw_up_to(random_, one_in(random_, 3) ? 4_ms : 100_us);
        paused_ = true;
        world_.at(began + draw_up_to(random_, settings_.faults_last),
                  [this, host, length] { world_.pause(*host, length); });
      }
    }
    if (settings_.partition > Duration{}) {
      const Instant from = began + draw_up_to(random_, settings_.faults_last);
      const Instant to = from + settings_.partition;
      fabric::LinkConfig cut = settings_.clean;
      cut.impairments.loss_ppm = 1'000'000;
      world_.at(from, [this, cut] { world_.configure_links(cut); });
      world_.at(to, [this] {
        world_.configure_link(*hosts_[0], *hosts_[1], settings_.faulty[0]);
        world_.configure_link(*hosts_[1], *hosts_[0], settings_.faulty[1]);
      });
      faults_end_ = std::max(faults_end_, to);
    }
    world_.at(faults_end_, [this] { world_.configure_links(settings_.clean); });
  }

  // What the slowest part may take: the timers as far as they may have grown (and until a peer counts as dead, where
  // one falls silent), RNR waits and round trips of each operation, and the bytes themselves.
  [[nodiscard]] Duration liveness_bound() const {
    Duration bound = 10_ms;
    Duration patience{};
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      const ConnectionSettings& settings = settings_.connections[i];
      for (std::size_t side = 0; side < 2; ++side) {
        const EndpointConfig& endpoint = settings.endpoints[side];
        const Duration timeout = Duration::from_ns(4096) * (std::int64_t{1} << endpoint.timeout);
        // A silent peer is given up after 4 (retry_count + 1) timeouts (qp/timeout.cc).
        const std::int64_t timeouts = settings.ends_in_error ? 4 * (endpoint.retry_count + 1) + 1 : 4;
        patience = std::max(patience, timeout * timeouts);
        const Traffic& traffic = connections_[i]->traffic[side];
        const auto operations = static_cast<std::int64_t>(traffic.operations.size());
        bound = bound + (settings_.clean.delay * 4 + 500_us) * operations;
        bytes += traffic.bytes;
      }
    }
    return bound + patience + Bandwidth::from_bps(50'000'000).time_for(bytes);
  }

  void plant_canary() {
    Random random{seed_, "canary"};
    Arena& arena = *connections_[random.below(connections_.size())]->arenas[random.below(2)];
    arena.bytes()[random.below(Arena::kGuard)] ^= std::byte{1};  // a guard byte before the first buffer
  }

  // True when all is done.
  bool progress() {
    bool done = true;
    for (auto& connection : connections_) {
      for (auto& endpoint : connection->endpoints) {
        endpoint->progress();
        done = done && endpoint->done();
      }
    }
    return done;
  }

  [[nodiscard]] bool found() const {
    return std::any_of(connections_.begin(), connections_.end(), [](const auto& connection) {
      return !connection->endpoints[0]->findings().empty() || !connection->endpoints[1]->findings().empty() ||
             !connection->flights[0]->findings().empty() || !connection->flights[1]->findings().empty();
    });
  }

  // Nothing more may happen: no completion, no byte, no timer that goes on for ever.
  void check_end() {
    world_.configure_links(settings_.clean);
    if (!world_.run_until_idle(kIdleWithin)) {
      findings_.push_back("not idle " + std::to_string(kIdleWithin.ns() / 1'000'000) + " ms after the end");
    }
    progress();
    for (auto& connection : connections_) {
      for (auto& endpoint : connection->endpoints) endpoint->check_end();
    }
    for (const sim::Host* host : hosts_) {
      for (auto& finding : check_statistics(*host, settings_.corrupts(), settings_.agree()))
        findings_.push_back(std::move(finding));
    }
    if (world_.packets().in_use() != 0) findings_.push_back("packets are left over");
    check_nothing_is_resent_in_vain();
  }

  // Bitmap mode, nothing lost, spoilt, repeated or out of order, nobody away, every receive posted in time: then
  // nothing is sent again, but for a probe or a timeout before the first round trip has been measured.
  void check_nothing_is_resent_in_vain() {
    constexpr std::uint64_t kAllowed = 1;
    const fabric::ImpairmentConfig none{};
    const bool faultless = settings_.agree() && settings_.faulty[0].impairments == none &&
                           settings_.faulty[1].impairments == none && settings_.partition == Duration{} && !paused_;
    if (!faultless) return;
    const WorldResult counted = count();
    std::uint64_t refused = 0;
    for (const sim::Host* host : hosts_) refused += host->statistics().get(Counter::kSentRnr);
    if (counted.lost != 0 || refused != 0) return;
    if (counted.retransmitted > kAllowed * connections_.size()) {
      findings_.push_back("nothing was lost, but " + std::to_string(counted.retransmitted) +
                          " packets were sent again");
    }
  }

  [[nodiscard]] WorldResult count() const {
    WorldResult result;
    for (std::size_t side = 0; side < 2; ++side) {
      const auto& link = world_.link_counters(*hosts_[side], *hosts_[1 - side]);
      result.packets += link.offered;
      result.lost += link.lost + link.burst_lost + link.queue_dropped + link.corrupted + hosts_[side]->socket_drops();
      std::size_t cause = 0;
      for (const Counter c : {Counter::kRetransmittedFfm, Counter::kRetransmittedNak, Counter::kRetransmittedTimeout,
                              Counter::kRetransmittedProbe, Counter::kRetransmittedAck, Counter::kRetransmittedPath}) {
        const std::uint64_t count = hosts_[side]->statistics().get(c);
        result.by_cause[cause++] += count;
        result.retransmitted += count;
      }
    }
    return result;
  }

  WorldResult result() {
    WorldResult result = count();
    result.findings = findings_;
    result.mode = settings_.mode();
    std::string states;
    for (auto& connection : connections_) {
      for (std::size_t side = 0; side < 2; ++side) {
        const Endpoint& endpoint = *connection->endpoints[side];
        const FlightChecker& flight = *connection->flights[side];
        result.findings.insert(result.findings.end(), endpoint.findings().begin(), endpoint.findings().end());
        result.findings.insert(result.findings.end(), flight.findings().begin(), flight.findings().end());
        states += endpoint.state();
        result.bytes += connection->traffic[side].bytes;
      }
    }
    result.virtual_ns = world_.now().ns();
    if (options_.traced) result.trace = world_.trace().full_trace();
    if (options_.traced || !result.ok()) result.settings = settings_.text() + states;
    return result;
  }

  std::uint64_t seed_;
  WorldOptions options_;
  Random random_;
  WorldSettings settings_;
  sim::World world_;
  Sides<sim::Host*> hosts_{};
  std::vector<std::unique_ptr<Connection>> connections_;
  Instant faults_end_;
  Duration bound_;
  bool paused_ = false;  // a host was
  std::vector<std::string> findings_;
};

}  // namespace

WorldResult run_random_world(std::uint64_t seed, const WorldOptions& options) {
  return RandomWorld{seed, options}.run();
}

}  // namespace brdma::test
