#include "requests/controller_agent.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>
#include <utility>

#include "datapath/run_promptly.h"
#include "fabric/topology.h"
#include "io/shard/clock.h"

namespace brdma::lab {
namespace {

namespace ctl = fabric::controller;

constexpr std::chrono::milliseconds kReportInterval{200};

// The name that the switch at the other end gives to its port.
std::string peer_port_of(const fabric::Topology& topology, const fabric::TopologyPort& port) {
  std::string name;
  for (const auto& back : fabric::ports_of(topology, port.neighbour)) {
    if (back.link == port.link) name = back.name;
  }
  return name;
}

// Links to other switches.
std::vector<ctl::PortPeer> links_of(const RoutedCore& core, std::uint32_t at) {
  const fabric::Topology& topology = core.topology();
  std::vector<ctl::PortPeer> links;
  const auto ports = fabric::ports_of(topology, at);
  for (std::uint32_t number = 0; number < ports.size(); ++number) {
    const fabric::TopologyPort& port = ports[number];
    if (port.host) continue;
    const fabric::LinkConfig& config = core.link_config(port.link).link;
    links.push_back({port.name,
                     topology.switches[port.neighbour],
                     peer_port_of(topology, port),
                     {config.rate.value_or(Bandwidth{}), config.delay},
                     number});
  }
  return links;
}

// Installed routes, without those to hosts of this switch.
std::vector<ctl::PortRoute> routes_of(RoutedCore& core, std::uint32_t at) {
  constexpr std::uint8_t kWhole = 128;  // a host of this switch
  std::vector<ctl::PortRoute> routes;
  const auto ports = fabric::ports_of(core.topology(), at);
  for (const auto& route : core.fabric().router(at).table().routes()) {
    if (route.prefix.length == kWhole) continue;
    ctl::PortRoute installed{route.prefix, {}};
    for (const std::uint32_t port : route.used()) installed.ports.push_back(ports[port].name);
    routes.push_back(std::move(installed));
  }
  return routes;
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
        context_, controller, session::key_of(keys, one->name),
        session::Member::Handlers{[this, &self] { return greeting(self); },
                                  [this, &self](const session::Message& message) { received(self, message); },
                                  [](bool, const std::string&) {}});
    one->member->start();
    switches_.push_back(std::move(one));
  }
  listen();
  report_later();
  thread_ = std::thread{[this] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    run_promptly();  // commands that wait here end the use of a dead path
    context_.run();
  }};
}

ControllerAgent::~ControllerAgent() {
  context_.stop();
  thread_.join();
  // The data loop may continue: nobody is notified any more.
  loop_.call([this] {
    core_.on_report({});
    core_.on_link_change({});
  });
}

// The loop's thread calls both; this thread does the work.
void ControllerAgent::listen() {
  core_.on_report([this](std::uint32_t router, const fabric::ActiveFeedback& feedback) {
    boost::asio::post(context_, [this, router, feedback] { pass_on(router, feedback); });
  });
  core_.on_link_change([this] { boost::asio::post(context_, [this] { report(/*due=*/false); }); });
}

void ControllerAgent::report_later() {
  timer_.expires_after(kReportInterval);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    report(/*due=*/true);
    report_later();
  });
}

void ControllerAgent::report(bool due) {
  const bool ran = loop_.call([this] {
    for (const auto& one : switches_) look_at(*one);
  });
  if (!ran) return context_.stop();
  const Instant now = io::monotonic_now();
  for (const auto& one : switches_) {
    if (due) measure(*one, now - reported_);
    session::LinkReports reports;
    for (const Port& port : one->ports) {
      if (!port.to_host) reports.ports.push_back({port.name, port.report});
    }
    one->member->send(std::move(reports));
  }
  if (due) reported_ = now;
}

void ControllerAgent::look_at(Switch& one) {
  const auto& agent = core_.node(one.at).agent;
  for (std::uint32_t number = 0; number < one.ports.size(); ++number) {
    Port& port = one.ports[number];
    const fabric::PortFacts facts = core_.port_facts(one.at, number, io::monotonic_now());
    port.bytes = core_.fabric().way(one.at, number).link.counters().bytes;
    port.report = {.up = facts.up,
                   .rate = std::max(facts.rate, facts.can_do),
                   .speed = facts.can_do,
                   .load = port.load,
                   .queue = facts.queue,
                   .queue_limit = facts.queue_limit,
                   .drops = facts.drops};
    if (!agent) continue;
    // Measured while packets passed; the queue is a recent average, not the present length.
    const fabric::PortState& state = agent->state(number);
    port.report.queue = state.queue_mean;
    if (state.queue != 0) port.report.speed = std::min(state.speed, facts.can_do);
  }
}

void ControllerAgent::measure(Switch& one, Duration since_last) {
  for (Port& port : one.ports) {
    port.load = (port.bytes - port.bytes_reported) * 1'000'000 / static_cast<std::uint64_t>(since_last.ns() / 1'000);
    port.bytes_reported = port.bytes;
    port.report.load = port.load;
  }
}

// A port that is down is in the report of links, and so is one that is within its limits again.
void ControllerAgent::pass_on(std::uint32_t router, const fabric::ActiveFeedback& feedback) {
  if (!feedback.state.over_limits || !feedback.state.up) return;
  Switch& one = *switches_[router];
  const Port& port = one.ports[feedback.port];
  session::ActiveFeedback message{{port.name,
                                   {.up = true,
                                    .rate = feedback.state.rate,
                                    .speed = feedback.state.speed,
                                    .load = port.load,
                                    .queue = feedback.state.queue_mean,
                                    .queue_limit = feedback.state.queue_limit,
                                    .drops = feedback.state.drops}},
                                  {}};
  for (std::uint32_t i = 0; i < feedback.flow_count; ++i) {
    message.flows.push_back({feedback.flows[i].source, feedback.flows[i].destination});
  }
  one.member->send(std::move(message));
}

session::Message ControllerAgent::greeting(Switch& one) {
  session::SwitchGreeting greeting;
  ctl::SwitchHello& hello = greeting.hello;
  hello.id = one.name;
  hello.number = one.at + 1;
  hello.epoch = one.epoch;
  hello.prefixes = {fabric::subnet_ipv4(one.at), fabric::subnet_ipv6(one.at)};
  loop_.call([&] {
    hello.links = links_of(core_, one.at);
    hello.routes = routes_of(core_, one.at);
  });
  return greeting;
}

void ControllerAgent::received(Switch& one, const session::Message& message) {
  const auto* routes = std::get_if<session::Routes>(&message);
  if (routes == nullptr) return;
  one.member->send(session::RoutesInstalled{routes->epoch, install(one, *routes)});
}

// Installs all of them or none; nothing older than the installed routes.
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
