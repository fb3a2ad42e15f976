#include "sim/world.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::sim {
namespace {

// An instant that goes on for ever is a timer that is set to a time that has passed.
constexpr std::uint32_t kStepsPerInstantMax = 10'000;

void earliest(std::optional<Instant>& next, std::optional<Instant> other) {
  if (other && (!next || *other < *next)) next = other;
}

}  // namespace

World::~World() {
  for (auto& connection : connections_) {
    if (connection.to_switch) connection.to_switch->clear(pool_);
    connection.link->clear(pool_);
  }
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

void World::add_switches(std::optional<Bandwidth> rate, std::uint64_t queue_bytes) {
  fabric::LinkConfig config;
  config.rate = rate;
  config.queue_bytes = queue_bytes;
  for (Connection& each : connections_) {
    each.to_switch = std::make_unique<fabric::Link<PacketIndex>>(config, seed_, "link to a switch");
  }
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
    if (connection.to_switch) earliest(next, connection.to_switch->next_timeout());
    earliest(next, connection.link->next_timeout());
  }
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
  return true;
}

void World::deliver() {
  for (auto& connection : connections_) {
    while (connection.to_switch) {
      const auto packet = connection.to_switch->poll(now_, pool_);
      if (!packet) break;
      enter_link(connection, *packet);
    }
    while (const auto packet = connection.link->poll(now_, pool_)) connection.to->handle_arrival(*packet);
  }
}

void World::run_hosts() {
  for (auto& host : hosts_) {
    host->run(now_, [&](PacketIndex packet) { send(*host, packet); });
  }
}

// A packet for an address that no link leads to is lost, as on a network.
void World::send(const Host& from, PacketIndex packet) {
  const auto found = std::find_if(connections_.begin(), connections_.end(), [&](const Connection& c) {
    return c.from == &from && c.to->address() == pool_[packet].destination;
  });
  if (found == connections_.end() || (filter_ && !filter_(from, pool_[packet]))) return pool_.give_back(packet);
  if (!found->to_switch) return enter_link(*found, packet);
  const auto size = static_cast<std::uint32_t>(pool_[packet].bytes.size());
  found->to_switch->handle_packet(packet, size + kFrameOverhead, /*judged=*/false, now_, pool_);
}

void World::enter_link(Connection& connection, PacketIndex packet) {
  const auto size = static_cast<std::uint32_t>(pool_[packet].bytes.size());
  const std::uint32_t flow =
      connection.link->config().paths > 1 ? connection.paths->find(1, pool_[packet].source_port) : std::uint32_t{0};
  connection.link->handle_packet(packet, size + kFrameOverhead, /*judged=*/true, now_, pool_, flow);
}

}  // namespace brdma::sim
