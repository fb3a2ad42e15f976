#include "controller/controlled_world.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "controller/port_report.h"
#include "fabric/network.h"

namespace brdma::test {
namespace {

namespace ctl = fabric::controller;

constexpr std::array<const char*, 4> kNames{"s1", "a", "b", "s2"};
constexpr Duration kNear = 100_us;  // from a site's hosts to its switch, from the controller to it
constexpr Duration kReportInterval = 200_ms, kQueueTime = 50_ms;  // as the lab's switches

fabric::Prefix site(std::uint8_t number) { return fabric::Prefix::v4(IpAddress::v4(10, number, 0, 0), 16); }

std::size_t place_of(const std::string& name) {
  return static_cast<std::size_t>(std::find(kNames.begin(), kNames.end(), name) - kNames.begin());
}

}  // namespace

ControlledWorld::ControlledWorld(const ControlledWorldConfig& config)
    : config_(config), world_(config.seed), controller_({}, config.controller, world_.now()) {
  for (std::uint8_t i = 0; i < 2; ++i) {
    sim::HostConfig host;
    host.name = "h" + std::to_string(i + 1);
    host.address = IpAddress::v4(10, static_cast<std::uint8_t>(i + 1), 0, 1);
    host.engine.seed = config.seed * 100 + i;
    host.engine.segments_max = 64;
    host.engine.recovery = config.recovery;
    host.engine.recovery.window_packets = config.window;
    host.engine.receive_packets = config.window;
    host.engine.receive_bytes = config.window * 4096;
    hosts_[i] = &world_.add_host(host);
  }
  network_ = &world_.route_hosts();
  for (auto& router : routers_) router = &network_->add_router();
  const fabric::LinkConfig near{
      .delay = kNear, .rate = Bandwidth::from_bps(config.rate_bps * 10), .queue_bytes = 1u << 30};
  network_->join(*hosts_[0], *routers_[kS1], near, near);
  network_->join(*hosts_[1], *routers_[kS2], near, near);
  const Duration half = Duration::from_ns(config.delay.ns() / 2), longer = Duration::from_ns(config.delay.ns() * 3 / 4);
  join(kS1, kA, half);
  join(kA, kS2, half);
  join(kS1, kB, longer);
  join(kB, kS2, longer);
  distance_ = {kNear, kNear + half, kNear + longer, kNear + config.delay};
  network_->answer_inquiries({.queue_time = kQueueTime}, [this](const sim::RouterNode& router,
                                                                const fabric::ActiveFeedback& said) {
    // A flow that begins fills queues: only the settled state counts.
    if (!said.state.over_limits || !said.state.up || !disturbed_) return;
    const auto at = static_cast<std::size_t>(std::find(routers_.begin(), routers_.end(), &router) - routers_.begin());
    std::vector<ctl::FlowEnds> flows;
    for (std::uint32_t i = 0; i < said.flow_count; ++i)
      flows.push_back({said.flows[i].source, said.flows[i].destination});
    // Ports are numbered in the order of the joins; a host's is the first.
    std::uint32_t port = at == kS1 || at == kS2 ? 1 : 0;
    for (const Join& each : joins_) {
      if (each.from != at && each.to != at) continue;
      if (port++ != said.port) continue;
      const ctl::PortReport report = port_report(kNames[each.from == at ? each.to : each.from], said);
      to_controller(at, [this, at, report, flows] {
        if (disturbed_ && !told_at_) told_at_ = world_.now();
        controller_.handle_active(kNames[at], report, flows, world_.now());
      });
    }
  });
  greet();
}

fabric::LinkConfig ControlledWorld::link(Duration delay, std::uint64_t rate_bps) const {
  const std::uint64_t holds = config_.rate_bps / 8 * static_cast<std::uint64_t>(config_.delay.ns()) * 2 / 1'000'000'000;
  return {.delay = delay,
          .rate = Bandwidth::from_bps(rate_bps),
          .queue_bytes = std::max<std::uint64_t>(256 * 1024, holds / 4)};
}

std::string ControlledWorld::network() const {
  return fabric::network_text({.link = link(config_.delay, config_.rate_bps)});
}

void ControlledWorld::join(std::size_t from, std::size_t to, Duration delay) {
  joins_.push_back({from, to, delay});
  const fabric::LinkConfig both = link(delay, config_.rate_bps);
  network_->join(*routers_[from], *routers_[to], both, both);
}

// All greet before the first packet, with the routes that the controller would choose: it changes nothing.
void ControlledWorld::greet() {
  for (std::size_t at = 0; at < routers_.size(); ++at) {
    ctl::SwitchHello hello;
    hello.id = kNames[at];
    hello.number = static_cast<std::uint32_t>(at + 1);
    for (const Join& each : joins_) {
      if (each.from != at && each.to != at) continue;
      const std::size_t peer = each.from == at ? each.to : each.from;
      hello.links.push_back(
          {kNames[peer], kNames[peer], kNames[at], {Bandwidth::from_bps(config_.rate_bps), each.delay}, 0});
    }
    if (at == kS1) hello.prefixes = {site(1)};
    if (at == kS2) hello.prefixes = {site(2)};
    for (const std::uint8_t number : {std::uint8_t{1}, std::uint8_t{2}}) {
      const std::size_t behind = number == 1 ? kS1 : kS2;
      if (at == behind) continue;
      const std::size_t next = at == kS1 || at == kS2 ? kA : behind;
      network_->add_route(*routers_[at], site(number), {routers_[next]});
      hello.routes.push_back({site(number), {kNames[next]}});
    }
    BRDMA_CHECK(controller_.handle_switch(hello, world_.now()));
  }
  act();
  tell_links_later();
}

void ControlledWorld::to_controller(std::size_t from, std::function<void()> what) {
  world_.at(world_.now() + distance_[from], [this, what = std::move(what)] {
    what();
    act();
  });
}

void ControlledWorld::tell_links(std::size_t from) {
  std::vector<ctl::PortReport> reports;
  for (const Join& each : joins_) {
    if (each.from != from && each.to != from) continue;
    const std::size_t peer = each.from == from ? each.to : each.from;
    const fabric::PortFacts facts = network_->facts(*routers_[from], *routers_[peer], world_.now());
    reports.push_back(
        {kNames[peer], {.up = facts.up, .rate = facts.rate, .speed = facts.can_do, .queue_limit = facts.queue_limit}});
  }
  to_controller(from, [this, from, reports] {
    const bool reported = std::ranges::any_of(reports, [](const ctl::PortReport& each) {
      return !each.report.up || each.report.speed * 2 < each.report.rate;
    });
    if (disturbed_ && reported && !told_at_) told_at_ = world_.now();
    controller_.handle_links(kNames[from], reports, world_.now());
  });
}

void ControlledWorld::tell_links_later() {
  world_.at(world_.now() + kReportInterval, [this] {
    for (std::size_t at = 0; at < routers_.size(); ++at) tell_links(at);
    tell_links_later();
  });
}

void ControlledWorld::act() {
  while (const auto order = controller_.poll()) {
    if (const auto* routes = std::get_if<ctl::InstallRoutes>(&*order)) install(*routes);
  }
  const auto next = controller_.next_timeout();
  if (!next || (timer_at_ && *timer_at_ <= *next && *timer_at_ > world_.now())) return;
  timer_at_ = *next;
  world_.at(std::max(*next, world_.now()), [this] {
    timer_at_.reset();
    controller_.handle_timeout(world_.now());
    act();
  });
}

void ControlledWorld::install(const ctl::InstallRoutes& order) {
  const std::size_t at = place_of(order.switch_id);
  const auto take = [this, at, order] {
    for (const ctl::PortRoute& route : order.routes) {
      std::vector<sim::RouterNode*> next;
      for (const std::string& port : route.ports) next.push_back(routers_[place_of(port)]);
      network_->add_route(*routers_[at], route.prefix, next);
    }
    installed_at_ = world_.now();
    to_controller(
        at, [this, at, order] { controller_.handle_acknowledgement(kNames[at], order.epoch, true, world_.now()); });
  };
  world_.at(world_.now() + distance_[at], take);
}

void ControlledWorld::cut() {
  disturbed_ = true;
  network_->set_up(*routers_[kS1], *routers_[kA], false);
  tell_links(kS1);
  tell_links(kA);
}

void ControlledWorld::slow_down(std::uint32_t part) {
  disturbed_ = true;
  fabric::LinkConfig slow = link(joins_[0].delay, config_.rate_bps / part);
  slow.queue_bytes = link(joins_[0].delay, config_.rate_bps).queue_bytes;
  network_->configure(*routers_[kS1], *routers_[kA], slow, world_.now());
  network_->configure(*routers_[kA], *routers_[kS1], slow, world_.now());
}

std::uint64_t ControlledWorld::lost() const {
  std::uint64_t sum = 0;
  for (const Join& each : joins_) {
    for (const auto& [from, to] : {std::pair{each.from, each.to}, {each.to, each.from}}) {
      sum += network_->lost_by_cut(*routers_[from], *routers_[to]) +
             network_->link(*routers_[from], *routers_[to]).counters().queue_dropped;
    }
  }
  return sum;
}

}  // namespace brdma::test
