#include "sim/routed_network.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/check.h"
#include "fabric/routing/frame.h"
#include "fabric/switch/port_facts.h"

namespace brdma::sim {

RoutedNetwork::~RoutedNetwork() {
  for (Way& way : ways_) way.link->clear(pool_);
  for (auto& router : routers_) router->processor.clear([this](PacketIndex packet) { pool_.discard(packet); });
}

RouterNode& RoutedNetwork::add_router(const fabric::SharedBufferConfig& memory) {
  RouterNode& router = *routers_.emplace_back(std::make_unique<RouterNode>(memory, seed_ + routers_.size() + 1));
  router.number = static_cast<std::uint32_t>(routers_.size() - 1);
  return router;
}

void RoutedNetwork::add_way(End from, End to, const fabric::LinkConfig& config) {
  const std::string name = "way " + std::to_string(ways_.size());
  Way way{from, to, std::make_unique<fabric::Link<PacketIndex>>(config, seed_, name),
          fabric::bytes_per_second(config.rate)};
  if (from.router != nullptr) {
    way.link->share(&from.router->buffer);
    from.router->ports.push_back(ways_.size());
  }
  if (from.host != nullptr) uplinks_.emplace(from.host, ways_.size());
  ways_.push_back(std::move(way));
}

void RoutedNetwork::join(Station& host, RouterNode& router, const fabric::LinkConfig& up,
                         const fabric::LinkConfig& down) {
  add_way({.host = &host}, {.router = &router}, up);
  add_way({.router = &router}, {.host = &host}, down);
  const std::array port{static_cast<std::uint32_t>(router.ports.size() - 1)};
  BRDMA_CHECK(router.router.table().set(fabric::Prefix::of(host.address(), 128), port));
}

void RoutedNetwork::join(RouterNode& a, RouterNode& b, const fabric::LinkConfig& a_to_b,
                         const fabric::LinkConfig& b_to_a) {
  add_way({.router = &a}, {.router = &b}, a_to_b);
  add_way({.router = &b}, {.router = &a}, b_to_a);
}

void RoutedNetwork::add_route(RouterNode& router, const fabric::Prefix& prefix, const std::vector<RouterNode*>& next) {
  std::vector<std::uint32_t> ports;
  for (std::uint32_t port = 0; port < router.ports.size(); ++port) {
    RouterNode* const to = ways_[router.ports[port]].to.router;
    if (to != nullptr && std::find(next.begin(), next.end(), to) != next.end()) ports.push_back(port);
  }
  BRDMA_CHECK(router.router.table().set(prefix, ports));
}

void RoutedNetwork::notify_drops(const fabric::DropNotifier::Config& config) {
  for (auto& router : routers_) router->notifier = std::make_unique<fabric::DropNotifier>(config);
}

void RoutedNetwork::translate_marks(const fabric::RttTranslator::Config& config) {
  for (auto& router : routers_) router->translator = std::make_unique<fabric::RttTranslator>(config);
}

void RoutedNetwork::answer_inquiries(const fabric::LinkStateAgent::Config& config, ReportHandler on_report) {
  on_report_ = std::move(on_report);
  fabric::LinkStateAgent::Config own = config;
  for (auto& router : routers_) {
    ++own.switch_id;
    router->agent = std::make_unique<fabric::LinkStateAgent>(own, router->ports.size());
    schedule(*router, Instant{});
  }
}

fabric::PortFacts RoutedNetwork::facts(const RouterNode& router, std::uint32_t port, Instant now) {
  Way& way = ways_[router.ports[port]];
  way.link->advance(now);
  arrange(router.ports[port], now);
  fabric::PortFacts facts = fabric::port_facts(*way.link, way.built_rate, way.up);
  facts.switch_speed = router.processor.rate().value_or(0);
  return facts;
}

fabric::PortFacts RoutedNetwork::facts(const RouterNode& from, const RouterNode& to, Instant now) {
  return facts(from, port_to(from, {.router = const_cast<RouterNode*>(&to)}), now);
}

void RoutedNetwork::set_up(RouterNode& a, RouterNode& b, bool up) {
  for (Way* way : {&way_to(a, b), &way_to(b, a)}) {
    way->up = up;
    if (up) continue;
    way->lost_by_cut += way->link->pending();
    PacketOwner mine = owner(*way);
    way->link->clear(mine);
    way_wakes_.set(static_cast<std::uint32_t>(way - ways_.data()), std::nullopt, Instant{});
  }
}

void RoutedNetwork::configure(RouterNode& from, RouterNode& to, const fabric::LinkConfig& config, Instant now) {
  Way& way = way_to(from, to);
  way.link->advance(now_);  // what has left keeps its time
  way.link->configure(config);
  arrange(static_cast<std::size_t>(&way - ways_.data()), now);
  if (from.agent) from.agent->disturb(now);
  schedule(from, now);
}

void RoutedNetwork::configure_all(const std::function<void(fabric::LinkConfig&)>& change) {
  for (Way& way : ways_) {
    fabric::LinkConfig config = way.link->config();
    change(config);
    way.link->advance(now_);
    way.link->configure(config);
    arrange(static_cast<std::size_t>(&way - ways_.data()), now_);
  }
}

fabric::LinkCounters RoutedNetwork::counters() const {
  fabric::LinkCounters all;
  for (const Way& way : ways_) all += way.link->counters();
  return all;
}

std::uint64_t RoutedNetwork::lost_by_cut(const RouterNode& from, const RouterNode& to) const {
  return ways_[from.ports[port_to(from, {.router = const_cast<RouterNode*>(&to)})]].lost_by_cut;
}

void RoutedNetwork::pass_agent(RouterNode& router, PacketIndex index, const fabric::FiveTuple& flow, std::uint32_t port,
                               Instant now) {
  Packet& packet = pool_[index];
  if (!router.agent || packet.source_port == 0) return;
  if (!router.agent->routed(flow, packet.bytes, port, now)) return;
  (void)router.agent->answer(flow, packet.bytes, port, facts(router, port, now), now);
}

void RoutedNetwork::serve_agent(RouterNode& router, Instant now) {
  if (!router.agent) return;
  if (const auto due = router.agent->next_timeout(); due && *due <= now) {
    for (std::uint32_t port = 0; port < router.ports.size(); ++port) {
      router.agent->sample(port, facts(router, port, now), now);
    }
    router.agent->sampled(now);
  }
  while (const auto report = router.agent->poll_report()) {
    if (on_report_) on_report_(router, *report);
  }
  while (const auto notice = router.agent->poll_feedback()) route(router, take_notice(pool_, *notice), now);
}

std::uint32_t RoutedNetwork::port_to(const RouterNode& from, const End& to) const {
  const auto found =
      std::find_if(from.ports.begin(), from.ports.end(), [&](std::size_t port) { return ways_[port].to == to; });
  BRDMA_CHECK(found != from.ports.end());
  return static_cast<std::uint32_t>(found - from.ports.begin());
}
RoutedNetwork::Way& RoutedNetwork::way_to(const RouterNode& from, const RouterNode& to) {
  return ways_[from.ports[port_to(from, {.router = const_cast<RouterNode*>(&to)})]];
}
const fabric::Link<PacketIndex>& RoutedNetwork::find(const RouterNode& from, const End& to) const {
  fabric::Link<PacketIndex>& link = *ways_[from.ports[port_to(from, to)]].link;
  link.advance(now_);
  return link;
}
const fabric::Link<PacketIndex>& RoutedNetwork::link(const RouterNode& from, const Station& to) const {
  return find(from, {.host = const_cast<Station*>(&to)});
}
const fabric::Link<PacketIndex>& RoutedNetwork::link(const RouterNode& from, const RouterNode& to) const {
  return find(from, {.router = const_cast<RouterNode*>(&to)});
}

PacketOwner RoutedNetwork::owner(const Way& way) {
  RouterNode* const router = way.from.router;
  if (router == nullptr) return {pool_, nullptr, nullptr};
  return {pool_, router->notifier.get(), router->translator.get(), &router->marks,
          frame_notice_ ? &router->frames_dropped : nullptr};
}

void RoutedNetwork::arrange(std::size_t way, Instant now) {
  way_wakes_.set(static_cast<std::uint32_t>(way), ways_[way].link->next_timeout(), now);
}

void RoutedNetwork::mark(RouterNode& router) {
  if (router.is_marked) return;
  router.is_marked = true;
  marked_.push_back(router.number);
}

void RoutedNetwork::schedule(RouterNode& router, Instant now) {
  mark(router);
  router_wakes_.set(router.number, next_timeout(router), now);
}

void RoutedNetwork::enter(std::size_t number, PacketIndex packet, Instant now) {
  Way& way = ways_[number];
  PacketOwner mine = owner(way);
  way.link->handle_packet(packet, wire_bytes(pool_[packet]), /*judged=*/true, now, mine);
  if (way.from.router != nullptr) mark(*way.from.router);
  arrange(number, now);
}

void RoutedNetwork::send(const Station& from, PacketIndex packet, Instant now) {
  const auto way = uplinks_.find(&from);
  if (way == uplinks_.end()) return pool_.give_back(packet);
  enter(way->second, packet, now);
}

void RoutedNetwork::poll(std::size_t number, Instant now) {
  Way& way = ways_[number];
  PacketOwner mine = owner(way);
  if (way.from.router != nullptr) mark(*way.from.router);  // packets that were held back may be dropped
  while (const auto packet = way.link->poll(now, mine)) {
    if (way.to.host != nullptr) {
      way.to.host->handle_arrival(*packet, now);
    } else {
      process(*way.to.router, *packet, now);
    }
  }
  arrange(number, now);
}

void RoutedNetwork::deliver(Instant now) {
  now_ = now;
  way_wakes_.begin_pass(now);
  while (const auto way = way_wakes_.next_due()) poll(*way, now);
  router_wakes_.begin_pass(now);
  while (const auto number = router_wakes_.next_due()) {
    RouterNode& router = *routers_[*number];
    while (auto done = router.processor.poll(now)) route(router, done->item, done->at);
    mark(router);
  }
}

void RoutedNetwork::process(RouterNode& router, PacketIndex packet, Instant now) {
  if (router.processor.passes_at_once()) return route(router, packet, now);
  mark(router);
  if (router.processor.accept(packet, now)) return;
  PacketOwner mine{pool_, router.notifier.get(), nullptr};
  mine.dropped(packet, router.processor.drain(now), now);
  mine.discard(packet);
}

void RoutedNetwork::route(RouterNode& router, PacketIndex index, Instant now) {
  Packet& packet = pool_[index];
  const bool icmp = packet.source_port == 0;
  const fabric::FiveTuple flow{packet.source, packet.destination, packet.source_port,
                               icmp ? std::uint16_t{0} : fabric::kRocePort, static_cast<std::uint8_t>(icmp ? 1 : 17)};
  const auto port = router.router.route(flow, packet.hop_limit);
  if (!port) return pool_.give_back(index);
  --packet.hop_limit;
  pass_agent(router, index, flow, *port, now);
  if (router.buffer.on()) {  // memory of what has left is free
    for (const std::size_t each : router.ports) advance(each, now);
  }
  Way& way = ways_[router.ports[*port]];
  if (!way.up) {
    ++way.lost_by_cut;
    return pool_.give_back(index);
  }
  enter(router.ports[*port], index, now);
}

void RoutedNetwork::advance(std::size_t number, Instant now) {
  fabric::Link<PacketIndex>& link = *ways_[number].link;
  if (link.queue().busy_until() > now) return;  // nothing more has left
  link.advance(now);
  arrange(number, now);
}

void RoutedNetwork::report(RouterNode& router, Instant now) {
  serve_agent(router, now);
  for (std::size_t i = 0; i < router.frames_dropped.size(); ++i) {
    if (const auto notice = frame_notice_(router.frames_dropped[i], now)) route(router, *notice, now);
  }
  router.frames_dropped.clear();
  if (!router.notifier) return;
  router.notifier->handle_timeout(now);
  while (const auto notice = router.notifier->poll()) route(router, take_notice(pool_, *notice), now);
}

std::optional<Instant> RoutedNetwork::next_timeout(const RouterNode& router) {
  std::optional<Instant> next = router.processor.next_timeout();
  const auto sooner = [&next](std::optional<Instant> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  if (router.notifier) sooner(router.notifier->next_timeout());
  if (router.agent) sooner(router.agent->next_timeout());
  return next;
}

void RoutedNetwork::send_notices(Instant now) {
  std::sort(marked_.begin(), marked_.end());
  for (std::size_t i = 0; i < marked_.size(); ++i) report(*routers_[marked_[i]], now);
  for (const std::uint32_t number : marked_) {
    routers_[number]->is_marked = false;
    router_wakes_.set(number, next_timeout(*routers_[number]), now);
  }
  marked_.clear();
}

std::optional<Instant> RoutedNetwork::next_timeout() const {
  std::optional<Instant> next = way_wakes_.next();
  const std::optional<Instant> router = router_wakes_.next();
  if (router && (!next || *router < *next)) next = router;
  return next;
}

}  // namespace brdma::sim
