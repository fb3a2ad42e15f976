#include "fabric/controller/route_choice.h"

#include <algorithm>

#include "base/check.h"
#include "fabric/routing/forwarding_table.h"

namespace brdma::fabric::controller {
namespace {

class Search {
 public:
  explicit Search(const RouteQuestion& question)
      : question_(question), links_into_(question.map.switches().size()), states_(links_into_.size()) {
    BRDMA_CHECK(question.cost.size() == question.map.links().size());
    BRDMA_CHECK(question.fixed.size() == states_.size());
    for (LinkIndex i = 0; i < question.cost.size(); ++i) links_into_[question.map.links()[i].to].push_back(i);
    for (SwitchIndex i = 0; i < states_.size(); ++i) {
      if (question.fixed[i] != nullptr) states_[i].missing = question.fixed[i]->size();
    }
  }

  Routes run() {
    for (const SwitchIndex destination : question_.destinations) states_[destination] = {Cost{}, true, false, 0};
    while (const auto nearest = take_nearest()) reach_back_from(*nearest);
    Routes routes;
    routes.distance.resize(states_.size());
    routes.next.resize(states_.size());
    for (SwitchIndex i = 0; i < states_.size(); ++i) {
      if (states_[i].settled) routes.distance[i] = states_[i].cost;
    }
    for (SwitchIndex i = 0; i < states_.size(); ++i) routes.next[i] = next_of(i);
    return routes;
  }

 private:
  struct State {
    Cost cost;
    bool known = false, settled = false;
    std::size_t missing = 0;  // fixed: links whose ends are not settled yet
  };

  std::optional<SwitchIndex> take_nearest() {
    std::optional<SwitchIndex> nearest;
    for (SwitchIndex i = 0; i < states_.size(); ++i) {
      if (!states_[i].known || states_[i].settled) continue;
      if (!nearest || states_[i].cost < states_[*nearest].cost) nearest = i;
    }
    if (nearest) states_[*nearest].settled = true;
    return nearest;
  }

  void reach_back_from(SwitchIndex to) {
    for (const LinkIndex link : links_into_[to]) {
      const SwitchIndex from = question_.map.links()[link].from;
      State& state = states_[from];
      if (state.settled || !question_.cost[link]) continue;
      const Cost cost = states_[to].cost + *question_.cost[link];
      if (const NextLinks* fixed = question_.fixed[from]; fixed != nullptr) {
        if (!std::ranges::binary_search(*fixed, link)) continue;
        state.cost = std::max(state.cost, cost);
        state.known = --state.missing == 0;
      } else if (!state.known || cost < state.cost) {
        state.cost = cost;
        state.known = true;
      }
    }
  }

  [[nodiscard]] NextLinks next_of(SwitchIndex from) const {
    const State& own = states_[from];
    if (!own.settled || own.cost == Cost{}) return {};
    if (question_.fixed[from] != nullptr) return *question_.fixed[from];
    NextLinks next;
    const std::int64_t most = own.cost.ns + own.cost.ns / 1000 * question_.equal_permille;
    for (LinkIndex i = 0; i < question_.cost.size() && next.size() < ForwardingTable::kPortsMax; ++i) {
      const Link& link = question_.map.links()[i];
      if (link.from != from || !question_.cost[i]) continue;
      const State& end = states_[link.to];
      if (!end.settled || !(end.cost < own.cost)) continue;
      const Cost cost = end.cost + *question_.cost[i];
      if (cost.congested == own.cost.congested && cost.ns <= most) next.push_back(i);
    }
    return next;
  }

  const RouteQuestion& question_;
  std::vector<std::vector<LinkIndex>> links_into_;
  std::vector<State> states_;
};

}  // namespace

Routes choose_routes(const RouteQuestion& question) { return Search{question}.run(); }

}  // namespace brdma::fabric::controller
