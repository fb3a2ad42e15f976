#include "fabric/controller/controller.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace brdma::fabric::controller {
namespace {

// Ports that lead to no switch are skipped.
NextLinks links_of(const NetworkMap& map, SwitchIndex from, const std::vector<std::string>& ports) {
  NextLinks links;
  for (const std::string& port : ports) {
    if (const auto link = map.find_link(from, port)) links.push_back(*link);
  }
  std::ranges::sort(links);
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

}  // namespace

Controller::Controller(NetworkMap configured, const Settings& settings, Instant now)
    : map_(std::move(configured)),
      settings_(settings),
      links_(settings.links),
      control_packet_pace_(settings.control_interval),
      recovery_end_(now + settings.settle) {
  grow();
}

void Controller::grow() {
  switches_.resize(map_.switches().size());
  links_.grow(map_);
  prefixes_.resize(map_.prefixes().size());
}

bool Controller::handle_switch(const SwitchHello& hello, Instant now) {
  const bool admitted = hello.epoch <= kEpochMax && numbers_.admits(map_.find_switch(hello.id), hello.number);
  const auto index = admitted ? map_.add_switch(hello.id) : std::nullopt;
  if (!index) {
    ++counters_.hellos_refused;
    return false;
  }
  bool all = true;
  for (const PortPeer& link : hello.links) {
    all &= map_.add_link({hello.id, link.port}, {link.peer_switch, link.peer_port}, link.facts);
  }
  numbers_.assign(*index, hello.number, hello.links);
  for (const Prefix& prefix : hello.prefixes) all &= map_.add_prefix(prefix, hello.id);
  counters_.hellos_refused += all ? 0 : 1;
  grow();
  if (switches_[*index].connected) leave(*index);  // a session not yet detected as dead
  SwitchState& state = switches_[*index];
  state.connected = true;
  state.installed.clear();
  take_routes(*index, hello.routes);
  for (SwitchIndex i = 0; i < switches_.size(); ++i) {
    if (i != *index && !switches_[i].unresolved.empty()) take_routes(i, std::exchange(switches_[i].unresolved, {}));
  }
  state.epoch = std::max(state.epoch, hello.epoch);
  ++counters_.switch_hellos;
  dirty_ = true;
  if (std::ranges::all_of(switches_, &SwitchState::connected)) recovery_end_.reset();
  handle_timeout(now);
  return true;
}

// Routes to a switch that has no session yet wait for it.
void Controller::take_routes(SwitchIndex index, const std::vector<PortRoute>& routes) {
  SwitchState& state = switches_[index];
  state.unresolved.clear();
  for (const PortRoute& route : routes) {
    const auto prefix = map_.find_prefix(route.prefix);
    if (!prefix) {
      state.unresolved.push_back(route);
    } else if (!map_.attached(*prefix, index)) {
      state.installed[*prefix] = links_of(map_, index, route.ports);
    }
  }
}

bool Controller::handle_host(const HostHello& hello, Instant now) {
  if (!hosts_.admits(hello)) {
    ++counters_.hellos_refused;
    return false;
  }
  handle_host_gone(hello.id, now);
  hosts_.add(hello);
  ++counters_.host_hellos;
  return true;
}

void Controller::handle_host_gone(const std::string& id, Instant /*now*/) {
  if (hosts_.remove(id)) ++counters_.members_gone;
}

void Controller::handle_switch_gone(const std::string& id, Instant now) {
  const auto index = map_.find_switch(id);
  if (!index || !switches_[*index].connected) return;
  leave(*index);
  ++counters_.members_gone;
  handle_timeout(now);
}

// It keeps its routes; whether those in flight arrived is unknown.
void Controller::leave(SwitchIndex index) {
  SwitchState& state = switches_[index];
  state.connected = false;
  for (const Prefixes& prefixes : installs_.take_all(index)) {
    for (const PrefixIndex prefix : prefixes) {
      if (!prefixes_[prefix].change) continue;
      NextLinks& either = state.installed[prefix];
      const NextLinks& goal = prefixes_[prefix].change->goal[index];
      NextLinks both;
      std::ranges::set_union(either, goal, std::back_inserter(both));
      either = std::move(both);
    }
    ++counters_.installs_unanswered;
  }
  for (PrefixIndex prefix = 0; prefix < prefixes_.size(); ++prefix) {
    auto& change = prefixes_[prefix].change;
    if (!change) continue;
    const bool concerned = change->waiting.erase(index) + change->to_update.erase(index) != 0;
    if (concerned) abandon(prefix);
  }
  dirty_ = true;
}

void Controller::report(SwitchIndex from, const PortReport& report, Instant now, bool over_limits) {
  const auto link = map_.find_link(from, report.port);
  if (!link) {
    ++counters_.unknown_ports;
    return;
  }
  const bool was_usable = usable(*link);
  dirty_ |= links_.handle_report(*link, report.report, now, over_limits);
  if (was_usable == usable(*link)) return;
  for (PrefixIndex prefix = 0; prefix < prefixes_.size(); ++prefix) {
    if (prefixes_[prefix].change) abandon(prefix);  // it was chosen for another network
  }
}

void Controller::handle_links(const std::string& switch_id, const std::vector<PortReport>& reports, Instant now) {
  const auto index = map_.find_switch(switch_id);
  if (!index || !switches_[*index].connected) {
    ++counters_.unknown_members;
    return;
  }
  ++counters_.link_reports;
  for (const PortReport& each : reports) report(*index, each, now);
  handle_timeout(now);
}

// design WT-12, WT-13
void Controller::handle_active(const std::string& switch_id, const PortReport& port_report,
                               const std::vector<FlowEnds>& flows, Instant now) {
  const auto index = map_.find_switch(switch_id);
  if (!index || !switches_[*index].connected) {
    ++counters_.unknown_members;
    return;
  }
  ++counters_.active_feedback;
  report(*index, port_report, now, port_report.report.up);
  handle_timeout(now);
  if (const auto link = map_.find_link(*index, port_report.port)) {
    notify_senders(*link, flows, now);
  } else if (port_report.report.up) {
    for (const FlowEnds& flow : flows) lower(flow, now);  // the link to a host: there is no other path
  }
}

void Controller::notify_senders(LinkIndex link, const std::vector<FlowEnds>& flows, Instant now) {
  if (!health(link).congested()) return;
  const bool many = congested_links() > settings_.congested_links_max;
  for (const FlowEnds& flow : flows) {
    const auto prefix = map_.prefix_of(flow.destination);
    if (!prefix) {
      ++counters_.unknown_prefixes;
      continue;
    }
    const PrefixState& state = prefixes_[*prefix];
    const bool moves = state.change || state.better;  // away from here, now or soon
    if (many || !moves) lower(flow, now);
  }
}

void Controller::lower(const FlowEnds& flow, Instant now) {
  const std::string* const host = hosts_.find(flow.source);
  if (host == nullptr) {
    ++counters_.senders_unknown;
    return;
  }
  if (!control_packet_pace_.take(*host, flow.destination, now)) {
    ++counters_.control_packets_limited;
    return;
  }
  ++counters_.control_packets;
  orders_.push_back(LowerDestination{*host, flow.destination, congested_links()});
}

// design WT-11: the controller's part
void Controller::handle_passive(const std::string& host_id, const FlowEnds& flow, const std::vector<HopReport>& hops,
                                Instant now) {
  if (!hosts_.contains(host_id)) {
    ++counters_.unknown_members;
    return;
  }
  ++counters_.passive_feedback;
  for (const HopReport& hop : hops) {
    const auto port = numbers_.find(hop.switch_number, hop.port_number);
    if (!port) {
      ++counters_.unknown_ports;
      continue;
    }
    PortReport said{port->name, hop.report};
    // A hop does not report its load: use the switch's last report.
    if (const auto link = map_.find_link(port->at, port->name)) said.report.load = health(*link).last().load;
    report(port->at, said, now);
  }
  if (const auto prefix = map_.prefix_of(flow.destination)) {
    prefixes_[*prefix].asked = true;
    dirty_ = true;
  } else {
    ++counters_.unknown_prefixes;
  }
  handle_timeout(now);
}

void Controller::handle_acknowledgement(const std::string& switch_id, std::uint64_t epoch, bool installed,
                                        Instant now) {
  const auto index = map_.find_switch(switch_id);
  const auto prefixes = index ? installs_.take(*index, epoch) : std::nullopt;
  if (!prefixes) {
    ++counters_.acknowledgements_stale;
    return;
  }
  ++(installed ? counters_.installs_done : counters_.installs_refused);
  for (const PrefixIndex prefix : *prefixes) {
    PrefixState& state = prefixes_[prefix];
    BRDMA_CHECK(state.change);  // a change ends only when no acknowledgement is awaited
    state.change->waiting.erase(*index);
    if (installed) {
      switches_[*index].installed[prefix] = state.change->goal[*index];
    } else {
      state.damper.changed(settings_.damping, now);  // not again at once
      abandon(prefix);
    }
    settle_change(prefix);
  }
  handle_timeout(now);
}

// Switches that have not acknowledged their routes in time.
void Controller::cut_off_silent(Instant now) {
  for (const SwitchIndex index : installs_.overdue(now)) {
    if (!switches_[index].connected) continue;
    orders_.push_back(CutOff{map_.switches()[index]});
    leave(index);
    ++counters_.members_gone;
  }
}

void Controller::handle_timeout(Instant now) {
  dirty_ |= links_.handle_timeout(now);
  cut_off_silent(now);
  if (recovery_end_ && now >= *recovery_end_) recovery_end_.reset();
  if (look_at_ && *look_at_ <= now) dirty_ = true;
  if (dirty_ && !recovering()) decide(now);
  advance(now);
}

std::optional<Instant> Controller::next_timeout() const {
  std::optional<Instant> next;
  for (const auto& at : {links_.next_timeout(), installs_.next_deadline(), recovery_end_, look_at_}) {
    if (at && (!next || *at < *next)) next = at;
  }
  return next;
}

std::uint64_t Controller::epoch() const {
  std::uint64_t highest = 0;
  for (const SwitchState& each : switches_) highest = std::max(highest, each.epoch);
  return highest;
}

std::optional<Order> Controller::poll() {
  if (orders_.empty()) return std::nullopt;
  Order order = std::move(orders_.front());
  orders_.pop_front();
  return order;
}

}  // namespace brdma::fabric::controller
