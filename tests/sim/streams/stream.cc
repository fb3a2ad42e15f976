#include "streams/stream.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "qp/state/management.h"
#include "sim/world.h"
#include "streams/flight_log.h"
#include "streams/stream_pair.h"
#include "trace/retransmissions.h"

namespace brdma::test {
namespace {

// One stream, and its start: a queue pair on each host, and its progress.
struct Flow {
  StreamPair pair;
  Duration starts{};  // after the agreement
};

class Streams {
 public:
  explicit Streams(const StreamConfig& config) : config_(config), world_(config.seed) {
    for (std::uint8_t side = 0; side < 2; ++side) {
      sim::HostConfig host;
      host.name = side == 0 ? "tx" : "rx";
      host.address = IpAddress::v4(10, 77, 0, static_cast<std::uint8_t>(side + 1));
      host.engine.recovery.mode = config.mode;
      host.engine.recovery.adaptive = config.adaptive;
      host.engine.recovery.edn = config.applies_edn;
      host.engine.recovery.edn_pause_max = config.edn_pause_max;
      host.engine.recovery.congestion = config.congestion;
      host.engine.recovery.congestion.port_rate_mbps = static_cast<std::uint32_t>(config.rate_bps / 1'000'000);
      host.engine.seed = config.seed + side;
      host.engine.recovery.spraying = config.spraying;
      host.engine.recovery.path_bitmaps = config.path_bitmaps;
      for (std::uint16_t path = 1; path < config.paths; ++path) {
        host.engine.source_ports.push_back(static_cast<std::uint16_t>(0xC000 + path));
      }
      host.engine.segments_max = 64;
      host.engine.transfer.segment_bytes = config.segment_bytes;
      host.engine.recovery.window_packets = config.window;
      if (config.standard_window != 0) host.engine.recovery.standard_window_packets = config.standard_window;
      host.engine.recovery.state_bytes_max = config.state_bytes_max;
      host.engine.recovery.hold_bytes_max = config.hold_bytes_max;
      host.engine.receive_packets = config.receive_packets;
      host.engine.receive_bytes = config.receive_bytes;
      host.stalls = side == 0 ? config.sender_stalls : config.receiver_stalls;
      hosts_[side] = &world_.add_host(host);
    }
    link_.delay = config.delay;
    link_.rate = Bandwidth::from_bps(config.rate_bps);
    link_.queue_bytes = config.queue_bytes;
    link_.packets_max = 1u << 22;
    link_.paths = config.paths;
    link_.skew = config.skew;
    if (config.path_loss_begins_at_once) link_.path_loss_ppm = config.path_loss_ppm;
    link_.marking = config.marking;
    make_network();
    for (std::uint32_t i = 0; i < config.flows; ++i) add_flow(i);
    // CAPS go to and fro; a long path takes some trips.
    BRDMA_CHECK(world_.run_until([&] { return agreed(); }, 100_ms + config.delay * 8));
    link_.impairments.loss_ppm = config.loss_ppm;
    link_.impairments.reorder_ppm = config.reorder_ppm;
    link_.impairments.reorder_depth = config.reorder_depth;
    link_.path_loss_ppm = config.path_loss_ppm;
    configure_network();
    if (config.loss_history) world_.add_observer(history_.emplace(*hosts_[0], *hosts_[1], Psn{1000}));
    if (!config.flight_log) return;
    log_.emplace(*hosts_[0], *hosts_[1], Psn{1000}, config.mode == RecoveryMode::kGoBackN);
    world_.add_observer(*log_);
  }

  StreamResult run() {
    began_ = world_.now();
    run_for(config_.warm_up);
    std::vector<std::uint64_t> before;
    for (const auto& flow : flows_) before.push_back(flow->pair.completed());
    if (config_.path_loss_ends > Duration{}) {
      run_for(config_.path_loss_ends);
      link_.path_loss_ppm = {};
      configure_network();
    }
    run_for(config_.measured - config_.path_loss_ends);
    StreamResult result;
    result.network = fabric::network_text(network());
    const double possible = static_cast<double>(config_.rate_bps) * static_cast<double>(config_.measured.ns()) / 8e9;
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      const auto bytes = static_cast<double>((flows_[i]->pair.completed() - before[i]) * config_.request_bytes);
      result.shares.push_back(bytes / possible);
      result.share += result.shares.back();
    }
    const Statistics& tx = hosts_[0]->statistics();
    const Statistics& data = config_.reads ? hosts_[1]->statistics() : tx;
    result.packets = data.get(Counter::kSentDataPackets);
    result.by_probe = tx.get(Counter::kRetransmittedProbe);
    result.by_timeout = tx.get(Counter::kRetransmittedTimeout);
    result.timeouts = tx.get(Counter::kLocalAckTimeout);
    result.retransmitted = retransmitted(tx);
    result.by_edn = data.get(Counter::kRetransmittedEdn);
    result.acks_by_edn = (config_.reads ? tx : hosts_[1]->statistics()).get(Counter::kEdnAcks);
    const sim::Host &from = *hosts_[config_.reads ? 1 : 0], &to = *hosts_[config_.reads ? 0 : 1];  // of the data
    if (const auto* notifier = switched_ != nullptr ? switched_->notifier() : world_.drop_notifier(from, to)) {
      result.notices = notifier->counters().sent;
      result.notice_bytes = notifier->counters().sent_bytes;
      result.notices_limited = notifier->counters().limited;
    }
    result.acknowledgements = hosts_[1]->statistics().get(Counter::kAcksSent);
    const Statistics& rx = hosts_[config_.reads ? 0 : 1]->statistics();  // of the data
    result.promoted_by_path = rx.get(Counter::kGapsPromotedPath);
    result.promoted = result.promoted_by_path + rx.get(Counter::kGapsPromotedDepth) +
                      rx.get(Counter::kGapsPromotedAge) + rx.get(Counter::kGapsPromotedStall);
    result.duplicates = rx.get(DropReason::kDuplicate);
    result.misjudged = rx.get(Counter::kMisjudgementCorrections);
    result.cross_path_waits = rx.get(Counter::kCrossPathWaits);
    result.paths_silent = tx.get(Counter::kPathSilent);
    result.paths_returned = tx.get(Counter::kPathReturned);
    const Statistics& responder = hosts_[1]->statistics();
    result.answer_paths_silent = responder.get(Counter::kPathSilent);
    result.answer_paths_returned = responder.get(Counter::kPathReturned);
    const qp::Requester& requester = flows_[0]->pair.qp()->requester();
    result.paths = qp::RequesterManagement{requester}.send_paths();
    const auto link = switched_ != nullptr ? switched_->counters_towards(to) : world_.link_counters(from, to);
    result.cnps = responder.get(Counter::kCnpSent);
    result.pace_waits = tx.get(Counter::kPaceWaits);
    for (const auto& flow : flows_) {
      const auto snapshot = flow->pair.qp()->requester().snapshot();
      if (const auto rate = config_.reads ? snapshot.response_rate : snapshot.rate) result.rates.push_back(*rate);
    }
    result.lost = link.lost;
    result.queue_dropped = link.queue_dropped;
    result.marked = link.marked;
    if (const auto* translator = switched_ != nullptr ? switched_->translator() : world_.translator(from, to)) {
      result.rewritten = translator->counters().rewritten;
    }
    result.srtt = requester.snapshot().srtt;
    result.most_in_flight = most_in_flight_;
    if (log_) result.spurious = log_->spurious();
    if (log_) result.recoveries = log_->recoveries();
    if (history_) result.losses = history_->stories();
    return result;
  }

 private:
  // A link, with a switch right behind it for notifications or translation; or the lab's switch.
  void make_network() {
    if (config_.switched) {
      BRDMA_CHECK(!config_.translation);
      switched_ = &world_.switch_hosts(network());
      return;
    }
    world_.join(*hosts_[0], *hosts_[1], link_, link_);
    if (config_.translation) world_.translate_marks(*config_.translation);
    fabric::DropNotifier::Config edn{.form = config_.edn};
    if (config_.notices_per_second) {
      edn.notices_per_second = *config_.notices_per_second;
      edn.burst = 1;
    }
    if (config_.edn != fabric::EdnForm::kOff) world_.notify_drops(edn);
  }

  [[nodiscard]] fabric::NetworkConfig network() const {
    std::optional<fabric::MarkTranslation> marks;
    if (config_.translation) marks = {config_.translation->increment, false, config_.translation->rewrite};
    return {.link = link_, .uplink = config_.uplink, .edn = config_.edn, .ecn_to_rtt = marks, .seed = config_.seed};
  }

  void configure_network() {
    if (switched_ != nullptr) return switched_->configure(network());
    world_.configure_links(link_);
  }

  void add_flow(std::uint32_t number) {
    EndpointConfig endpoint;
    endpoint.mtu = config_.mtu;
    endpoint.send_wr_max = config_.requests_posted;
    endpoint.rd_atomic_max = 16;
    flows_.push_back(std::make_unique<Flow>(
        Flow{{world_, *hosts_[0], *hosts_[1], endpoint, number, config_.request_bytes}, config_.stagger * number}));
  }

  [[nodiscard]] bool agreed() const {
    if (!negotiates(config_.mode)) return true;
    const auto count = [&](int side) { return hosts_[side]->statistics().get(Counter::kBitmapQps); };
    return count(0) == config_.flows && count(1) == config_.flows;
  }

  void run_for(Duration how_long) {
    // Nothing else would wake the world for a flow that begins later.
    for (const auto& flow : flows_) {
      if (began_ + flow->starts > world_.now()) world_.at(began_ + flow->starts, [] {});
    }
    world_.run_until(
        [this] {
          for (auto& flow : flows_) progress(*flow);
          return false;
        },
        how_long);
  }

  void progress(Flow& flow) {
    flow.pair.take();
    if (&flow == flows_[0].get()) {
      most_in_flight_ = std::max(most_in_flight_, hosts_[0]->engine().load(flow.pair.qp()).in_flight);
    }
    if (&flow == flows_[0].get() && config_.watch && world_.now() >= watch_at_) {
      config_.watch(world_.now(), flow.pair.qp()->requester(), hosts_[0]->statistics());
      watch_at_ = world_.now() + config_.watch_each;
    }
    if (world_.now() < began_ + flow.starts) return;
    flow.pair.post(config_.reads ? WorkOpcode::kRdmaRead : WorkOpcode::kRdmaWrite, config_.requests_posted);
  }

  StreamConfig config_;
  sim::World world_;
  fabric::LinkConfig link_;                   // in each direction
  sim::SwitchedNetwork* switched_ = nullptr;  // of the world
  sim::Host* hosts_[2] = {};
  std::vector<std::unique_ptr<Flow>> flows_;
  std::uint32_t most_in_flight_ = 0;
  Instant began_, watch_at_;
  std::optional<FlightLog> log_;
  std::optional<LossHistory> history_;
};

}  // namespace

StreamResult run_stream(const StreamConfig& config) { return Streams{config}.run(); }

}  // namespace brdma::test
