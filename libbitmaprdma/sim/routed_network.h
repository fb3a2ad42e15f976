// sim/routed_network.h - instead of links between hosts: routers (fabric/routing/router.h), joined with hosts and each
// other by links (fabric/link.h). Each hop decrements a packet's hop limit. Among equal-cost paths its flow chooses.
//
//   host -> link (its own) -> router -> link (of the router: notifies of drops, marks, translates) -> router or host
//
// Compare fabric/routing/routed_fabric.h, which the lab's switch runs: it moves packets of its owner's type between
// numbered ports, and the owner implements a router's work. Here routers belong to a world, which passes packets to
// hosts and engines at their instant. Routing, links, queues, agents are the same code in both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "fabric/link.h"
#include "fabric/processor.h"
#include "fabric/routing/router.h"
#include "fabric/switch/drop_notifier.h"
#include "fabric/switch/ecn_marks.h"
#include "fabric/switch/link_state_agent.h"
#include "fabric/switch/rtt_translator.h"
#include "fabric/switch/shared_buffer.h"
#include "sim/host.h"
#include "sim/packet_owner.h"
#include "sim/packet_pool.h"
#include "sim/station.h"
#include "sim/wake_list.h"

namespace brdma::sim {

// Its ports are the links that leave it, in the order of their making.
struct RouterNode {
  RouterNode(const fabric::SharedBufferConfig& memory, std::uint64_t seed) : router(seed) { buffer.configure(memory); }
  fabric::Router router;
  fabric::SharedBuffer buffer;
  std::vector<std::size_t> ports;  // numbers of the network's links
  std::unique_ptr<fabric::DropNotifier> notifier{};
  std::unique_ptr<fabric::RttTranslator> translator{};
  std::unique_ptr<fabric::LinkStateAgent> agent{};
  fabric::Processor<PacketIndex> processor{};  // of packets that come to it; not bounded: they pass at once
  fabric::EcnMarks marks;
  std::vector<Packet> frames_dropped{};  // of models, not reported yet
  std::uint32_t number = 0;              // in the order of making
  bool is_marked = false;                // it may have something to report
};

class RoutedNetwork {
 public:
  RoutedNetwork(PacketPool& pool, std::uint64_t seed) : pool_(pool), seed_(seed) {}
  ~RoutedNetwork();
  RoutedNetwork(const RoutedNetwork&) = delete;
  RoutedNetwork& operator=(const RoutedNetwork&) = delete;

  // Its queues share `memory`; none: each has its own.
  RouterNode& add_router(const fabric::SharedBufferConfig& memory = {});
  // The router has a route to the host from now on; other routers need add_route().
  void join(Station& host, RouterNode& router, const fabric::LinkConfig& up, const fabric::LinkConfig& down);
  void join(RouterNode& a, RouterNode& b, const fabric::LinkConfig& a_to_b, const fabric::LinkConfig& b_to_a);
  // Packets for `prefix` leave `router` by the links to `next`, each flow by one of them.
  void add_route(RouterNode& router, const fabric::Prefix& prefix, const std::vector<RouterNode*>& next);

  // From now on, by all routers: drops on their links are reported (design DN-4), their marks become round-trip time
  // (design ER-14).
  void notify_drops(const fabric::DropNotifier::Config& config);
  void translate_marks(const fabric::RttTranslator::Config& config);
  // From now on, by all routers made and joined so far: they answer passing link-state inquiries and report congested
  // ports (design WT-7, WT-9) to `on_report`. Switch ids count from 1, in the order of making.
  using ReportHandler = std::function<void(const RouterNode& router, const fabric::ActiveFeedback& report)>;
  void answer_inquiries(const fabric::LinkStateAgent::Config& config, ReportHandler on_report = {});

  // Makes a notification of a dropped frame of a model, which the router sends (sim/packet_pool.h); none: it sends
  // none.
  using FrameNotice = std::function<std::optional<PacketIndex>(const Packet& frame, Instant now)>;
  void notify_frame_drops(FrameNotice notice) { frame_notice_ = std::move(notice); }

  [[nodiscard]] const fabric::Link<PacketIndex>& link(const RouterNode& from, const Station& to) const;
  [[nodiscard]] const fabric::Link<PacketIndex>& link(const RouterNode& from, const RouterNode& to) const;

  // While the world runs. A cut drops the packets on the link, in both directions; routes stay. A link's original rate
  // remains its rate for link-state agents when it gets slower.
  void set_up(RouterNode& a, RouterNode& b, bool up);
  void configure(RouterNode& from, RouterNode& to, const fabric::LinkConfig& config, Instant now);
  // Every link: `change` is called with its configuration.
  void configure_all(const std::function<void(fabric::LinkConfig&)>& change);
  // Of all links together.
  [[nodiscard]] fabric::LinkCounters counters() const;
  [[nodiscard]] std::uint64_t lost_by_cut(const RouterNode& from, const RouterNode& to) const;
  // The port towards `to`, in its agent's view.
  [[nodiscard]] fabric::PortFacts facts(const RouterNode& from, const RouterNode& to, Instant now);

  // --- for the world ---
  void send(const Station& from, PacketIndex packet, Instant now);  // a host without a link: lost
  void deliver(Instant now);
  void send_notices(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;

 private:
  struct End {
    Station* host = nullptr;
    RouterNode* router = nullptr;
    friend bool operator==(const End&, const End&) = default;
  };
  struct Way {
    End from, to;
    std::unique_ptr<fabric::Link<PacketIndex>> link;
    std::uint64_t built_rate = 0;  // bytes a second
    bool up = true;
    std::uint64_t lost_by_cut = 0;  // was on it, or came while it was down
  };
  void add_way(End from, End to, const fabric::LinkConfig& config);
  [[nodiscard]] std::uint32_t port_to(const RouterNode& from, const End& to) const;
  [[nodiscard]] Way& way_to(const RouterNode& from, const RouterNode& to);
  [[nodiscard]] const fabric::Link<PacketIndex>& find(const RouterNode& from, const End& to) const;
  void arrange(std::size_t way, Instant now);  // sets the time of its next work
  void enter(std::size_t way, PacketIndex packet, Instant now);
  void poll(std::size_t way, Instant now);
  void advance(std::size_t way, Instant now);      // memory of what has left is free
  void mark(RouterNode& router);                   // it may have something to report
  void schedule(RouterNode& router, Instant now);  // likewise, and its times may have changed
  void report(RouterNode& router, Instant now);
  [[nodiscard]] static std::optional<Instant> next_timeout(const RouterNode& router);
  void process(RouterNode& router, PacketIndex packet, Instant now);
  void route(RouterNode& router, PacketIndex packet, Instant now);
  void pass_agent(RouterNode& router, PacketIndex packet, const fabric::FiveTuple& flow, std::uint32_t port,
                  Instant now);
  void serve_agent(RouterNode& router, Instant now);
  [[nodiscard]] fabric::PortFacts facts(const RouterNode& router, std::uint32_t port, Instant now);
  [[nodiscard]] PacketOwner owner(const Way& way);

  PacketPool& pool_;
  std::uint64_t seed_;
  std::vector<std::unique_ptr<RouterNode>> routers_;
  std::vector<Way> ways_;
  std::unordered_map<const Station*, std::size_t> uplinks_;  // a host's first way
  WakeList way_wakes_, router_wakes_;
  std::vector<std::uint32_t> marked_;  // routers
  ReportHandler on_report_;
  FrameNotice frame_notice_;
  Instant now_;  // of the last deliver()
};

}  // namespace brdma::sim
