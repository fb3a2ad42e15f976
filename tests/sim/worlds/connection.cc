#include "worlds/connection.h"

#include <algorithm>

#include "worlds/draws.h"

namespace brdma::test {

Connection::Connection(sim::World& world, const ConnectionSettings& settings, Sides<sim::Host*> hosts,
                       std::uint64_t number)
    : world_(world), settings_(settings), hosts_(hosts), random_(settings.seed) {
  for (std::size_t side = 0; side < 2; ++side) {
    arenas_[side] = std::make_unique<Arena>((number * 2 + side + 1) << 44,
                                            Random{settings.seed, side == 0 ? "arena 0" : "arena 1"});
  }
  for (std::size_t side = 0; side < 2; ++side) {
    if (settings.traffic[side].operations_max == 0) continue;
    traffic_[side] = plan_traffic(settings.traffic[side], random_, *arenas_[side], *arenas_[1 - side]);
  }
  for (std::size_t side = 0; side < 2; ++side) {
    arenas_[side]->freeze();
    endpoints_[side] = std::make_unique<Endpoint>(world_, *hosts_[side], settings.endpoints[side], *arenas_[side]);
  }
}

void Connection::begin(Duration faults_last) {
  begun_ = true;
  for (auto& endpoint : endpoints_) endpoint->start();
  for (std::size_t side = 0; side < 2; ++side) {
    Endpoint& own = *endpoints_[side];
    const Endpoint& peer = *endpoints_[1 - side];
    const EndpointConfig& config = settings_.endpoints[side];
    const FlightChecker::Connection way{own.qpn(), peer.qpn(), hosts_[1 - side]->address(), config.first_psn,
                                        mtu_bytes(config.mtu)};
    flights_[side] = std::make_unique<FlightChecker>(*hosts_[side], way);
    copies_[side] = std::make_unique<CopyCounter>(*hosts_[side], way);
    world_.add_observer(*flights_[side]);
    world_.add_observer(*copies_[side]);
    own.connect(peer);
    own.set_traffic(traffic_[side], traffic_[1 - side]);
    schedule_work(own, traffic_[side].operations.size(), traffic_[1 - side].receives.size(), faults_last);
  }
}

void Connection::schedule_work(Endpoint& endpoint, std::size_t operations, std::size_t receives, Duration within) {
  if (one_in(random_, 2)) {
    endpoint.allow_operations(0);
    release(operations, within, [&endpoint](std::size_t count) { endpoint.allow_operations(count); });
  }
  if (one_in(random_, 4)) {
    endpoint.allow_receives(0);
    release(receives, within, [&endpoint](std::size_t count) { endpoint.allow_receives(count); });
  }
}

template <class Allow>
void Connection::release(std::size_t total, Duration within, const Allow& allow) {
  std::vector<Instant> when;
  std::vector<std::size_t> counts;
  for (std::size_t released = 0; released < total;) {
    released = std::min(total, released + 1 + random_.below(one_in(random_, 3) ? total : 4));
    counts.push_back(released);
    when.push_back(world_.now() + draw_up_to(random_, within));
  }
  std::sort(when.begin(), when.end());
  for (std::size_t i = 0; i < when.size(); ++i) {
    world_.at(when[i], [allow, count = counts[i]] { allow(count); });
  }
}

void Connection::crash(const sim::Host& host) {
  if (!begun_) return;
  for (std::size_t side = 0; side < 2; ++side) {
    if (hosts_[side] != &host) continue;
    endpoints_[side]->crash();
    endpoints_[1 - side]->lose_peer();
    for (auto& flight : flights_) flight->end();
    for (auto& copies : copies_) copies->end();
    crashed_ = true;
  }
}

void Connection::progress() {
  for (auto& endpoint : endpoints_) endpoint->progress();
}

bool Connection::done() const { return begun_ && endpoints_[0]->done() && endpoints_[1]->done(); }

void Connection::check_end() {
  for (auto& endpoint : endpoints_) {
    endpoint->check_end();
    endpoint->destroy();
  }
}

std::uint64_t Connection::needless(const sim::Host& by, std::string& example) const {
  std::uint64_t sum = 0;
  for (std::size_t side = 0; side < 2; ++side) {
    if (flights_[side] == nullptr || hosts_[side] != &by) continue;
    sum += flights_[side]->needless();
    if (example.empty()) example = flights_[side]->first_needless();
  }
  return sum;
}

CopyCounter::Counts Connection::copies() const {
  CopyCounter::Counts sum;
  for (const auto& copies : copies_) {
    if (copies != nullptr) sum += copies->counts();
  }
  return sum;
}

bool Connection::found() const {
  return begun_ && (!endpoints_[0]->findings().empty() || !endpoints_[1]->findings().empty() ||
                    !flights_[0]->findings().empty() || !flights_[1]->findings().empty());
}

std::vector<std::string> Connection::findings() const {
  std::vector<std::string> all;
  const auto add = [&all](const std::vector<std::string>& some) { all.insert(all.end(), some.begin(), some.end()); };
  for (std::size_t side = 0; begun_ && side < 2; ++side) {
    add(endpoints_[side]->findings());
    add(flights_[side]->findings());
  }
  return all;
}

std::string Connection::state() const {
  return begun_ ? endpoints_[0]->state() + endpoints_[1]->state() : "not begun\n";
}

}  // namespace brdma::test
