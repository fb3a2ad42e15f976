// One sender and two receivers. One of them is behind a congested link, or stands still, for a while. The goodput of
// the other one meanwhile, with the managed list (WT-14) and without. In virtual time; lines of tab-separated values,
// one for each step of time; tests/figures/receivers makes tables and a picture of them.
//   receivers_figures [--quick] [WAY]
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "controller/port_report.h"
#include "fabric/controller/controller.h"
#include "fabric/network.h"
#include "sim/world.h"
#include "streams/stream_pair.h"
#include "trace/retransmissions.h"

namespace brdma::test {
namespace {

namespace ctl = fabric::controller;

constexpr std::array<const char*, 3> kNames{"s1", "s2", "s3"};

struct Way {
  const char* name;
  RecoveryMode mode;
  CongestionControl control;
};
constexpr Way kWays[] = {{"default", RecoveryMode::kBitmap, CongestionControl::kWindow},
                         {"paced", RecoveryMode::kBitmap, CongestionControl::kPaced},
                         {"wan+FFM, paced", RecoveryMode::kWanFeedback, CongestionControl::kPaced},
                         {"no congestion control", RecoveryMode::kBitmap, CongestionControl::kNone}};
// The disturbance of the second receiver. Alone: nothing is sent to it.
enum class Event : std::uint8_t { kAlone, kLink, kHost };
constexpr const char* kEvents[] = {"alone", "link", "host"};

constexpr std::uint64_t kRate = 1'000'000'000;
constexpr std::uint64_t kSenderRate = 950'000'000;  // less than any link: the two share the sender's rate
constexpr std::uint32_t kSlowPart = 20;
constexpr Duration kLong = 5_ms, kShort = 100_us;
constexpr std::uint32_t kQueue = 384 * 1024;  // a quarter of the path's capacity
constexpr std::uint32_t kRequest = 65536, kUnderWay = 64, kWindow = 4096;

// sender - s1 - s2 - first
//                  - s3 - second
class Receivers {
 public:
  Receivers(const Way& way, bool managed, Event event) : event_(event), world_(1), network_(world_.route_hosts()) {
    for (std::uint8_t i = 0; i < 3; ++i) hosts_[i] = &world_.add_host(host_of(i, way, managed));
    for (auto& router : routers_) router = &network_.add_router();
    const fabric::LinkConfig cable{.delay = kShort, .rate = Bandwidth::from_bps(kRate * 10), .queue_bytes = 1u << 30};
    for (std::uint8_t i = 0; i < 3; ++i) network_.join(*hosts_[i], *routers_[i], cable, cable);
    network_.join(*routers_[0], *routers_[1], link(kLong, kRate), link(kLong, kRate));
    network_.join(*routers_[1], *routers_[2], link(kShort, kRate), link(kShort, kRate));
    for (std::size_t at = 0; at < routers_.size(); ++at) {
      for (std::size_t to = 0; to < routers_.size(); ++to) {
        if (to != at) network_.add_route(*routers_[at], prefix_of(to), {routers_[next_to(at, to)]});
      }
    }
    if (managed) {
      network_.answer_inquiries({.queue_time = 50_ms},
                                [this](const sim::RouterNode& router, const fabric::ActiveFeedback& said) {
                                  if (said.state.over_limits) report(router, said);
                                });
      greet();
    }
    for (std::uint32_t i = 0; i < streams(); ++i) {
      EndpointConfig endpoint;
      endpoint.mtu = PathMtu::k4096;
      endpoint.timeout = 19;  // RDMA-CM's
      endpoint.send_wr_max = kUnderWay;
      pairs_[i] = std::make_unique<StreamPair>(world_, *hosts_[0], *hosts_[i + 1], endpoint, i, kRequest);
    }
  }

  // For `how_long`; or ends the disturbance.
  void disturb(bool really, Duration how_long = {}) {
    if (event_ == Event::kLink) {
      for (const auto& [from, to] : {std::pair{1, 2}, std::pair{2, 1}}) {
        network_.configure(*routers_[from], *routers_[to], link(kShort, really ? kRate / kSlowPart : kRate),
                           world_.now());
      }
    }
    if (event_ == Event::kHost && really) hosts_[2]->pause_until(world_.now() + how_long);
  }

  void run_for(Duration how_long) {
    world_.run_until(
        [this] {
          for (std::uint32_t i = 0; i < streams(); ++i) {
            pairs_[i]->take();
            pairs_[i]->post(WorkOpcode::kRdmaWrite, kUnderWay);
          }
          return false;
        },
        how_long);
  }

  [[nodiscard]] std::uint64_t bytes(std::uint32_t stream) const {
    return stream < streams() ? pairs_[stream]->completed() * kRequest : 0;
  }
  // fabric/network.h: network_text of the link that both share, undisturbed.
  [[nodiscard]] static std::string network() { return fabric::network_text({.link = link(kLong, kRate)}); }
  [[nodiscard]] std::uint64_t dropped() const {
    return network_.link(*routers_[1], *routers_[2]).counters().queue_dropped;
  }
  [[nodiscard]] const Statistics& sender() const { return hosts_[0]->statistics(); }
  [[nodiscard]] double managed_mbps() {
    const auto all = hosts_[0]->engine().managed_destinations();
    return all.empty() ? 0 : static_cast<double>(all.front().rate.bps()) / 1e6;
  }

 private:
  [[nodiscard]] std::uint32_t streams() const { return event_ == Event::kAlone ? 1 : 2; }

  static sim::HostConfig host_of(std::uint8_t number, const Way& way, bool managed) {
    sim::HostConfig host;
    host.name = "h" + std::to_string(number + 1);
    host.address = IpAddress::v4(10, static_cast<std::uint8_t>(number + 1), 0, 1);
    host.engine.seed = 100 + number;
    host.engine.segments_max = 16;
    host.engine.recovery.mode = way.mode;
    host.engine.recovery.congestion.control = way.control;
    host.engine.receive_packets = kWindow;
    host.engine.receive_bytes = kWindow * 4096;
    host.engine.recovery.window_packets = kWindow;
    host.engine.recovery.congestion.port_rate_mbps = kRate / 1'000'000;
    if (!managed) host.engine.recovery.wan.inquiry_timeouts = 0;
    if (number == 0) host.output_rate = Bandwidth::from_bps(kSenderRate);
    return host;
  }
  static fabric::LinkConfig link(Duration delay, std::uint64_t rate_bps) {
    return {.delay = delay, .rate = Bandwidth::from_bps(rate_bps), .queue_bytes = kQueue};
  }
  static fabric::Prefix prefix_of(std::size_t site) {
    return fabric::Prefix::v4(IpAddress::v4(10, static_cast<std::uint8_t>(site + 1), 0, 0), 16);
  }
  static std::vector<std::size_t> neighbours(std::size_t at) {
    return at == 1 ? std::vector<std::size_t>{0, 2} : std::vector<std::size_t>{1};
  }
  static std::size_t next_to(std::size_t at, std::size_t to) { return at == 1 ? to : 1; }
  static Duration delay(std::size_t a, std::size_t b) { return a + b == 1 ? kLong : kShort; }

  // The controller, at the first site, knows all switches, and the sender.
  void greet() {
    for (std::size_t at = 0; at < routers_.size(); ++at) {
      ctl::SwitchHello hello;
      hello.id = kNames[at];
      hello.number = static_cast<std::uint32_t>(at + 1);
      hello.prefixes = {prefix_of(at)};
      for (const std::size_t peer : neighbours(at))
        hello.links.push_back(
            {kNames[peer], kNames[peer], kNames[at], {Bandwidth::from_bps(kRate), delay(at, peer)}, 0});
      for (std::size_t to = 0; to < routers_.size(); ++to) {
        if (to != at) hello.routes.push_back({prefix_of(to), {kNames[next_to(at, to)]}});
      }
      BRDMA_CHECK(controller_.handle_switch(hello, world_.now()));
    }
    BRDMA_CHECK(controller_.handle_host({"h1", {hosts_[0]->address()}}, world_.now()));
    act();
  }
  void report(const sim::RouterNode& router, const fabric::ActiveFeedback& said) {
    const auto at = static_cast<std::size_t>(std::find(routers_.begin(), routers_.end(), &router) - routers_.begin());
    const auto peers = neighbours(at);  // a switch's first port is its host's
    const ctl::PortReport port = port_report(said.port == 0 ? "host" : kNames[peers[said.port - 1]], said);
    std::vector<ctl::FlowEnds> flows;
    for (std::uint32_t i = 0; i < said.flow_count; ++i)
      flows.push_back({said.flows[i].source, said.flows[i].destination});
    world_.at(world_.now() + (at == 0 ? kShort : kLong + kShort), [this, at, port, flows] {
      controller_.handle_active(kNames[at], port, flows, world_.now());
      act();
    });
  }
  void act() {
    while (const auto order = controller_.poll()) {
      if (const auto* lower = std::get_if<ctl::LowerDestination>(&*order)) {
        world_.at(world_.now() + kShort * 2, [this, destination = lower->destination] {
          (void)hosts_[0]->engine().handle_control_packet(destination, world_.now());
          hosts_[0]->touch();
        });
      }
    }
  }

  Event event_;
  sim::World world_;
  sim::RoutedNetwork& network_;
  std::array<sim::Host*, 3> hosts_{};
  std::array<sim::RouterNode*, 3> routers_{};
  std::array<std::unique_ptr<StreamPair>, 2> pairs_;
  ctl::Controller controller_{{}, {}, world_.now()};
};

void run(const Way& way, bool managed, Event event, bool quick) {
  Receivers world{way, managed, event};
  const std::uint32_t steps = quick ? 10 : 40, from = quick ? 3 : 10, to = quick ? 7 : 30;  // of 200 ms
  constexpr Duration kStep = 200_ms;
  std::array<std::uint64_t, 2> before{};
  std::uint64_t dropped = 0, resent = 0;
  for (std::uint32_t step = 0; step < steps; ++step) {
    if (step == from || step == to) world.disturb(step == from, kStep * std::int64_t{to - from});
    world.run_for(kStep);
    const auto mbps = [&](std::uint32_t stream) {
      const std::uint64_t bytes = world.bytes(stream) - std::exchange(before[stream], world.bytes(stream));
      return static_cast<double>(bytes) * 8e3 / static_cast<double>(kStep.ns());
    };
    const std::uint64_t again = retransmitted(world.sender());
    std::printf("simulator\t%s\t%s\t%s\t%.1f\t%d\t%.0f\t%.0f\t%llu\t%llu\t%.0f\t%s\n", way.name, managed ? "on" : "off",
                kEvents[static_cast<int>(event)], static_cast<double>((kStep * (step + 1)).ns()) / 1e9,
                step >= from && step < to ? 1 : 0, mbps(0), mbps(1),
                static_cast<unsigned long long>(world.dropped() - std::exchange(dropped, world.dropped())),
                static_cast<unsigned long long>(again - std::exchange(resent, again)), world.managed_mbps(),
                Receivers::network().c_str());
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace brdma::test

int main(int argc, char** argv) {
  using namespace brdma::test;
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const char* const only = argc > (quick ? 2 : 1) ? argv[quick ? 2 : 1] : nullptr;
  std::printf(
      "where\tway\tmanaged\tevent\ts\tdisturbed\tfirst_mbps\tsecond_mbps\tdropped\tresent\tmanaged_mbps\tnetwork\n");
  for (const Way& way : kWays) {
    if (only != nullptr && std::strcmp(only, way.name) != 0) continue;
    run(way, false, Event::kAlone, quick);
    for (const Event event : {Event::kLink, Event::kHost}) {
      for (const bool managed : {false, true}) run(way, managed, event, quick);
    }
  }
  return 0;
}
