// A world runs in this order: hosts and links, connections, its events; then until every operation is complete, and
// until it is idle; then everything is compared.
#include "worlds/random_world.h"

#include <algorithm>
#include <initializer_list>
#include <memory>

#include "support/statistics_checker.h"
#include "worlds/connection.h"
#include "worlds/faulty_network.h"
#include "worlds/message_group.h"
#include "worlds/wire_digest.h"
#include "worlds/world_settings.h"

namespace brdma::test {
namespace {

constexpr Duration kIdleWithin =
    1_s;  // after the last completion activity must end within this time, beside round trips

class RandomWorld {
 public:
  RandomWorld(std::uint64_t seed, const WorldOptions& options)
      : options_(options), settings_(draw_world(seed)), world_(seed) {
    for (sim::HostConfig host : settings_.hosts) {
      host.traced = options.traced || options.digest;
      if (settings_.one_machine) host.machine = &machine_;
      hosts_.push_back(&world_.add_host(host));
    }
    if (options.digest) world_.add_observer(digest_);
    if (settings_.one_machine) digest_.leave_out_bodies();
    network_ = std::make_unique<FaultyNetwork>(world_, settings_, hosts_);
    for (const ConnectionSettings& settings : settings_.connections) add_connection(settings)->begin(faults_last());
    for (const ConnectionSettings& settings : settings_.after_restart) add_connection(settings);
    for (const GroupSettings& settings : settings_.groups) add_group(settings);
    if (options.canary) plant_canary(seed);
    schedule_events();
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
  [[nodiscard]] Duration faults_last() const { return settings_.events.faults_last; }

  Connection* add_connection(const ConnectionSettings& settings) {
    const Sides<sim::Host*> hosts{hosts_[settings.hosts[0]], hosts_[settings.hosts[1]]};
    connections_.push_back(std::make_unique<Connection>(world_, settings, hosts, connections_.size()));
    return connections_.back().get();
  }

  void add_group(const GroupSettings& settings) {
    std::vector<sim::Host*> senders;
    for (const std::size_t sender : settings.senders) senders.push_back(hosts_[sender]);
    groups_.push_back(std::make_unique<MessageGroup>(world_, settings, *hosts_[settings.receiver], std::move(senders)));
    groups_.back()->begin(faults_last());
  }

  // `begin` and `end` run at the span's ends; faults do not stop before that.
  template <class Begin, class End>
  void schedule(const Span& span, const Begin& begin, const End& end) {
    const Instant from = world_.now() + span.from;
    world_.at(from, begin);
    world_.at(from + span.length, end);
    faults_end_ = std::max(faults_end_, from + span.length);
  }

  void schedule_events() {
    const EventSettings& events = settings_.events;
    faults_end_ = world_.now() + events.faults_last;
    for (const Absence& away : events.absences) {
      schedule(
          away, [this, away] { world_.pause(*hosts_[away.host], away.length); }, [] {});
    }
    for (const Silence& silence : events.silences) {
      schedule(
          silence, [this, silence] { network_->begin(silence); }, [this, silence] { network_->end(silence); });
    }
    for (const PollingBreak& away : events.polling_breaks) {
      Endpoint& endpoint = connections_[away.connection]->endpoint(away.side);
      schedule(
          away, [&endpoint] { endpoint.look_away(true); }, [&endpoint] { endpoint.look_away(false); });
    }
    if (events.crash) {
      schedule(
          *events.crash, [this] { crash(); }, [this] { restart(); });
    }
    world_.at(faults_end_, [this] { network_->end_faults(); });
  }

  void crash() {
    sim::Host& host = *hosts_[settings_.events.crash->host];
    host.crash();
    for (auto& connection : connections_) connection->crash(host);
  }

  void restart() {
    hosts_[settings_.events.crash->host]->restart();
    for (auto& connection : connections_) {
      if (!connection->begun()) connection->begin(faults_last());
    }
  }

  // Upper bound of the slowest part: the timers with their longest backoff (and until a peer counts as dead, if one
  // falls silent), a window a round trip, and the bytes at the rate of the smallest socket.
  [[nodiscard]] Duration liveness_bound() const {
    Duration bound = faults_last() + 10_ms;  // posting continues for so long after a restart
    for (const auto& connection : connections_) bound = bound + time_for(*connection);
    for (const GroupSettings& group : settings_.groups) bound = bound + time_for(group);
    return bound;
  }

  [[nodiscard]] Duration time_for(const Connection& connection) const {
    constexpr Duration kHost = 500_us;
    const Duration round_trip = settings_.link_of(connection.settings()).round_trip() + kHost;
    const bool silent = connection.settings().ends_in_error || settings_.events.crash;
    Duration all{};
    for (std::size_t side = 0; side < 2; ++side) {
      const EndpointConfig& endpoint = connection.settings().endpoints[side];
      const Traffic& traffic = connection.traffic(side);
      const std::uint64_t packets = traffic.operations.size() + traffic.bytes / mtu_bytes(endpoint.mtu);
      const Duration timeout = Duration::from_ns(4096) * (std::int64_t{1} << endpoint.timeout);
      // A silent peer is given up after 4 (retry_count + 1) timeouts (qp/timers/timer_lengths.h).
      const std::int64_t timeouts = silent ? 4 * (endpoint.retry_count + 1) + 1 : 4;
      // A standard peer states no credit: each window may exceed its socket, and only the timeout reveals that.
      const Duration round = settings_.agree(connection.settings()) ? round_trip * 2 : round_trip * 2 + timeout;
      const std::uint64_t windows = packets / smallest_window(connection.settings());
      all = all + timeout * timeouts + round_trip * 2 * static_cast<std::int64_t>(traffic.operations.size()) +
            round * static_cast<std::int64_t>(windows) + Bandwidth::from_bps(50'000'000).time_for(traffic.bytes);
    }
    return all;
  }

  // As for a connection with a window of one packet.
  [[nodiscard]] Duration time_for(const GroupSettings& group) const {
    constexpr std::int64_t kRetries = 8;
    Duration all{};
    for (const std::size_t sender : group.senders) {
      const Duration round = settings_.link_between(sender, group.receiver)->round_trip() * 2 + 1_ms;
      const std::int64_t packets = group.messages * (1 + group.bytes_max / mtu_bytes(group.mtu));
      const Duration timeout = Duration::from_ns(std::int64_t{4096} << group.timeout);
      all = all + (round + (settings_.all_agree() ? Duration{} : timeout)) * packets + timeout * (4 * kRetries + 1);
    }
    return all;
  }

  // In packets, of both sides.
  [[nodiscard]] std::uint64_t smallest_window(const ConnectionSettings& connection) const {
    std::uint64_t smallest = UINT64_MAX;
    for (const std::size_t host : connection.hosts) {
      const EngineConfig& engine = settings_.hosts[host].engine;
      smallest = std::min<std::uint64_t>({smallest, engine.recovery.window_packets, engine.receive_packets,
                                          engine.recovery.standard_window_packets,
                                          engine.receive_bytes / mtu_bytes(connection.endpoints[0].mtu)});
    }
    return std::max<std::uint64_t>(smallest, 1);
  }

  void plant_canary(std::uint64_t seed) {
    Random random{seed, "canary"};
    Arena& arena = connections_[random.below(connections_.size())]->arena(random.below(2));
    arena.bytes()[random.below(Arena::kGuard)] ^= std::byte{1};  // a guard byte before the first buffer
  }

  // True when all is done.
  bool progress() {
    bool done = true;
    for (auto& connection : connections_) {
      if (connection->begun()) connection->progress();
      done = done && connection->done();
    }
    for (auto& group : groups_) {
      group->progress();
      done = done && group->done();
    }
    return done;
  }

  [[nodiscard]] bool found() const {
    return std::any_of(connections_.begin(), connections_.end(), [](const auto& c) { return c->found(); }) ||
           std::any_of(groups_.begin(), groups_.end(), [](const auto& g) { return !g->findings().empty(); });
  }

  // Nothing more may happen: no completion, no byte, no timer that never ends.
  void check_end() {
    network_->end_faults();
    Duration round_trip{};
    for (const LinkSettings& link : settings_.links) round_trip = std::max(round_trip, link.round_trip());
    if (!world_.run_until_idle(kIdleWithin + round_trip * 20)) {
      findings_.push_back("not idle " + std::to_string(kIdleWithin.ns() / 1'000'000) + " ms after the end");
    }
    progress();
    for (auto& connection : connections_) connection->check_end();
    for (auto& group : groups_) group->check_end(/*all_arrive=*/false);
    for (const sim::Host* host : hosts_) {
      for (auto& finding : check_statistics(*host, expected_drops())) findings_.push_back(std::move(finding));
    }
    if (world_.packets().in_use() != 0) findings_.push_back("packets are left over");
    check_nothing_is_resent_in_vain();
    check_what_is_known_is_not_resent();
    check_only_losses_are_resent();
  }

  [[nodiscard]] ExpectedDrops expected_drops() const {
    return {.corrupted = settings_.corrupts(),
            .unknown_opcode = !settings_.all_agree(),
            .unknown_qp = settings_.events.crash.has_value()};
  }

  // Conditions: bitmap mode; no loss, corruption, duplication or reordering; nobody away; every receive posted in time;
  // paths that differ by no more than a receiver tolerates before it knows them. Then nothing is retransmitted, except
  // for a probe or a timeout before the first RTT sample.
  void check_nothing_is_resent_in_vain() {
    constexpr std::uint64_t kAllowed = 1;
    if (!settings_.all_in(RecoveryMode::kBitmap) || !settings_.faultless() || !settings_.near()) return;
    const WorldResult counted = count();
    std::uint64_t refused = 0;  // by a receiver without a receive, or without room for early packets
    for (const sim::Host* host : hosts_) {
      refused += host->statistics().get(Counter::kSentRnr) + host->statistics().get(Counter::kHeldForReceive);
      for (const DropReason full : {DropReason::kStateFull, DropReason::kHoldFull, DropReason::kEscapeFull}) {
        refused += host->statistics().get(full);
      }
    }
    if (counted.lost != 0 || refused != 0) return;
    if (counted.retransmitted > kAllowed * connections_.size()) {
      findings_.push_back("nothing was lost, but " + std::to_string(counted.retransmitted) +
                          " packets were sent again");
    }
  }

  // In any world: a copy of an acknowledged packet leaves to probe a path, and for nothing else.
  void check_what_is_known_is_not_resent() {
    for (const sim::Host* host : hosts_) {
      std::uint64_t needless = 0;
      std::string example;
      for (const auto& connection : connections_) needless += connection->needless(*host, example);
      const std::uint64_t probes = host->statistics().get(Counter::kPathProbed);
      if (needless > probes) {
        findings_.push_back(std::to_string(needless) + " packets were sent again though known to have arrived, with " +
                            std::to_string(probes) + " probes of paths; the first: " + example);
      }
    }
  }

  // In any world and mode copies leave for losses, for what receivers refused, for packets that others overtook, and
  // for what a timeout, a probe or a NAK says. The rest has a limit for each connection (README.md).
  void check_only_losses_are_resent() {
    CopyCounter::Counts copies;
    for (const auto& connection : connections_) copies += connection->copies();
    const std::uint64_t rnr = sum({Counter::kReceivedRnr}), probes = sum({Counter::kRetransmittedProbe});
    const std::uint64_t asked =
        std::max(rnr, sum({Counter::kRetransmittedNak})) + probes +
        sum({Counter::kRetransmittedTimeout, Counter::kRetransmittedPath, Counter::kReadsCopied, Counter::kPathProbed});
    // A path may fall silent, and the last packets of a burst count as lost late and twice.
    check_copies("requests", copies.again, late_and_resent(copies.late) + silent() + asked + refused(), 48);
    // Before the first measured round trip responses are requested again as on a short path.
    check_copies("responses", copies.answered_again, copies.late + asked, 128);
    // A standard requester goes back once for each of these, and then repeats the window in flight at most.
    check_copies("windows of standard packets", copies.passes,
                 count().reordered + sum({Counter::kLocalAckTimeout}) + rnr + probes, 16);
  }

  // A sender that judges by delays takes up to 64 packets of each direction as lost in a silence of the peer
  // (recovery/delay_judge.h). They count as those that waited too long, which late ones do as well.
  [[nodiscard]] std::uint64_t silent() const {
    return std::min<std::uint64_t>(sum({Counter::kRetransmittedWait}), 2 * 64 * connections_.size());
  }

  // Of `late` packets. With FFM the receiver waits for them, and learns from those that it misjudges; of a few the copy
  // comes first. A TCP sender may take an acknowledgement of the first transmission for one of the copy, and repeat it.
  [[nodiscard]] std::uint64_t late_and_resent(std::uint64_t late) const {
    constexpr std::uint64_t kCopyFirst = 32;
    if (settings_.all_in(RecoveryMode::kSelective)) return late * 2;
    if (!settings_.all_in(RecoveryMode::kBitmap)) return late;
    return std::min(late, sum({Counter::kMisjudgementCorrections}) * 2 + kCopyFirst * connections_.size());
  }

  // `beyond`: for each connection.
  void check_copies(const char* what, std::uint64_t copies, std::uint64_t explained, std::uint64_t beyond) {
    const std::uint64_t lost = count().lost;
    if (copies <= lost + explained + beyond * connections_.size()) return;
    findings_.push_back(std::to_string(copies) + " " + what + " were sent again: " + std::to_string(lost) +
                        " packets were lost, and " + std::to_string(explained) + " copies have other reasons");
  }

  // Packets that came and were not kept, though they were intact, new, and for a queue pair. Not what a responder that
  // goes back N drops behind a loss.
  [[nodiscard]] std::uint64_t refused() const {
    std::uint64_t sum = 0;
    for (const sim::Host* host : hosts_) {
      for (const DropReason reason :
           {DropReason::kStandardRefused, DropReason::kQpState, DropReason::kOutOfWindow, DropReason::kHoldFull,
            DropReason::kEscapeFull, DropReason::kStateFull, DropReason::kEarlyNoReceive, DropReason::kEarlyInvalid,
            DropReason::kReceiverNotReady, DropReason::kAfterError, DropReason::kFetchFailed}) {
        sum += host->statistics().get(reason);
      }
      if (!settings_.any_in(RecoveryMode::kGoBackN)) sum += host->statistics().get(DropReason::kOutOfOrder);
    }
    return sum;
  }
  [[nodiscard]] std::uint64_t sum(std::initializer_list<Counter> counters) const {
    std::uint64_t all = 0;
    for (const Counter counter : counters) {
      for (const sim::Host* host : hosts_) all += host->statistics().get(counter);
    }
    return all;
  }

  [[nodiscard]] WorldResult count() const {
    WorldResult result;
    for (const LinkSettings& settings : settings_.links) {
      for (std::size_t side = 0; side < 2; ++side) {
        const auto link = world_.link_counters(*hosts_[settings.hosts[side]], *hosts_[settings.hosts[1 - side]]);
        result.packets += link.offered;
        result.lost += link.lost + link.burst_lost + link.queue_dropped + link.corrupted;
        result.reordered += link.reordered;
      }
    }
    for (const sim::Host* host : hosts_) {
      result.lost += host->socket_drops();
      result.fetched += host->statistics().get(Counter::kFetches);
      std::size_t cause = 0;
      for (const Counter c : kRetransmissions) {
        const std::uint64_t count = host->statistics().get(c);
        result.by_cause[cause++] += count;
        result.retransmitted += count;
      }
    }
    return result;
  }

  [[nodiscard]] WorldMode mode() const {
    if (settings_.all_in(RecoveryMode::kBitmap)) return WorldMode::kBitmap;
    if (settings_.all_in(RecoveryMode::kSelective)) return WorldMode::kSelective;
    if (settings_.all_in(RecoveryMode::kWan) || settings_.all_in(RecoveryMode::kWanFeedback)) return WorldMode::kWan;
    return settings_.any_in(RecoveryMode::kGoBackN) ? WorldMode::kGoBackN : WorldMode::kStandard;
  }

  WorldResult result() {
    WorldResult result = count();
    result.findings = findings_;
    result.mode = mode();
    std::string states;
    for (auto& connection : connections_) {
      for (std::string& finding : connection->findings()) result.findings.push_back(std::move(finding));
      states += connection->state();
      for (std::size_t side = 0; side < 2; ++side) result.bytes += connection->traffic(side).bytes;
    }
    for (auto& group : groups_) {
      for (const std::string& finding : group->findings()) result.findings.push_back(finding);
      result.group_messages += group->received();
      states += group->state();
    }
    result.virtual_ns = world_.now().ns();
    if (options_.digest) {
      digest_.add(world_.trace().full_trace());
      result.digest = digest_.value();
    }
    if (options_.traced) result.trace = world_.trace().full_trace();
    if (options_.traced || !result.ok()) result.settings = settings_.text() + states;
    return result;
  }

  WorldOptions options_;
  WorldSettings settings_;
  WireDigest digest_;
  sim::LocalProcesses machine_;
  sim::World world_;
  std::vector<sim::Host*> hosts_;
  std::unique_ptr<FaultyNetwork> network_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<MessageGroup>> groups_;
  Instant faults_end_;
  Duration bound_;
  std::vector<std::string> findings_;
};

}  // namespace

WorldResult run_random_world(std::uint64_t seed, const WorldOptions& options) {
  return RandomWorld{seed, options}.run();
}

}  // namespace brdma::test
