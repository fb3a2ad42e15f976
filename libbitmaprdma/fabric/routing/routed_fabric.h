// fabric/routing/routed_fabric.h - several routers, the links between them and to hosts. Each router decrements a
// packet's hop limit and forwards it to the port of the longest prefix; each flow takes one of several equal-cost
// ports. Sans-I/O like fabric/link.h; packets are values of the owner's type here too.
//
//   host -> link -> router (fabric/processor.h) -> link -> router -> ... -> link -> host
//
// A link has two directions, each with its own faults, queue, rate and delay. A link that is down accepts nothing, and
// a cut loses the packets on it: both are counted. Routes stay: a controller or `brdma lab route` replaces them to move
// traffic off a dead link, at any time, without touching packets in flight.
// The driver calls handle_packet for packets of hosts, handle_timeout, poll for each host until it returns nothing,
// then waits until next_timeout.
// The owner is that of fabric/link.h, with these in addition:
//   void at(std::optional<std::uint32_t> router)     the next calls are about a link from this router; none: a host
//   std::optional<Routable> look(const Packet&)      nothing: not IP, it ends here
//   void spend_hop(Packet&)
//   bool judged(const Packet&)                       whether links' faults apply to it
//   void routed(Packet&, const Routable&, router, port, now)   optional: it is about to leave by this port
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "fabric/link.h"
#include "fabric/processor.h"
#include "fabric/routing/five_tuple.h"
#include "fabric/routing/router.h"
#include "fabric/switch/shared_buffer.h"

namespace brdma::fabric {

// The part of a packet that a router needs.
struct Routable {
  FiveTuple flow;
  std::uint8_t hops_left = 0;
  std::uint32_t bytes = 0;  // for rates and queues
};

// Effects of a cut on a direction, beside its LinkCounters: these packets were not offered to the link, or were on it.
struct CutCounters {
  std::uint64_t refused = 0;         // arrived while it was down
  std::uint64_t lost_in_flight = 0;  // waited or were on the wire when it was cut
};

template <class Packet>
class RoutedFabric {
 public:
  struct End {
    bool is_host = false;
    std::uint32_t number = 0;  // of its kind, from 0
    friend bool operator==(const End&, const End&) = default;
  };
  struct Way {  // one direction: 2 * link, and back 2 * link + 1
    std::uint32_t number = 0;
    End from, to;
    Link<Packet> link;
    CutCounters cut;
    bool transparent = false;  // no faults, queue or delay
  };

  explicit RoutedFabric(std::uint64_t seed) : seed_(seed) {}
  RoutedFabric(const RoutedFabric&) = delete;  // links refer to buffers
  RoutedFabric& operator=(const RoutedFabric&) = delete;

  // Its queues share `memory`; none: each has its own.
  std::uint32_t add_router(const SharedBufferConfig& memory = {}) {
    routers_.push_back(std::make_unique<Node>(seed_ + routers_.size() + 1));
    routers_.back()->buffer.configure(memory);
    return router_count() - 1;
  }
  std::uint32_t add_host() {
    hosts_.push_back({});
    return static_cast<std::uint32_t>(hosts_.size() - 1);
  }
  // Returns the link's number; at each router the next port. A host has one link. `name` selects the random streams.
  std::uint32_t join(End a, End b, const LinkConfig& a_to_b, const LinkConfig& b_to_a, const std::string& name) {
    BRDMA_CHECK(!a.is_host || !b.is_host);
    add_way(a, b, a_to_b, name + ".ab");
    add_way(b, a, b_to_a, name + ".ba");
    up_.push_back(true);
    return static_cast<std::uint32_t>(up_.size() - 1);
  }

  [[nodiscard]] std::uint32_t router_count() const { return static_cast<std::uint32_t>(routers_.size()); }
  [[nodiscard]] std::uint32_t link_count() const { return static_cast<std::uint32_t>(up_.size()); }
  [[nodiscard]] Router& router(std::uint32_t number) { return routers_[number]->router; }
  [[nodiscard]] const SharedBuffer& buffer(std::uint32_t router) const { return routers_[router]->buffer; }
  void configure_buffer(std::uint32_t router, const SharedBufferConfig& memory) {
    routers_[router]->buffer.configure(memory);
  }
  [[nodiscard]] const ProcessorCounters& processing(std::uint32_t router) const {
    return routers_[router]->processor.counters();
  }
  void configure_processor(std::uint32_t router, std::optional<std::uint64_t> packets_per_second) {
    routers_[router]->processor.configure(packets_per_second);
  }
  [[nodiscard]] std::span<const std::uint32_t> ports(std::uint32_t router) const { return routers_[router]->ports; }
  // The direction that leaves `router` by `port`.
  [[nodiscard]] const Way& way(std::uint32_t router, std::uint32_t port) const {
    return *ways_[routers_[router]->ports[port]];
  }
  // Of link `link`: from its first end to its second, and back.
  [[nodiscard]] const Way& direction(std::uint32_t link, bool back) const { return *ways_[2 * link + (back ? 1 : 0)]; }
  [[nodiscard]] const Way& to_host(std::uint32_t host) const { return *ways_[hosts_[host].down]; }
  void configure(std::uint32_t link, bool back, const LinkConfig& config) {
    Way& way = *ways_[2 * link + (back ? 1 : 0)];
    way.link.configure(config);
    way.transparent = is_transparent(config);
  }
  [[nodiscard]] bool is_up(std::uint32_t link) const { return up_[link]; }

  template <class Owner>
  void set_up(std::uint32_t link, bool up, Owner& owner) {
    if (up_[link] == up) return;
    up_[link] = up;
    if (up) return;
    for (const std::uint32_t number : {2 * link, 2 * link + 1}) {
      Way& way = *ways_[number];
      way.cut.lost_in_flight += way.link.pending();
      way.link.clear(owner);
    }
  }
  template <class Owner>
  void clear(Owner& owner) {
    for (auto& way : ways_) way->link.clear(owner);
    for (auto& node : routers_) node->processor.clear([&owner](Packet packet) { owner.discard(std::move(packet)); });
  }

  // A packet from a host.
  template <class Owner>
  void handle_packet(std::uint32_t host, Packet packet, std::uint32_t bytes, Instant now, Owner& owner) {
    owner.at(std::nullopt);
    const std::uint32_t number = hosts_[host].up;
    Way& way = *ways_[number];
    // Nothing to wait for: at the router at once.
    if (up_[number / 2] && way.transparent && way.link.pending() == 0) {
      return process(way.to.number, std::move(packet), now, owner);
    }
    offer(number, std::move(packet), bytes, now, owner);
  }
  // A packet of a router's own.
  template <class Owner>
  void send(std::uint32_t router, Packet packet, Instant now, Owner& owner) {
    route(router, std::move(packet), now, owner);
  }

  // Call before reading queues: removes packets that have left by then.
  void advance(Instant now) {
    for (auto& way : ways_) way->link.advance(now);
  }

  void advance(std::uint32_t router, std::uint32_t port, Instant now) {
    ways_[routers_[router]->ports[port]]->link.advance(now);
  }

  // Moves due packets between routers. Call before a round of polls.
  template <class Owner>
  void handle_timeout(Instant now, Owner& owner) {
    for (bool moved = true; moved;) {
      moved = false;
      for (const std::uint32_t number : inner_) {
        Way& way = *ways_[number];
        if (way.link.pending() == 0) continue;
        owner.at(router_of(way));
        while (auto packet = way.link.poll(now, owner)) {
          moved = true;
          // With its due time: the driver's lateness does not accumulate.
          process(way.to.number, std::move(*packet), way.link.polled_due(), owner);
          owner.at(router_of(way));
        }
      }
      for (std::uint32_t number = 0; number < router_count(); ++number) {
        while (auto done = routers_[number]->processor.poll(now)) {
          moved = true;
          route(number, std::move(done->item), done->at, owner);
        }
      }
    }
  }

  template <class Owner>
  [[nodiscard]] std::optional<Packet> poll(std::uint32_t host, Instant now, Owner& owner) {
    Way& way = *ways_[hosts_[host].down];
    if (way.link.pending() == 0) return std::nullopt;
    owner.at(router_of(way));
    return way.link.poll(now, owner);
  }

  [[nodiscard]] std::optional<Instant> next_timeout() const {
    std::optional<Instant> next;
    for (const auto& way : ways_) {
      if (way->link.pending() == 0) continue;
      if (const auto due = way->link.next_timeout(); due && (!next || *due < *next)) next = due;
    }
    for (const auto& node : routers_) {
      if (const auto due = node->processor.next_timeout(); due && (!next || *due < *next)) next = due;
    }
    return next;
  }

 private:
  struct Node {
    explicit Node(std::uint64_t seed) : router(seed) {}
    Router router;
    SharedBuffer buffer;
    Processor<Packet> processor;
    std::vector<std::uint32_t> ports;  // indices into ways_
  };
  struct HostWays {
    std::uint32_t up = 0, down = 0;
  };

  [[nodiscard]] static std::optional<std::uint32_t> router_of(const Way& way) {
    return way.from.is_host ? std::nullopt : std::optional{way.from.number};
  }

  [[nodiscard]] static bool is_transparent(const LinkConfig& config) {
    return !config.rate && config.delay == Duration{} && config.impairments == ImpairmentConfig{};
  }

  void add_way(End from, End to, const LinkConfig& config, const std::string& name) {
    const auto number = static_cast<std::uint32_t>(ways_.size());
    ways_.push_back(
        std::make_unique<Way>(Way{number, from, to, Link<Packet>{config, seed_, name}, {}, is_transparent(config)}));
    if (from.is_host) {
      hosts_[from.number].up = number;
    } else {
      ways_.back()->link.share(&routers_[from.number]->buffer);
      routers_[from.number]->ports.push_back(number);
    }
    if (to.is_host) {
      hosts_[to.number].down = number;
    } else {
      inner_.push_back(number);
    }
  }

  template <class Owner>
  void offer(std::uint32_t number, Packet packet, std::uint32_t bytes, Instant now, Owner& owner) {
    Way& way = *ways_[number];
    if (!up_[number / 2]) {
      ++way.cut.refused;
      return owner.discard(std::move(packet));
    }
    const bool judged = owner.judged(packet);
    way.link.handle_packet(std::move(packet), bytes, judged, now, owner);
  }

  // A packet has come. The router may drop it, as a full queue does.
  template <class Owner>
  void process(std::uint32_t number, Packet packet, Instant now, Owner& owner) {
    auto& processor = routers_[number]->processor;
    if (processor.passes_at_once()) return route(number, std::move(packet), now, owner);
    if (processor.accept(packet, now)) return;
    owner.at(number);
    if constexpr (requires { owner.dropped(packet, Duration{}, now); }) {
      owner.dropped(packet, processor.drain(now), now);
    }
    owner.discard(std::move(packet));
  }

  template <class Owner>
  void route(std::uint32_t number, Packet packet, Instant now, Owner& owner) {
    Node& node = *routers_[number];
    owner.at(number);
    const std::optional<Routable> routable = owner.look(packet);
    if (!routable) {
      node.router.count_not_ip();
      return owner.discard(std::move(packet));
    }
    const auto port = node.router.route(routable->flow, routable->hops_left);
    if (!port) return owner.discard(std::move(packet));
    owner.spend_hop(packet);
    if (node.buffer.on()) {  // memory of departed packets is free
      for (const std::uint32_t each : node.ports) ways_[each]->link.advance(now);
    }
    if constexpr (requires { owner.routed(packet, *routable, number, *port, now); }) {
      owner.routed(packet, *routable, number, *port, now);
    }
    offer(node.ports[*port], std::move(packet), routable->bytes, now, owner);
  }

  std::uint64_t seed_;
  std::vector<std::unique_ptr<Node>> routers_;
  std::vector<HostWays> hosts_;
  std::vector<std::unique_ptr<Way>> ways_;  // two a link
  std::vector<bool> up_;                    // links
  std::vector<std::uint32_t> inner_;        // those that end at a router
};

}  // namespace brdma::fabric
