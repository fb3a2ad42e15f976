#include "fabric/controller/controller.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace brdma::fabric::controller {
namespace {

constexpr std::size_t kToldMax = 4096;

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
    : map_(std::move(configured)), settings_(settings), recovery_end_(now + settings.settle) {
  grow();
}

void Controller::grow() {
  switches_.resize(map_.switches().size());
  health_.resize(map_.links().size());
  prefixes_.resize(map_.prefixes().size());
}

bool Controller::handle_switch(const SwitchHello& hello, Instant now) {
  const auto index = map_.add_switch(hello.id);
  if (!index) {
    ++counters_.hellos_refused;
    return false;
  }
  bool all = true;
  std::erase_if(port_numbers_, [&](const auto& entry) { return entry.first.first == *index; });
  for (const PortPeer& link : hello.links) {
    all &= map_.add_link({hello.id, link.port}, {link.peer_switch, link.peer_port}, link.facts);
    port_numbers_[{*index, link.number}] = link.port;
  }
  switch_numbers_[hello.number] = *index;
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
  epoch_ = std::max(epoch_, hello.epoch);
  ++counters_.switch_hellos;
  dirty_ = true;
  if (std::ranges::all_of(switches_, &SwitchState::connected)) recovering_ = false;
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
  if (hello.id.empty() || hello.addresses.size() > kAddressesMax ||
      (hosts_.size() == kHostsMax && !hosts_.contains(hello.id))) {
    ++counters_.hellos_refused;
    return false;
  }
  handle_host_gone(hello.id, now);
  hosts_[hello.id] = hello;
  for (const IpAddress& address : hello.addresses) host_of_[address] = hello.id;
  ++counters_.host_hellos;
  return true;
}

void Controller::handle_host_gone(const std::string& id, Instant /*now*/) {
  const auto host = hosts_.find(id);
  if (host == hosts_.end()) return;
  for (const IpAddress& address : host->second.addresses) {
    if (const auto owner = host_of_.find(address); owner != host_of_.end() && owner->second == id) {
      host_of_.erase(owner);
    }
  }
  hosts_.erase(host);
  ++counters_.members_gone;
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
  for (auto install = installs_.begin(); install != installs_.end();) {
    if (install->second.to != index) {
      ++install;
      continue;
    }
    for (const PrefixIndex prefix : install->second.prefixes) {
      if (!prefixes_[prefix].change) continue;
      NextLinks& either = state.installed[prefix];
      const NextLinks& goal = prefixes_[prefix].change->goal[index];
      NextLinks both;
      std::ranges::set_union(either, goal, std::back_inserter(both));
      either = std::move(both);
    }
    ++counters_.installs_unanswered;
    install = installs_.erase(install);
  }
  for (PrefixIndex prefix = 0; prefix < prefixes_.size(); ++prefix) {
    auto& change = prefixes_[prefix].change;
    if (!change) continue;
    const bool concerned = change->waiting.erase(index) + change->to_update.erase(index) != 0;
    if (concerned) abandon(prefix);
  }
  dirty_ = true;
}

bool Controller::usable(LinkIndex link) const {
  return health_[link].usable() && health_[NetworkMap::reverse(link)].usable();
}

std::uint32_t Controller::congested_links() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(health_, &LinkHealth::congested));
}

void Controller::report(SwitchIndex from, const PortReport& report, Instant now, bool over_limits) {
  const auto link = map_.find_link(from, report.port);
  if (!link) {
    ++counters_.unknown_ports;
    return;
  }
  LinkHealth& health = health_[*link];
  const std::uint64_t version = health.version();
  const bool was_usable = usable(*link);
  health.handle_report(report.report, settings_.links, now, over_limits);
  dirty_ |= health.version() != version;
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

// spec 3: flow control 2
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
    tell_senders(*link, flows, now);
  } else if (port_report.report.up) {
    for (const FlowEnds& flow : flows) lower(flow, now);  // the link to a host: there is no other path
  }
}

void Controller::tell_senders(LinkIndex link, const std::vector<FlowEnds>& flows, Instant now) {
  if (!health_[link].congested()) return;
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
  const auto host = host_of_.find(flow.source);
  if (host == host_of_.end()) {
    ++counters_.senders_unknown;
    return;
  }
  std::erase_if(told_, [&](const auto& entry) { return now - entry.second >= settings_.control_interval; });
  const std::pair key{host->second, flow.destination};
  if (told_.contains(key) || told_.size() == kToldMax) {
    ++counters_.control_packets_limited;
    return;
  }
  told_[key] = now;
  ++counters_.control_packets;
  orders_.push_back(LowerDestination{host->second, flow.destination, congested_links()});
}

// spec 3: flow control 1, the controller's part
void Controller::handle_passive(const std::string& host_id, const FlowEnds& flow, const std::vector<HopReport>& hops,
                                Instant now) {
  if (!hosts_.contains(host_id)) {
    ++counters_.unknown_members;
    return;
  }
  ++counters_.passive_feedback;
  for (const HopReport& hop : hops) {
    const auto index = switch_numbers_.find(hop.switch_number);
    const auto port =
        index == switch_numbers_.end() ? port_numbers_.end() : port_numbers_.find({index->second, hop.port_number});
    if (port == port_numbers_.end()) {
      ++counters_.unknown_ports;
      continue;
    }
    PortReport said{port->second, hop.report};
    // A hop does not report its load: use the switch's last report.
    if (const auto link = map_.find_link(index->second, port->second)) said.report.load = health_[*link].last().load;
    report(index->second, said, now);
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
  const auto install = installs_.find(epoch);
  if (!index || install == installs_.end() || install->second.to != *index) {
    ++counters_.acknowledgements_stale;
    return;
  }
  ++(installed ? counters_.installs_done : counters_.installs_refused);
  for (const PrefixIndex prefix : install->second.prefixes) {
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
  installs_.erase(install);
  handle_timeout(now);
}

// Switches that have not acknowledged their routes in time.
void Controller::cut_off_silent(Instant now) {
  std::vector<SwitchIndex> silent;
  for (const auto& [epoch, install] : installs_) {
    if (install.deadline <= now) silent.push_back(install.to);
  }
  for (const SwitchIndex index : silent) {
    if (!switches_[index].connected) continue;
    orders_.push_back(CutOff{map_.switches()[index]});
    leave(index);
    ++counters_.members_gone;
  }
}

void Controller::handle_timeout(Instant now) {
  for (LinkHealth& health : health_) {
    const auto due = health.next_timeout(settings_.links);
    if (due && *due <= now) dirty_ |= health.handle_timeout(settings_.links, now);
  }
  cut_off_silent(now);
  if (recovering_ && now >= recovery_end_) recovering_ = false;
  if (look_at_ && *look_at_ <= now) dirty_ = true;
  if (dirty_ && !recovering_) decide(now);
  advance(now);
}

std::optional<Instant> Controller::next_timeout() const {
  std::optional<Instant> next;
  const auto consider = [&next](const std::optional<Instant>& at) {
    if (at && (!next || *at < *next)) next = at;
  };
  for (const LinkHealth& health : health_) consider(health.next_timeout(settings_.links));
  for (const auto& [epoch, install] : installs_) consider(install.deadline);
  if (recovering_) consider(recovery_end_);
  consider(look_at_);
  return next;
}

std::optional<Order> Controller::poll() {
  if (orders_.empty()) return std::nullopt;
  Order order = std::move(orders_.front());
  orders_.pop_front();
  return order;
}

}  // namespace brdma::fabric::controller
