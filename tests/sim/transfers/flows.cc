#include "transfers/flows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "qp/state/management.h"
#include "sim/world.h"
#include "streams/endpoint_pair.h"
#include "support/arena.h"
#include "trace/retransmissions.h"

namespace brdma::test {
namespace {

// Of selective recovery in hardware, as published with IRN: for few packets in flight and for more.
constexpr Duration kTimeoutLow = 100_us, kTimeoutHigh = 320_us;
// The path's: gaps are judged by it. (The defaults, 50 and 80 us, are for hosts that may lose their core.)
constexpr Duration kRoundTrip = 10_us;
constexpr Duration kPauseMax = 100_us;  // for a full queue to drain, after a switch has reported a drop

struct Flow {
  std::uint32_t bytes = 0;
  Instant came;
};

struct Pair {
  std::unique_ptr<EndpointPair> ends;
  std::optional<Flow> flow;
};

// A sending host: flows wait if none of its connections is free.
struct Sender {
  sim::Host* host = nullptr;
  std::vector<Pair> pairs;
  std::vector<std::uint32_t> free;
  std::deque<Flow> waiting;
};

class Flows {
 public:
  Flows(const FlowsConfig& config, const FlowSizes& sizes)
      : config_(config),
        sizes_(sizes),
        world_(config.seed),
        from_(make_arena(1, sizes.largest())),
        to_(make_arena(2, sizes.largest())) {
    receiver_ = &add_host(0);
    for (std::uint32_t i = 0; i < config.senders; ++i) senders_.emplace_back().host = &add_host(i + 1);
    network_.link.delay = config.delay;
    network_.link.rate = Bandwidth::from_bps(config.rate_bps);
    network_.link.queue_bytes = config.queue_bytes;
    network_.uplink = config.uplink;
    if (config.buffer) network_.buffer = *config.buffer;
    if (config.edn) network_.edn = fabric::EdnForm::kIcmp;
    switched_ = &world_.switch_hosts(network_);
    for (Sender& sender : senders_) connect(sender);
    BRDMA_CHECK(world_.run_until([&] { return agreed(); }, 1_s));
    network_.link.impairments.loss_ppm = config.loss_ppm;
    switched_->configure_towards(*receiver_, network_.link);
    if (config.loses_answers) switched_->configure(network_);
    begin_ = count();
    plan();
  }

  FlowsResult run() {
    const auto done = [this] {
      for (Sender& sender : senders_) progress(sender);
      return result_.times.size() == config_.flows;
    };
    BRDMA_CHECK(world_.run_until(done, 1000_s));
    const FlowsResult end = count();
    std::sort(result_.times.begin(), result_.times.end());
    result_.packets = end.packets - begin_.packets;
    result_.retransmitted = end.retransmitted - begin_.retransmitted;
    result_.timeouts = end.timeouts - begin_.timeouts;
    result_.lost = end.lost - begin_.lost;
    result_.forwarded = end.forwarded - begin_.forwarded;
    result_.forwarded_bytes = end.forwarded_bytes - begin_.forwarded_bytes;
    result_.notices = end.notices - begin_.notices;
    result_.notice_bytes = end.notice_bytes - begin_.notice_bytes;
    result_.table_most = end.table_most;
    result_.network = fabric::network_text(network_) + (config_.loses_answers ? ";both-ways" : "");
    return result_;
  }

 private:
  static Arena make_arena(std::uint64_t number, std::uint32_t bytes) {
    Arena arena{number << 44, Random{1, "flows"}};
    arena.allocate(bytes);
    arena.freeze();
    return arena;
  }

  sim::Host& add_host(std::uint32_t number) {
    sim::HostConfig host;
    host.name = number == 0 ? "rx" : "tx" + std::to_string(number);
    host.address = IpAddress::v4(10, 77, 0, static_cast<std::uint8_t>(number + 1));
    host.engine.recovery.mode = config_.mode;
    host.engine.recovery.congestion.control = config_.control;
    host.engine.recovery.window_packets = config_.window;
    host.engine.recovery.standard_window_packets =
        std::min(config_.window, host.engine.recovery.standard_window_packets);
    host.engine.recovery.edn = config_.edn;
    host.engine.recovery.edn_pause_max = kPauseMax;
    host.engine.recovery.probe_timeout_min = kTimeoutLow;
    host.engine.recovery.retransmit_timeout_min = kTimeoutHigh;
    host.engine.recovery.send_stall_min = kTimeoutHigh;
    host.engine.recovery.age_max = kRoundTrip;
    host.engine.recovery.stall_max = kRoundTrip * 2;
    host.engine.recovery.resend_interval_min = kRoundTrip;
    host.engine.seed = config_.seed + number;
    host.engine.segments_max = 64;
    host.engine.receive_packets = 4096;
    host.engine.receive_bytes = 16u << 20;
    host.output_rate = Bandwidth::from_bps(config_.rate_bps);
    return world_.add_host(host);
  }

  void connect(Sender& sender) {
    sender.pairs.resize(config_.connections);
    for (std::uint32_t i = 0; i < config_.connections; ++i) {
      connect(sender, sender.pairs[i]);
      sender.free.push_back(i);
    }
  }
  void connect(Sender& sender, Pair& pair) {
    EndpointConfig endpoint;
    endpoint.timeout = config_.timeout;
    endpoint.send_wr_max = 1;
    pair.ends =
        std::make_unique<EndpointPair>(world_, std::array{sender.host, receiver_}, endpoint, std::array{&from_, &to_});
    if (config_.irn) (*pair.ends)[0].qp()->manage().follow_irn(*config_.irn);
  }

  [[nodiscard]] bool agreed() const {
    if (!negotiates(config_.mode)) return true;
    const std::uint64_t each = config_.connections;
    return receiver_->statistics().get(Counter::kBitmapQps) == each * senders_.size() &&
           std::all_of(senders_.begin(), senders_.end(), [each](const Sender& sender) {
             return sender.host->statistics().get(Counter::kBitmapQps) == each;
           });
  }

  // Arrivals, with exponential times between them.
  void plan() {
    Random arrivals{config_.seed, "arrivals"}, lengths{config_.seed, "lengths"};
    const std::size_t at_once = config_.together ? senders_.size() : 1;
    const double mean_ns = sizes_.mean() * 8e9 / (static_cast<double>(config_.rate_bps) * config_.load);
    double at = 0;
    for (std::uint32_t i = 0; i < config_.flows; ++i) {
      const double chance = (static_cast<double>(arrivals.below(1u << 30)) + 1) / (1u << 30);
      if (i % at_once == 0) at -= std::log(chance) * mean_ns * static_cast<double>(at_once);
      const std::uint32_t bytes = sizes_.draw(lengths);
      Sender& sender = senders_[config_.together ? i % senders_.size() : arrivals.below(senders_.size())];
      result_.bytes += bytes;
      const Instant when = world_.now() + Duration::from_ns(static_cast<std::int64_t>(at));
      world_.at(when, [this, &sender, bytes] {
        if (sender.free.empty()) ++result_.waited;
        sender.waiting.push_back({bytes, world_.now()});
        post(sender);
      });
    }
  }

  void post(Sender& sender) {
    while (!sender.waiting.empty() && !sender.free.empty()) {
      const Flow flow = sender.waiting.front();
      sender.waiting.pop_front();
      Pair& pair = sender.pairs[sender.free.back()];
      sender.free.pop_back();
      pair.flow = flow;
      const Sge sge{from_.iova() + Arena::kGuard, flow.bytes, (*pair.ends)[0].key()};
      SendRequest request;
      request.sges = {&sge, 1};
      request.opcode = WorkOpcode::kRdmaWrite;
      request.flags = kSendSignaled;
      request.remote_address = to_.iova() + Arena::kGuard;
      request.rkey = (*pair.ends)[1].key();
      BRDMA_CHECK(sender.host->engine().post_send((*pair.ends)[0].qp(), request, world_.now()).ok());
      sender.host->touch();
    }
  }

  void progress(Sender& sender) {
    for (std::uint32_t i = 0; i < sender.pairs.size(); ++i) {
      Pair& pair = sender.pairs[i];
      std::array<Completion, 1> completion;
      if (!pair.flow || sender.host->engine().poll_cq((*pair.ends)[0].cq(), completion) == 0) continue;
      if (completion[0].status == CompletionStatus::kSuccess) {
        result_.times.push_back(world_.now() - pair.flow->came);
      } else {
        begin_anew(sender, pair);
      }
      pair.flow.reset();
      sender.free.push_back(i);
    }
    post(sender);
  }
  // Its retries have run out: a program connects again and repeats its request.
  void begin_anew(Sender& sender, Pair& pair) {
    ++result_.broken;
    sender.waiting.push_front(*pair.flow);
    pair.ends->destroy();
    connect(sender, pair);
    sender.host->touch();
    receiver_->touch();
  }

  // Since the start, without the packets of connection setup.
  [[nodiscard]] FlowsResult count() const {
    FlowsResult sum;
    for (const Sender& sender : senders_) {
      const Statistics& tx = sender.host->statistics();
      sum.packets += tx.get(Counter::kSentDataPackets);
      sum.timeouts += tx.get(Counter::kLocalAckTimeout);
      sum.retransmitted += retransmitted(tx);
    }
    const fabric::LinkCounters link = switched_->counters_towards(*receiver_);
    sum.lost = link.lost + link.queue_dropped + link.buffer_dropped;
    sum.forwarded = link.forwarded;
    sum.forwarded_bytes = link.bytes;
    if (const auto* notifier = switched_->notifier()) {
      sum.notices = notifier->counters().sent;
      sum.notice_bytes = notifier->counters().sent_bytes;
      sum.table_most = notifier->table().counters().flows_most;
    }
    return sum;
  }

  FlowsConfig config_;
  const FlowSizes& sizes_;
  sim::World world_;
  Arena from_, to_;  // shared by all: the payload does not matter
  fabric::NetworkConfig network_;
  sim::SwitchedNetwork* switched_ = nullptr;
  sim::Host* receiver_ = nullptr;
  std::deque<Sender> senders_;
  FlowsResult begin_, result_;
};

}  // namespace

FlowsResult run_flows(const FlowsConfig& config, const FlowSizes& sizes) { return Flows{config, sizes}.run(); }

}  // namespace brdma::test
