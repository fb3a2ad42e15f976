#include "controller_agent.h"

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <utility>

#include "fabric/topology.h"
#include "io/clock.h"

namespace brdma::lab {
namespace {

namespace ctl = fabric::controller;

constexpr std::chrono::milliseconds kLook{20};
constexpr Duration kReportInterval = 200_ms, kActiveInterval = 200_ms;
constexpr std::size_t kFlowsTold = 16;
// Active feedback begins when the queue is at half of its room and ends when it is below a fifth.
constexpr std::uint64_t kHighPercent = 50, kLowPercent = 20;

session::Keys key_for(const session::Keys& keys, const std::string& name) {
  auto key = keys.find(name);
  if (key == keys.end()) key = keys.find(session::kAnybody);
  if (key == keys.end()) throw std::runtime_error("no key for switch " + name + " in the key file");
  return {*key};
}

}  // namespace

ControllerAgent::ControllerAgent(DataLoop& loop, RoutedCore& core, const std::string& controller,
                                 const session::Keys& keys)
    : loop_(loop), core_(core), timer_(context_), reported_(io::monotonic_now()) {
  const fabric::Topology& topology = core.topology();
  for (std::uint32_t at = 0; at < topology.switches.size(); ++at) {
    auto one = std::make_unique<Switch>();
    one->at = at;
    one->name = topology.switches[at];
    for (const fabric::TopologyPort& each : fabric::ports_of(topology, at)) {
      Port port;
      port.name = each.name;
      port.link = each.link;
      port.to_host = each.host.has_value();
      one->ports.push_back(std::move(port));
    }
    Switch& self = *one;
    one->member = std::make_unique<session::Member>(
        context_, controller, key_for(keys, one->name),
        session::Member::Handlers{[this, &self] { return greeting(self); },
                                  [this, &self](const session::Message& message) { received(self, message); },
                                  [](bool, const std::string&) {}});
    one->member->start();
    switches_.push_back(std::move(one));
  }
  look_later();
  thread_ = std::thread{[this] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    context_.run();
  }};
}

ControllerAgent::~ControllerAgent() {
  context_.stop();
  thread_.join();
}

void ControllerAgent::look_later() {
  timer_.expires_after(kLook);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    look();
    look_later();
  });
}

void ControllerAgent::look() {
  const bool ran = loop_.call([this] {
    core_.fabric().advance(io::monotonic_now());
    for (const auto& one : switches_) look_at(*one);
  });
  if (!ran) return context_.stop();
  const Instant now = io::monotonic_now();
  const bool due = now - reported_ >= kReportInterval;
  for (const auto& one : switches_) {
    if (due) measure(*one, now - reported_);
    if (due || urgent_) report(*one);
    for (Port& port : one->ports) tell_if_over(*one, port, now);
  }
  if (due) reported_ = now;
  urgent_ = false;
}

void ControllerAgent::look_at(Switch& one) {
  for (std::uint32_t number = 0; number < one.ports.size(); ++number) {
    Port& port = one.ports[number];
    const auto& link = core_.fabric().way(one.at, number).link;
    const fabric::LinkConfig& config = core_.link_config(port.link).link;
    const std::uint64_t queue = link.queue().occupied();
    port.rate = config.rate ? config.rate->bps() / 8 : 0;
    port.queue_limit = config.rate ? config.queue_bytes : 0;
    port.queue = (port.queue * 3 + queue) / 4;
    port.waited = port.waited && queue != 0;
    port.bytes = link.counters().bytes;
    port.drops = link.counters().queue_dropped;
    const bool up = core_.fabric().is_up(port.link);
    urgent_ = urgent_ || up != port.up;
    port.up = up;
  }
}

ctl::PortReport ControllerAgent::report_of(const Port& port) const {
  return {port.name, {port.up, port.rate, port.speed, port.load, port.queue, port.queue_limit, port.drops}};
}

void ControllerAgent::measure(Switch& one, Duration since_last) {
  for (Port& port : one.ports) {
    port.load = (port.bytes - port.bytes_reported) * 1'000'000 / static_cast<std::uint64_t>(since_last.ns() / 1'000);
    port.bytes_reported = port.bytes;
    // While packets wait, what leaves is what the port can do.
    port.speed = std::exchange(port.waited, true) ? std::min(port.load, port.rate) : port.rate;
  }
}

void ControllerAgent::report(Switch& one) {
  session::LinkReports reports;
  for (const Port& port : one.ports) {
    if (!port.to_host) reports.ports.push_back(report_of(port));
  }
  one.member->send(std::move(reports));
}

void ControllerAgent::tell_if_over(Switch& one, Port& port, Instant now) {
  if (port.queue_limit == 0 || !port.up) {
    port.over = false;
    return;
  }
  const std::uint64_t percent = port.queue * 100 / port.queue_limit;
  port.over = percent >= kHighPercent || (port.over && percent >= kLowPercent);
  if (!port.over || now - port.said < kActiveInterval) return;
  port.said = now;
  one.member->send(session::ActiveFeedback{report_of(port), flows_through(one, port)});
}

std::vector<ctl::FlowEnds> ControllerAgent::flows_through(const Switch& one, const Port& port) {
  std::vector<ctl::FlowEnds> flows;
  loop_.call([&] {
    const auto& table = core_.fabric().router(one.at).table();
    for (const auto& entry : core_.node(one.at).actions.flows().most(kFlowsTold)) {
      const auto by = table.port_for(entry.flow);
      if (by && one.ports[*by].name == port.name) flows.push_back({entry.flow.source, entry.flow.destination});
    }
  });
  return flows;
}

session::Message ControllerAgent::greeting(Switch& one) {
  session::SwitchGreeting greeting;
  ctl::SwitchHello& hello = greeting.hello;
  hello.id = one.name;
  hello.number = one.at + 1;
  hello.epoch = one.epoch;
  hello.prefixes = {fabric::subnet_ipv4(one.at), fabric::subnet_ipv6(one.at)};
  loop_.call([&] {
    const fabric::Topology& topology = core_.topology();
    const auto ports = fabric::ports_of(topology, one.at);
    for (std::uint32_t number = 0; number < ports.size(); ++number) {
      if (ports[number].host) continue;
      const std::uint32_t neighbour = ports[number].neighbour;
      std::string peer_port;
      for (const auto& back : fabric::ports_of(topology, neighbour)) {
        if (back.link == ports[number].link) peer_port = back.name;
      }
      const fabric::LinkConfig& config = core_.link_config(ports[number].link).link;
      hello.links.push_back({ports[number].name,
                             topology.switches[neighbour],
                             peer_port,
                             {config.rate.value_or(Bandwidth{}), config.delay},
                             number});
    }
    for (const auto& route : core_.fabric().router(one.at).table().routes()) {
      constexpr std::uint8_t kWhole = 128;  // a host of this switch
      if (route.prefix.length == kWhole) continue;
      ctl::PortRoute told{route.prefix, {}};
      for (const std::uint32_t port : route.used()) told.ports.push_back(ports[port].name);
      hello.routes.push_back(std::move(told));
    }
  });
  return greeting;
}

void ControllerAgent::received(Switch& one, const session::Message& message) {
  const auto* routes = std::get_if<session::Routes>(&message);
  if (routes == nullptr) return;
  one.member->send(session::RoutesInstalled{routes->epoch, install(one, *routes)});
}

// All of them or none; nothing that is older than what is installed.
bool ControllerAgent::install(Switch& one, const session::Routes& routes) {
  if (routes.epoch <= one.epoch) return false;
  std::vector<std::vector<std::uint32_t>> ports;
  for (const ctl::PortRoute& route : routes.routes) {
    auto& numbers = ports.emplace_back();
    for (const std::string& name : route.ports) {
      const auto number = fabric::find_port(core_.topology(), one.at, name);
      if (!number) return false;
      numbers.push_back(*number);
    }
    if (numbers.empty() || numbers.size() > fabric::ForwardingTable::kPortsMax) return false;
  }
  bool done = false;
  loop_.call([&] {
    auto& table = core_.fabric().router(one.at).table();
    if (table.size() + routes.routes.size() > fabric::ForwardingTable::kRoutesMax) return;
    for (std::size_t i = 0; i < ports.size(); ++i) (void)table.set(routes.routes[i].prefix, ports[i]);
    done = true;
  });
  if (done) one.epoch = routes.epoch;
  return done;
}

}  // namespace brdma::lab
