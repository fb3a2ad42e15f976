#include "run/simulation.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "control/statistics.h"
#include "run/engine_host.h"
#include "run/models.h"
#include "run/network_of.h"
#include "run/standalone.h"
#include "scenario/table_reader.h"
#include "sim/world.h"
#include "trace/retransmissions.h"

namespace brdma::simulator {
namespace {

constexpr Duration kConnectMax = 10_s;
constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 30;
constexpr std::size_t kProgressEvery = 64;  // flows

fabric::LinkCounters less(fabric::LinkCounters after, const fabric::LinkCounters& before) {
#define BRDMA_X(member) after.member -= before.member;
  BRDMA_LINK_COUNTERS(BRDMA_X)
#undef BRDMA_X
  return after;
}

// The links from one host to another: each is looked up once for each pair of switches.
class Paths {
 public:
  explicit Paths(const Shape& shape) : shape_(shape) {}
  [[nodiscard]] const std::vector<Hop>& between(std::uint32_t from, std::uint32_t to) {
    auto [found, is_new] = known_.try_emplace(std::pair{from, to});
    if (is_new) found->second = hops(shape_, from, to);
    return found->second;
  }

 private:
  const Shape& shape_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Hop>> known_;
};

class Simulation {
 public:
  Simulation(const Scenario& scenario, std::uint64_t seed)
      : scenario_(scenario), shape_(make_shape(scenario)), world_(seed), network_(world_.route_hosts()) {
    world_.run_only_due();
    result_.seed = seed;
    plan_flows(seed);
    make_hosts(seed);
    check_flows();
    routers_ = make_network(network_, scenario_, shape_, stations_);
    make_connections();
    apply_faults(network_, scenario_, shape_, routers_);
    links_before_ = network_.counters();
    counted_before_ = counted();
  }

  RunResult run(const std::function<void(std::size_t)>& progress) {
    begin_ = world_.now();
    for (std::size_t i = 0; i < result_.flows.size(); ++i) {
      world_.at(begin_ + result_.flows[i].flow.start, [this, i] { begin_flow(i); });
    }
    const Duration first = result_.flows.empty() ? Duration{} : result_.flows.front().flow.start;
    std::size_t shown = 0;
    (void)world_.run_until(
        [&] {
          for (sim::Station* const station : world_.ran()) take(*station);
          if (progress && done_ >= shown + kProgressEvery) progress(shown = done_);
          return done_ == result_.flows.size();
        },
        first + scenario_.run.time_limit);
    result_.length = world_.now() - begin_ - first;
    count();
    return std::move(result_);
  }

 private:
  struct Connection {
    EngineConnection ends;
    std::uint64_t pair = 0;  // key of pairs_
    std::size_t flow = 0;
  };
  // From one host to another.
  struct Pair {
    std::vector<std::size_t> free;    // connections
    std::deque<std::size_t> waiting;  // flows
    std::uint32_t connections = 0;
  };
  static std::uint64_t key(const Flow& flow) { return std::uint64_t{flow.from} << 32 | flow.to; }

  void plan_flows(std::uint64_t seed) {
    std::uint64_t largest = 1;
    for (const Flow& flow : make_flows(scenario_, shape_, seed)) {
      if (flow.bytes > kBytesMax) throw ScenarioError("a flow of more than 1 GiB: choose other sizes");
      largest = std::max(largest, flow.bytes);
      result_.flows.push_back({flow, {}, {}, 0});
      Pair& pair = pairs_[key(flow)];
      pair.connections = std::min(pair.connections + 1, scenario_.run.connections);
    }
    memory_.resize(largest);
    result_.hosts = shape_.hosts.size();
    result_.switches = shape_.switches.size();
  }

  const ProtocolPlan& protocol_of(std::uint32_t host) const {
    for (const GroupPlan& group : scenario_.groups) {
      if (std::binary_search(group.hosts.begin(), group.hosts.end(), host)) return group.protocol;
    }
    return scenario_.protocol;
  }

  void make_hosts(std::uint64_t seed) {
    std::vector<std::uint32_t> at_switch(shape_.switches.size());
    models_ = make_model_flows(world_, network_, scenario_, shape_);
    hosts_.resize(shape_.hosts.size());
    for (std::uint32_t i = 0; i < shape_.hosts.size(); ++i) {
      const Shape::Host& shape = shape_.hosts[i];
      const IpAddress address = host_address(shape.at, at_switch[shape.at]++);
      const ProtocolPlan& plan = protocol_of(i);
      if (plan.is_model) {
        stations_.push_back(&models_->add_host(i, address, shape.up.rate, plan));
        continue;
      }
      hosts_[i] = std::make_unique<EngineHost>(world_, engine_config(i, address, plan, seed), plan, memory_);
      stations_.push_back(&hosts_[i]->host());
      by_station_[stations_.back()] = hosts_[i].get();
    }
  }
  sim::HostConfig engine_config(std::uint32_t number, const IpAddress& address, const ProtocolPlan& plan,
                                std::uint64_t seed) const {
    const Shape::Host& shape = shape_.hosts[number];
    sim::HostConfig config;
    config.name = "h" + std::to_string(number + 1);
    config.address = address;
    config.engine.seed = seed * 10'000 + number;
    config.engine.recovery = plan.recovery;
    config.engine.recovery.qps_max = 1u << 20;
    config.engine.recovery.device_state_bytes_max = 0xFFFF'FFFF;
    if (shape.up.rate) {
      config.engine.recovery.congestion.port_rate_mbps = static_cast<std::uint32_t>(shape.up.rate->bps() / 1'000'000);
      config.output_rate = shape.up.rate;
    }
    config.engine.segments_max = plan.batch;
    config.engine.receive_packets = 1u << 16;
    config.engine.receive_bytes = 1u << 28;
    return config;
  }
  // Models and engines do not understand each other.
  void check_flows() const {
    for (const FlowResult& each : result_.flows) {
      if ((hosts_[each.flow.from] == nullptr) == (hosts_[each.flow.to] == nullptr)) continue;
      throw ScenarioError("a flow from h" + std::to_string(each.flow.from + 1) + " (" +
                          protocol_of(each.flow.from).name + ") to h" + std::to_string(each.flow.to + 1) + " (" +
                          protocol_of(each.flow.to).name +
                          "): these protocols do not understand each other; choose senders and receivers of one kind");
    }
  }

  void make_connections() {
    const std::vector<std::uint32_t> agreed = make_objects();
    for (auto& [number, pair] : pairs_) {
      if (hosts_[static_cast<std::size_t>(number >> 32)] == nullptr) continue;
      for (std::uint32_t i = 0; i < pair.connections; ++i) {
        connections_.push_back({connect(number), number, 0});
        pair.free.push_back(connections_.size() - 1);
      }
    }
    if (!world_.run_until([&] { return have_agreed(agreed); }, kConnectMax))
      throw ScenarioError("the hosts cannot reach each other: is a link missing?");
  }
  // Connections that will speak the bitmap, of each host.
  std::vector<std::uint32_t> make_objects() {
    std::vector<std::uint32_t> at_host(hosts_.size()), agreed(hosts_.size());
    for (const auto& [number, pair] : pairs_) {
      const auto from = static_cast<std::size_t>(number >> 32), to = static_cast<std::size_t>(number & 0xFFFF'FFFF);
      if (hosts_[from] == nullptr) continue;
      const bool both = hosts_[from]->negotiates() && hosts_[to]->negotiates();
      for (const std::size_t host : {from, to}) {
        at_host[host] += pair.connections;
        agreed[host] += both ? pair.connections : 0;
      }
    }
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i] != nullptr) hosts_[i]->make_objects(at_host[i] + 1);
    }
    return agreed;
  }
  bool have_agreed(const std::vector<std::uint32_t>& agreed) const {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i] != nullptr && hosts_[i]->host().statistics().get(Counter::kBitmapQps) < agreed[i]) return false;
    }
    return true;
  }
  EngineConnection connect(std::uint64_t number) {
    return {world_, *hosts_[static_cast<std::size_t>(number >> 32)],
            *hosts_[static_cast<std::size_t>(number & 0xFFFF'FFFF)], scenario_.network.mtu};
  }

  void begin_flow(std::size_t flow) {
    if (hosts_[result_.flows[flow].flow.from] == nullptr)
      return models_->begin(flow, result_.flows[flow].flow, world_.now());
    Pair& pair = pairs_.at(key(result_.flows[flow].flow));
    if (pair.free.empty()) ++result_.waited;
    pair.waiting.push_back(flow);
    serve(pair);
  }
  void serve(Pair& pair) {
    while (!pair.waiting.empty() && !pair.free.empty()) {
      Connection& connection = connections_[pair.free.back()];
      connection.flow = pair.waiting.front();
      connection.ends.write(result_.flows[connection.flow].flow.bytes, pair.free.back());
      pair.free.pop_back();
      pair.waiting.pop_front();
    }
  }
  void take(sim::Station& station) {
    const auto engine = by_station_.find(&station);
    if (engine != by_station_.end()) {
      return engine->second->take_completions([this](const Completion& completion) { end_flow(completion); });
    }
    const auto done = [this](std::size_t flow) { finish(result_.flows[flow]); };
    models_->take_done(station, done);
  }
  void finish(FlowResult& flow) {
    flow.took = world_.now() - (begin_ + flow.flow.start);
    ++done_;
  }
  void end_flow(const Completion& completion) {
    const auto number = static_cast<std::size_t>(completion.wr_id);
    Connection& connection = connections_[number];
    Pair& pair = pairs_.at(connection.pair);
    FlowResult& flow = result_.flows[connection.flow];
    if (completion.status == CompletionStatus::kSuccess) {
      finish(flow);
    } else {  // its retries have run out: a program connects again and repeats its request
      ++flow.broken;
      pair.waiting.push_front(connection.flow);
      connection.ends.close();
      connection.ends = connect(connection.pair);
    }
    pair.free.push_back(number);
    serve(pair);
  }

  [[nodiscard]] Statistics counted() const {
    Statistics sum;
    for (const auto& host : hosts_) {
      if (host != nullptr) control::accumulate(sum, host->host().statistics());
    }
    return sum;
  }
  void count() {
    const Statistics all = control::difference(counted(), counted_before_);
    result_.links = less(network_.counters(), links_before_);
    result_.sent = all.get(Counter::kSentDataPackets);
    result_.timeouts = all.get(Counter::kLocalAckTimeout);
    for (const Counter cause : kRetransmissions) {
      result_.retransmitted[std::string{kCounterNames[static_cast<std::size_t>(cause)]}] = all.get(cause);
    }
    for (const sim::RouterNode* router : routers_) {
      if (router->notifier) result_.notices += router->notifier->counters().sent;
      if (router->translator) result_.rewritten += router->translator->counters().rewritten;
    }
    if (models_) count_models();
    Paths paths{shape_};
    for (FlowResult& each : result_.flows) {
      const auto [sizes, payload] = sizes_of(each.flow);
      each.alone = standalone_time(each.flow.bytes, payload, sizes, paths.between(each.flow.from, each.flow.to),
                                   paths.between(each.flow.to, each.flow.from));
    }
  }
  void count_models() {
    const ModelCounts models = models_->counts();
    result_.sent += models.sent;
    result_.timeouts += models.timeouts;
    result_.notices += models.notices;
    for (const auto& [cause, packets] : models.retransmitted) result_.retransmitted[cause] += packets;
  }
  [[nodiscard]] std::pair<PacketSizes, std::uint32_t> sizes_of(const Flow& flow) const {
    if (hosts_[flow.from] == nullptr) return models_->sizes(flow.from);
    const bool both = hosts_[flow.from]->negotiates() && hosts_[flow.to]->negotiates();
    return {packet_sizes(both ? RecoveryMode::kBitmap : RecoveryMode::kGoBackN), scenario_.network.mtu};
  }

  const Scenario& scenario_;
  Shape shape_;
  std::vector<std::byte> memory_;
  sim::World world_;
  sim::RoutedNetwork& network_;
  std::vector<std::unique_ptr<EngineHost>> hosts_;  // null: it runs a model
  std::unique_ptr<ModelFlows> models_;              // null: this build has none
  std::vector<sim::Station*> stations_;             // of all hosts
  std::unordered_map<const sim::Station*, EngineHost*> by_station_;
  std::vector<sim::RouterNode*> routers_;
  std::map<std::uint64_t, Pair> pairs_;
  std::vector<Connection> connections_;
  RunResult result_;
  std::size_t done_ = 0;
  Instant begin_;
  fabric::LinkCounters links_before_;
  Statistics counted_before_;
};

}  // namespace

RunResult run_scenario(const Scenario& scenario, std::uint64_t seed, const std::function<void(std::size_t)>& progress) {
  return Simulation{scenario, seed}.run(progress);
}

}  // namespace brdma::simulator
