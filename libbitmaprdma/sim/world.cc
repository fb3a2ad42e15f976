#include "sim/world.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::sim {
namespace {

// An instant that goes on for ever is a timer that is set to a time that has passed.
constexpr std::uint32_t kStepsPerInstantMax = 10'000;
constexpr std::uint8_t kEcnMask = 3, kEcnCongested = 3;  // of the traffic class (RFC 3168); 0: cannot be marked

void earliest(std::optional<Instant>& next, std::optional<Instant> other) {
  if (other && (!next || *other < *next)) next = other;
}

}  // namespace

// The pool, and whoever wants to hear of drops.
class World::Owner {
 public:
  Owner(PacketPool& pool, Connection& connection)
      : pool_(pool), notifier_(connection.notifier.get()), translator_(connection.translator) {}
  std::optional<PacketIndex> duplicate(PacketIndex index) { return pool_.duplicate(index); }
  void corrupt(PacketIndex index, std::uint64_t random) { pool_.corrupt(index, random); }
  void discard(PacketIndex index) { pool_.discard(index); }
  void dropped(PacketIndex index, Duration drain, Instant now) {
    if (notifier_ != nullptr) notifier_->dropped(view(index), drain, now);
  }
  void enqueued(PacketIndex index, bool marked, Instant now) {
    if (notifier_ != nullptr) notifier_->enqueued(view(index), now);
    Packet& packet = pool_[index];
    const std::uint8_t ecn = packet.traffic_class & kEcnMask;
    if (translator_ != nullptr) {
      marked = marked || ecn == kEcnCongested;
      if (translator_->pass(packet.source, packet.destination, packet.bytes, marked, now)) {
        packet.traffic_class &= static_cast<std::uint8_t>(~kEcnMask);
        return;
      }
    }
    if (marked && ecn != 0) packet.traffic_class |= kEcnCongested;
  }

 private:
  [[nodiscard]] fabric::RoceView view(PacketIndex index) {
    const Packet& packet = pool_[index];
    return {packet.source, packet.destination, packet.source_port, packet.bytes};
  }
  PacketPool& pool_;
  fabric::DropNotifier* notifier_;
  fabric::RttTranslator* translator_;
};

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
    if (connection.notifier) earliest(next, connection.notifier->next_timeout());
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
  send_notices();
  return true;
}

void World::deliver() {
  for (auto& connection : connections_) {
    while (connection.to_switch) {
      const auto packet = connection.to_switch->poll(now_, pool_);
      if (!packet) break;
      enter_link(connection, *packet);
    }
    Owner owner{pool_, connection};
    while (const auto packet = connection.link->poll(now_, owner)) connection.to->handle_arrival(*packet);
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
  Owner owner{pool_, connection};
  connection.link->handle_packet(packet, size + kFrameOverhead, /*judged=*/true, now_, owner, flow);
}

void World::notify_drops(const fabric::DropNotifier::Config& config) {
  for (auto& connection : connections_) connection.notifier = std::make_unique<fabric::DropNotifier>(config);
}

const fabric::DropNotifier* World::drop_notifier(const Host& from, const Host& to) const {
  return const_cast<World*>(this)->connection(from, to).notifier.get();
}

void World::translate_marks(const fabric::RttTranslator::Config& config) {
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
  for (const auto& connection : connections_) {
    if (!connection.notifier) continue;
    connection.notifier->handle_timeout(now_);
    while (const auto notice = connection.notifier->poll()) send_notice(connection, *notice);
  }
}

// ICMP reaches a host's engine as a packet from UDP port 0.
void World::send_notice(const Connection& about, const fabric::DropNotice& notice) {
  const PacketIndex index = pool_.take();
  Packet& packet = pool_[index];
  packet.source = notice.source;
  packet.destination = notice.destination;
  packet.source_port = notice.source_port;
  packet.ip_id = 0;
  packet.traffic_class = 0;
  const ConstBytes bytes = notice.view();
  packet.bytes.assign(bytes.begin(), bytes.end());
  connection(*about.to, *about.from)
      .link->handle_packet(index, static_cast<std::uint32_t>(bytes.size()) + kFrameOverhead, /*judged=*/false, now_,
                           pool_);
}

}  // namespace brdma::sim
