#include "sim/world.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::sim {
namespace {

// An instant that never ends is a timer set to a past time.
constexpr std::uint32_t kStepsPerInstantMax = 10'000;

void earliest(std::optional<Instant>& next, std::optional<Instant> other) {
  if (other && (!next || *other < *next)) next = other;
}

}  // namespace

World::~World() {
  for (auto& connection : connections_) connection.link->clear(pool_);
}

Host& World::add_host(const HostConfig& config) {
  return *hosts_.emplace_back(std::make_unique<Host>(config, pool_, trace_, observers_));
}

void World::join(Host& a, Host& b, const fabric::LinkConfig& a_to_b, const fabric::LinkConfig& b_to_a) {
  const auto number = [this](const Host& host) {
    const auto is_it = [&host](const auto& own) { return own.get() == &host; };
    return std::to_string(std::find_if(hosts_.begin(), hosts_.end(), is_it) - hosts_.begin());
  };
  const auto make = [&](Host& from, Host& to, const fabric::LinkConfig& config) {
    const std::string name = "link " + number(from) + " to " + number(to);
    connections_.push_back({&from, &to, std::make_unique<fabric::Link<PacketIndex>>(config, seed_, name),
                            std::make_unique<fabric::PathMap>()});
  };
  make(a, b, a_to_b);
  make(b, a, b_to_a);
}

RoutedNetwork& World::route_hosts() {
  routed_ = std::make_unique<RoutedNetwork>(pool_, seed_);
  return *routed_;
}

SwitchedNetwork& World::switch_hosts(const fabric::NetworkConfig& config) {
  std::vector<Host*> hosts;
  for (const auto& host : hosts_) hosts.push_back(host.get());
  switched_ = std::make_unique<SwitchedNetwork>(pool_, std::move(hosts), config);
  return *switched_;
}

World::Connection& World::connection(const Host& from, const Host& to) {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const Connection& c) { return c.from == &from && c.to == &to; });
  BRDMA_CHECK(found != connections_.end());
  return *found;
}

void World::configure_link(const Host& from, const Host& to, const fabric::LinkConfig& config) {
  connection(from, to).link->configure(config);
}

void World::configure_links(const fabric::LinkConfig& config) {
  for (auto& connection : connections_) connection.link->configure(config);
}

fabric::LinkCounters World::link_counters(const Host& from, const Host& to) const {
  return const_cast<World*>(this)->connection(from, to).link->counters();
}

fabric::LinkCounters World::path_counters(const Host& from, const Host& to, std::size_t path) const {
  return const_cast<World*>(this)->connection(from, to).link->path_counters(path);
}

bool World::run_until(const std::function<bool()>& done, Duration at_most) {
  const Instant deadline = now_ + at_most;
  while (!done()) {
    if (!step(deadline)) {
      now_ = std::max(now_, deadline);
      return done();
    }
  }
  return true;
}

bool World::run_until_idle(Duration at_most) {
  const Instant deadline = now_ + at_most;
  while (step(deadline)) {
  }
  return !next_instant();
}

void World::run_for(Duration how_long) {
  const Instant deadline = now_ + how_long;
  while (step(deadline)) {
  }
  now_ = deadline;
}

std::optional<Instant> World::next_instant() const {
  std::optional<Instant> next = actions_.next();
  for (const auto& connection : connections_) {
    earliest(next, connection.link->next_timeout());
    if (connection.notifier) earliest(next, connection.notifier->next_timeout());
  }
  if (switched_) earliest(next, switched_->next_timeout());
  if (routed_) earliest(next, routed_->next_timeout());
  for (const auto& host : hosts_) earliest(next, host->next_wake(now_));
  return next;
}

bool World::step(Instant deadline) {
  const std::optional<Instant> next = next_instant();
  if (!next || *next > deadline) return false;
  if (*next > now_) {
    now_ = *next;
    steps_at_now_ = 0;
  }
  BRDMA_CHECK(++steps_at_now_ < kStepsPerInstantMax);
  deliver();
  while (!actions_.empty() && *actions_.next() <= now_) actions_.take()();
  run_hosts();
  send_notices();
  return true;
}

void World::deliver() {
  for (auto& connection : connections_) {
    PacketOwner mine = owner(connection);
    while (const auto packet = connection.link->poll(now_, mine)) connection.to->handle_arrival(*packet, now_);
  }
  if (switched_) switched_->deliver(now_);
  if (routed_) routed_->deliver(now_);
}

void World::run_hosts() {
  for (auto& host : hosts_) {
    host->run(now_, [&](PacketIndex packet) { send(*host, packet); });
  }
}

PacketOwner World::owner(const Connection& connection) {
  return {pool_, connection.notifier.get(), connection.translator};
}

// A packet for an address that no link leads to is lost, as on a network.
void World::send(const Host& from, PacketIndex packet) {
  if (filter_ && !filter_(from, pool_[packet])) return pool_.give_back(packet);
  if (switched_) return switched_->send(from, packet, wire_bytes(pool_[packet]), now_);
  if (routed_) return routed_->send(from, packet, now_);
  const auto found = std::find_if(connections_.begin(), connections_.end(), [&](const Connection& c) {
    return c.from == &from && c.to->address() == pool_[packet].destination;
  });
  if (found == connections_.end()) return pool_.give_back(packet);
  enter_link(*found, packet);
}

void World::enter_link(Connection& connection, PacketIndex packet) {
  const std::uint32_t flow =
      connection.link->config().paths > 1 ? connection.paths->find(1, pool_[packet].source_port) : std::uint32_t{0};
  PacketOwner mine = owner(connection);
  connection.link->handle_packet(packet, wire_bytes(pool_[packet]), /*judged=*/true, now_, mine, flow);
}

void World::notify_drops(const fabric::DropNotifier::Config& config) {
  for (auto& connection : connections_) connection.notifier = std::make_unique<fabric::DropNotifier>(config);
}

const fabric::DropNotifier* World::drop_notifier(const Host& from, const Host& to) const {
  return const_cast<World*>(this)->connection(from, to).notifier.get();
}

void World::translate_marks(const fabric::RttTranslator::Config& config) {
  for (auto& translator : translators_) translator->configure(config.increment, config.rewrite);
  for (auto& connection : connections_) {
    connection.translator = this->connection(*connection.to, *connection.from).translator;
    if (connection.translator != nullptr) continue;
    connection.translator = translators_.emplace_back(std::make_unique<fabric::RttTranslator>(config)).get();
  }
}

const fabric::RttTranslator* World::translator(const Host& a, const Host& b) const {
  return const_cast<World*>(this)->connection(a, b).translator;
}

void World::send_notices() {
  if (switched_) switched_->send_notices(now_);
  if (routed_) routed_->send_notices(now_);
  for (const auto& connection : connections_) {
    if (!connection.notifier) continue;
    connection.notifier->handle_timeout(now_);
    while (const auto notice = connection.notifier->poll()) send_notice(connection, *notice);
  }
}

void World::send_notice(const Connection& about, const fabric::DropNotice& notice) {
  const PacketIndex packet = take_notice(pool_, notice);
  connection(*about.to, *about.from)
      .link->handle_packet(packet, wire_bytes(pool_[packet]), /*judged=*/false, now_, pool_);
}

}  // namespace brdma::sim
