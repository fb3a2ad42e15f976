#include "bottlenecks/bottleneck.h"

#include <algorithm>
#include <memory>

#include "fabric/network.h"
#include "sim/world.h"
#include "streams/stream_pair.h"
#include "trace/retransmissions.h"

namespace brdma::test {
namespace {

constexpr std::uint64_t kLong = 64 * 1024;  // a queue that counts as congestion

struct Flow {
  StreamPair pair;
  bool runs = false;
};

class Bottleneck {
 public:
  explicit Bottleneck(const BottleneckConfig& config)
      : config_(config), world_(config.seed), network_(world_.route_hosts()) {
    sim::RouterNode& router = network_.add_router(config.memory);
    router_ = &router;
    fabric::LinkConfig access{
        .delay = config.access, .rate = Bandwidth::from_bps(config.rate_bps), .queue_bytes = 1u << 30};
    fabric::LinkConfig narrow{.delay = config.beyond, .rate = Bandwidth::from_bps(config.rate_bps)};
    narrow.queue_bytes = config.queue_bytes;
    narrow.marking = config.marking;
    receiver_ = &add_host(0);
    network_.join(*receiver_, router, {.delay = config.beyond, .rate = access.rate, .queue_bytes = access.queue_bytes},
                  narrow);
    for (std::uint32_t i = 0; i < config.flows; ++i) {
      sim::Host& host = add_host(i + 1);
      network_.join(host, router, access, access);
      connect(host, i);
    }
    if (config.translation) network_.translate_marks(*config.translation);
    if (config.edn != fabric::EdnForm::kOff) network_.notify_drops({.form = config.edn});
  }

  BottleneckResult run() {
    for (std::size_t i = 0; i < (flows_.size() + 1) / 2; ++i) flows_[i]->runs = true;
    run_for(config_.alone);
    for (auto& flow : flows_) flow->runs = true;
    watch_ = true;
    run_for(config_.together / 2);
    std::vector<std::uint64_t> before;
    for (const auto& flow : flows_) before.push_back(flow->pair.completed());
    measured_from_ = queue_.size();
    const Duration measured = config_.together / 2;
    run_for(measured);
    return result(before, measured);
  }

 private:
  sim::Host& add_host(std::uint32_t number) {
    sim::HostConfig host;
    host.name = number == 0 ? "receiver" : "sender " + std::to_string(number);
    host.address = IpAddress::v4(10, 77, 0, static_cast<std::uint8_t>(number + 1));
    host.engine.seed = config_.seed * 100 + number;
    host.engine.segments_max = 64;
    host.engine.recovery.window_packets = config_.window;
    host.engine.receive_packets = config_.window;
    host.engine.receive_bytes = config_.window * 4096;
    if (config_.host) config_.host(host);
    return world_.add_host(host);
  }

  void connect(sim::Host& host, std::uint32_t number) {
    EndpointConfig endpoint;
    endpoint.mtu = PathMtu::k4096;
    endpoint.timeout = 15;
    endpoint.send_wr_max = config_.requests_posted;
    if (config_.reads) endpoint.rd_atomic_max = 16;
    sim::Host &from = config_.reads ? *receiver_ : host, &to = config_.reads ? host : *receiver_;
    flows_.push_back(std::make_unique<Flow>(Flow{{world_, from, to, endpoint, number, config_.request_bytes}}));
  }

  void run_for(Duration how_long) {
    const Instant end = world_.now() + how_long;
    while (world_.now() < end) {
      world_.run_until(
          [this] {
            for (auto& flow : flows_) progress(*flow);
            return false;
          },
          std::min(config_.sample, end - world_.now()));
      if (watch_) look();
      if (config_.step > Duration{} && world_.now() >= next_step_) take_step();
    }
  }

  void take_step() {
    next_step_ = world_.now() + config_.step;
    BottleneckStep step;
    step.at = world_.now();
    step.dropped = dropped();
    step.offered = network_.link(*router_, *receiver_).counters().offered;
    for (const auto& flow : flows_) step.completed.push_back(flow->pair.completed() * config_.request_bytes);
    course_.push_back(std::move(step));
  }

  [[nodiscard]] std::uint64_t dropped() {
    const fabric::LinkCounters counters = network_.link(*router_, *receiver_).counters();
    return counters.queue_dropped + counters.buffer_dropped + counters.random_dropped;
  }

  void progress(Flow& flow) {
    if (!flow.runs) return;
    flow.pair.take();
    flow.pair.post(config_.reads ? WorkOpcode::kRdmaRead : WorkOpcode::kRdmaWrite, config_.requests_posted);
  }

  void look() {
    const std::uint64_t bytes = network_.link(*router_, *receiver_).queue().occupied();
    queue_.push_back(bytes);
    was_short_ = was_short_ || bytes < kLong;
    if (was_short_ && !long_since_ && bytes >= kLong) long_since_ = world_.now();
    // Its first peak is over when a quarter of its growth has drained.
    if (!long_since_ || peak_is_over_) return;
    if (bytes > peak_) {
      peak_ = bytes;
      peak_at_ = world_.now();
    }
    peak_is_over_ = bytes < peak_ - peak_ / 4;
  }

  [[nodiscard]] std::string network_name() const {
    fabric::NetworkConfig network{.link = network_.link(*router_, *receiver_).config(), .buffer = config_.memory};
    network.edn = config_.edn;
    if (config_.translation) network.ecn_to_rtt = {config_.translation->increment, false, config_.translation->rewrite};
    return fabric::network_text(network) + ";access=" + std::to_string(config_.access.ns()) + "ns";
  }

  BottleneckResult result(const std::vector<std::uint64_t>& before, Duration measured) {
    BottleneckResult result;
    result.network = network_name();
    const double possible = static_cast<double>(config_.rate_bps) * static_cast<double>(measured.ns()) / 8e9;
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      const double share =
          static_cast<double>((flows_[i]->pair.completed() - before[i]) * config_.request_bytes) / possible;
      result.shares.push_back(share);
      sum += share;
      squares += share * share;
      const Statistics& counted = flows_[i]->pair.host().statistics();
      result.packets += counted.get(Counter::kSentDataPackets);
      result.retransmitted += retransmitted(counted);
    }
    result.share = sum;
    result.jain = squares == 0 ? 0 : sum * sum / (static_cast<double>(flows_.size()) * squares);
    result.queue_most = *std::max_element(queue_.begin(), queue_.end());
    std::vector<std::uint64_t> late(queue_.begin() + static_cast<std::ptrdiff_t>(measured_from_), queue_.end());
    std::sort(late.begin(), late.end());
    result.queue_p50 = late[late.size() / 2];
    result.queue_p99 = late[late.size() * 99 / 100];
    if (peak_is_over_) result.reaction = peak_at_ - *long_since_;
    result.dropped = dropped();
    result.marked = network_.link(*router_, *receiver_).counters().marked;
    if (router_->translator) result.rewritten = router_->translator->counters().rewritten;
    if (router_->notifier) result.notices = router_->notifier->counters().sent;
    result.router = router_->router.counters();
    result.course = std::move(course_);
    return result;
  }

  BottleneckConfig config_;
  sim::World world_;
  sim::RoutedNetwork& network_;
  sim::RouterNode* router_ = nullptr;
  sim::Host* receiver_ = nullptr;
  std::vector<std::unique_ptr<Flow>> flows_;
  std::vector<std::uint64_t> queue_;  // samples since all run
  std::size_t measured_from_ = 0;
  bool watch_ = false, was_short_ = false, peak_is_over_ = false;
  std::uint64_t peak_ = 0;
  Instant peak_at_;
  std::optional<Instant> long_since_;
  std::vector<BottleneckStep> course_;
  Instant next_step_;
};

}  // namespace

BottleneckResult run_bottleneck(const BottleneckConfig& config) { return Bottleneck{config}.run(); }

}  // namespace brdma::test
