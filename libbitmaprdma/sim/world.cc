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
  for (auto& connection : links_.all) connection.link->clear(pool_);
}

Host& World::add_host(const HostConfig& config) {
  auto made = std::make_unique<Host>(config, pool_, trace_, observers_);
  Host& host = *hosts_.emplace_back(made.get());
  stations_.add(std::move(made));
  return host;
}

void World::join(Host& a, Host& b, const fabric::LinkConfig& a_to_b, const fabric::LinkConfig& b_to_a) {
  const auto number = [this](const Host& host) {
    const auto is_it = [&host](const Host* own) { return own == &host; };
    return std::to_string(std::find_if(hosts_.begin(), hosts_.end(), is_it) - hosts_.begin());
  };
  const auto make = [&](Host& from, Host& to, const fabric::LinkConfig& config) {
    const std::string name = "link " + number(from) + " to " + number(to);
    links_.by_sender[&from].push_back(static_cast<std::uint32_t>(links_.all.size()));
    links_.all.push_back({&from, &to, std::make_unique<fabric::Link<PacketIndex>>(config, seed_, name),
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
  switched_ = std::make_unique<SwitchedNetwork>(pool_, hosts_, config);
  return *switched_;
}

World::Connection& World::connection(const Host& from, const Host& to) {
  for (const std::uint32_t number : links_.by_sender[&from]) {
    if (links_.all[number].to == &to) return links_.all[number];
  }
  BRDMA_CHECK(false);
}

void World::configure_link(const Host& from, const Host& to, const fabric::LinkConfig& config) {
  Connection& changed = connection(from, to);
  changed.link->advance(links_.polled);  // what has left keeps its time
  changed.link->configure(config);
  arrange(changed);
}

void World::configure_links(const fabric::LinkConfig& config) {
  for (auto& connection : links_.all) {
    connection.link->advance(links_.polled);
    connection.link->configure(config);
    arrange(connection);
  }
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

std::optional<Instant> World::next_instant() {
  std::optional<Instant> next = actions_.next();
  earliest(next, links_.wakes.next());
  if (switched_) earliest(next, switched_->next_timeout());
  if (routed_) earliest(next, routed_->next_timeout());
  earliest(next, stations_.next(now_));
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
  links_.polled = now_;
  links_.wakes.begin_pass(now_);
  while (const auto number = links_.wakes.next_due()) {
    Connection& connection = links_.all[*number];
    PacketOwner mine = owner(connection);
    while (const auto packet = connection.link->poll(now_, mine)) connection.to->handle_arrival(*packet, now_);
    arrange(connection);
  }
  if (switched_) switched_->deliver(now_);
  if (routed_) routed_->deliver(now_);
}

void World::arrange(Connection& connection) {
  std::optional<Instant> next = connection.link->next_timeout();
  if (connection.notifier) earliest(next, connection.notifier->next_timeout());
  links_.wakes.set(static_cast<std::uint32_t>(&connection - links_.all.data()), next, now_);
}

void World::run_hosts() {
  stations_.run_due(now_, [this](Station& station) {
    const auto forward = [&](PacketIndex packet) { send(station, packet); };
    station.run(now_, forward);
  });
}

PacketOwner World::owner(const Connection& connection) {
  return {pool_, connection.notifier.get(), connection.translator};
}

// A packet for an address that no link leads to is lost, as on a network.
void World::send(const Station& from, PacketIndex packet) {
  const Host* const host = from.engine_host();
  if (filter_ && host != nullptr && !filter_(*host, pool_[packet])) return pool_.give_back(packet);
  if (routed_) return routed_->send(from, packet, now_);
  if (host == nullptr) return pool_.give_back(packet);
  if (switched_) return switched_->send(*host, packet, wire_bytes(pool_[packet]), now_);
  for (const std::uint32_t number : links_.by_sender[host]) {
    Connection& connection = links_.all[number];
    if (connection.to->address() == pool_[packet].destination) return enter_link(connection, packet);
  }
  pool_.give_back(packet);
}

void World::enter_link(Connection& connection, PacketIndex packet) {
  const std::uint32_t flow =
      connection.link->config().paths > 1 ? connection.paths->find(1, pool_[packet].source_port) : std::uint32_t{0};
  PacketOwner mine = owner(connection);
  connection.link->handle_packet(packet, wire_bytes(pool_[packet]), /*judged=*/true, now_, mine, flow);
  arrange(connection);
}

void World::notify_drops(const fabric::DropNotifier::Config& config) {
  for (auto& connection : links_.all) {
    connection.notifier = std::make_unique<fabric::DropNotifier>(config);
    links_.notify = true;
  }
}

const fabric::DropNotifier* World::drop_notifier(const Host& from, const Host& to) const {
  return const_cast<World*>(this)->connection(from, to).notifier.get();
}

void World::translate_marks(const fabric::RttTranslator::Config& config) {
  for (auto& translator : translators_) translator->configure(config.increment, config.rewrite);
  for (auto& connection : links_.all) {
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
  if (!links_.notify) return;
  for (Connection& connection : links_.all) {
    if (!connection.notifier) continue;
    connection.notifier->handle_timeout(now_);
    while (const auto notice = connection.notifier->poll()) send_notice(connection, *notice);
    arrange(connection);
  }
}

void World::send_notice(const Connection& about, const fabric::DropNotice& notice) {
  const PacketIndex packet = take_notice(pool_, notice);
  Connection& back = connection(*about.to, *about.from);
  back.link->handle_packet(packet, wire_bytes(pool_[packet]), /*judged=*/false, now_, pool_);
  arrange(back);
}

}  // namespace brdma::sim
