// support/controlled_network.h - simulated switches and hosts under a fabric::controller::Controller: the test decides
// when orders reach them and when acknowledgements return. Knows the forwarding table of each switch, so that a test
// can check for loops at any moment.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fabric/controller/controller.h"

namespace brdma::test {

namespace ctl = fabric::controller;

inline fabric::Prefix site(std::uint8_t number) { return fabric::Prefix::v4(IpAddress::v4(10, number, 0, 0), 24); }
inline IpAddress host_of_site(std::uint8_t number) { return IpAddress::v4(10, number, 0, 2); }

class ControlledNetwork {
 public:
  ControlledNetwork(ctl::NetworkMap map, const ctl::Settings& settings, Instant now)
      : settings_(settings), map_(map), controller_(std::in_place, std::move(map), settings, now) {}
  // The controller knows of the network only what switches report.
  struct NothingConfigured {};
  ControlledNetwork(NothingConfigured, ctl::NetworkMap map, const ctl::Settings& settings, Instant now)
      : settings_(settings), map_(std::move(map)), controller_(std::in_place, ctl::NetworkMap{}, settings, now) {}

  [[nodiscard]] ctl::Controller& controller() { return *controller_; }
  [[nodiscard]] const std::vector<std::string>& switches() const { return map_.switches(); }

  void connect(const std::string& id, Instant now) {
    connected_.insert(id);
    in_flight_[id].clear();
    const ctl::SwitchIndex index = *map_.find_switch(id);
    ctl::SwitchHello hello{id, epoch_[id], {}, {}, {}, index + 1};
    for (ctl::LinkIndex i = 0; i < map_.links().size(); ++i) {
      const ctl::Link& link = map_.links()[i];
      if (link.from != index) continue;
      const ctl::Link& back = map_.links()[ctl::NetworkMap::reverse(i)];
      hello.links.push_back({link.port, switches()[link.to], back.port, {link.rate, link.delay}, i});
    }
    for (ctl::PrefixIndex i = 0; i < map_.prefixes().size(); ++i) {
      if (map_.attached(i, index)) hello.prefixes.push_back(map_.prefixes()[i]);
    }
    for (const auto& [prefix, ports] : tables_[id]) hello.routes.push_back({map_.prefixes()[prefix], ports});
    controller_->handle_switch(hello, now);
    collect();
  }
  void connect_all(Instant now) {
    for (const std::string& id : switches()) connect(id, now);
  }
  // Orders in flight are lost with the session, from order `keep` on.
  void disconnect(const std::string& id, std::size_t keep, Instant now) {
    while (keep-- > 0 && deliver(id)) continue;
    connected_.erase(id);
    in_flight_[id].clear();
    acknowledgements_[id].clear();
    controller_->handle_switch_gone(id, now);
    collect();
  }
  // The controller dies; another begins with the same configuration. Switches keep their tables.
  void restart_controller(const ctl::NetworkMap& map, Instant now) {
    controller_.emplace(map, settings_, now);
    for (auto& [id, orders] : in_flight_) orders.clear();
    acknowledgements_.clear();
    connected_.clear();
  }
  // The oldest order takes effect at the switch, or is refused there; false: none is in flight.
  bool deliver(const std::string& id, bool refused = false) {
    auto& orders = in_flight_[id];
    if (orders.empty()) return false;
    const ctl::InstallRoutes order = orders.front();
    orders.pop_front();
    refused |= order.epoch <= epoch_[id];  // nothing older than what is installed
    acknowledgements_[id].push_back({order.epoch, !refused});
    if (refused) return true;
    for (const ctl::PortRoute& route : order.routes) {
      tables_[id][*map_.find_prefix(route.prefix)] = route.ports;
      ++changes_;
    }
    epoch_[id] = order.epoch;
    return true;
  }
  bool acknowledge(const std::string& id, Instant now) {
    auto& waiting = acknowledgements_[id];
    if (waiting.empty()) return false;
    const auto [epoch, installed] = waiting.front();
    waiting.pop_front();
    controller_->handle_acknowledgement(id, epoch, installed, now);
    collect();
    return true;
  }
  // Until nothing is in flight.
  void settle(Instant now) {
    for (bool busy = true; busy;) {
      busy = false;
      for (const std::string& id : switches()) busy |= deliver(id) || acknowledge(id, now);
    }
  }
  void pass(Instant until) {
    for (auto due = controller_->next_timeout(); due && *due <= until; due = controller_->next_timeout()) {
      controller_->handle_timeout(*due);
      collect();
    }
  }
  // Like pass(), with switches that answer at once.
  void pass_settled(Instant until) {
    for (auto due = controller_->next_timeout(); due && *due <= until; due = controller_->next_timeout()) {
      controller_->handle_timeout(*due);
      collect();
      settle(*due);
    }
  }
  void collect() {
    while (auto order = controller_->poll()) {
      if (auto* install = std::get_if<ctl::InstallRoutes>(&*order)) {
        in_flight_[install->switch_id].push_back(std::move(*install));
      } else if (const auto* lower = std::get_if<ctl::LowerDestination>(&*order)) {
        lowered.push_back(*lower);
      } else {
        const std::string id = std::get<ctl::CutOff>(*order).switch_id;
        cut_off.push_back(id);
        connected_.erase(id);
      }
    }
  }

  // Ports that a switch forwards by, "-" for none.
  [[nodiscard]] std::string ways(const std::string& id, const fabric::Prefix& prefix) {
    const auto& ports = tables_[id][*map_.find_prefix(prefix)];
    std::string text;
    for (const std::string& port : ports) text += (text.empty() ? "" : " ") + port;
    return text.empty() ? "-" : text;
  }
  // Of the routes that it has installed last.
  [[nodiscard]] std::uint64_t epoch(const std::string& id) { return epoch_[id]; }
  [[nodiscard]] bool connected(const std::string& id) const { return connected_.contains(id); }
  [[nodiscard]] std::size_t on_their_way(const std::string& id) { return in_flight_[id].size(); }
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  // Can a packet to this prefix come to a switch twice?
  [[nodiscard]] bool loops(ctl::PrefixIndex prefix) {
    const std::size_t count = switches().size();
    std::vector<std::vector<ctl::SwitchIndex>> next(count);
    std::vector<std::size_t> coming(count, 0);
    for (ctl::SwitchIndex i = 0; i < count; ++i) {
      if (map_.attached(prefix, i)) continue;  // leaves the network here
      for (const std::string& port : tables_[switches()[i]][prefix]) {
        const ctl::SwitchIndex to = map_.links()[*map_.find_link(i, port)].to;
        next[i].push_back(to);
        ++coming[to];
      }
    }
    std::vector<ctl::SwitchIndex> free;
    for (ctl::SwitchIndex i = 0; i < count; ++i) {
      if (coming[i] == 0) free.push_back(i);
    }
    std::size_t removed = 0;
    for (; !free.empty(); ++removed) {
      const ctl::SwitchIndex from = free.back();
      free.pop_back();
      for (const ctl::SwitchIndex to : next[from]) {
        if (--coming[to] == 0) free.push_back(to);
      }
    }
    return removed != count;
  }

  std::vector<ctl::LowerDestination> lowered;
  std::vector<std::string> cut_off;

 private:
  ctl::Settings settings_;
  ctl::NetworkMap map_;
  std::optional<ctl::Controller> controller_;
  std::map<std::string, std::map<ctl::PrefixIndex, std::vector<std::string>>> tables_;
  std::map<std::string, std::deque<ctl::InstallRoutes>> in_flight_;
  std::map<std::string, std::deque<std::pair<std::uint64_t, bool>>> acknowledgements_;  // epoch, installed
  std::map<std::string, std::uint64_t> epoch_;
  std::set<std::string> connected_;
  std::uint64_t changes_ = 0;
};

}  // namespace brdma::test
