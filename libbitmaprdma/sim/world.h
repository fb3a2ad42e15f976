// sim/world.h - a deterministic world: hosts with engines, joined by faulty links (fabric/link.h: the same code that
// the lab's switch runs), in virtual time. One seed replays everything.
//
// Order at one instant: arriving packets (in the order of the links' making), then scheduled actions (in the order of
// scheduling), then hosts (in order). Each host receives the packets in its socket, fires its timeouts and sends until
// it has nothing more to send. The link judges every packet of a batch singly.
// The cost of an instant grows with what happens at it, and with the logarithm of the number of links; and with that of
// hosts, but only after run_only_due() (station_list.h).
//
// The user makes hosts and links, posts work to the hosts' engines, calls touch() where it did, and runs the world.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "fabric/link.h"
#include "fabric/routing/path_map.h"
#include "fabric/switch/drop_notifier.h"
#include "fabric/switch/rtt_translator.h"
#include "sim/event_queue.h"
#include "sim/host.h"
#include "sim/packet_owner.h"
#include "sim/packet_pool.h"
#include "sim/routed_network.h"
#include "sim/station_list.h"
#include "sim/switched_network.h"
#include "sim/trace_recorder.h"
#include "sim/wake_list.h"

namespace brdma::sim {

class World {
 public:
  explicit World(std::uint64_t seed) : seed_(seed) {}
  ~World();

  Host& add_host(const HostConfig& config);
  // Another kind of host. It needs a routed network.
  Station& add_station(std::unique_ptr<Station> station) { return stations_.add(std::move(station)); }
  void run_only_due() { stations_.run_only_due(); }
  // Both directions; a link's random streams are made from the seed and the hosts' numbers.
  void join(Host& a, Host& b, const fabric::LinkConfig& a_to_b, const fabric::LinkConfig& b_to_a);
  // Instead of links: all hosts made so far are behind the ports of one switch, in their order.
  SwitchedNetwork& switch_hosts(const fabric::NetworkConfig& config);
  // Or behind routers, to be made and joined.
  RoutedNetwork& route_hosts();
  // From now on drops on links are notified to the sender (design DN-4), as by a switch right behind it: one table a
  // direction. Notifications travel back over the link, without its faults.
  void notify_drops(const fabric::DropNotifier::Config& config);
  [[nodiscard]] const fabric::DropNotifier* drop_notifier(const Host& from, const Host& to) const;
  // From now on the switch between two hosts turns the marks of its queues into round-trip time (ER-14). Without it a
  // mark is set on packets that can carry one (ECT). Again, while traffic runs: other increments, another rewrite.
  void translate_marks(const fabric::RttTranslator::Config& config);
  [[nodiscard]] const fabric::RttTranslator* translator(const Host& a, const Host& b) const;
  // From now on; `from` or both directions.
  void configure_link(const Host& from, const Host& to, const fabric::LinkConfig& config);
  void configure_links(const fabric::LinkConfig& config);
  [[nodiscard]] fabric::LinkCounters link_counters(const Host& from, const Host& to) const;
  [[nodiscard]] fabric::LinkCounters path_counters(const Host& from, const Host& to, std::size_t path) const;

  // Sees every packet before its link; false: the packet is lost. For tests that target one packet.
  using Filter = std::function<bool(const Host& from, const Packet& packet)>;
  void set_filter(Filter filter) { filter_ = std::move(filter); }

  // Must live as long as the world runs.
  void add_observer(Observer& observer) { observers_.push_back(&observer); }

  void at(Instant when, EventQueue::Action action) { actions_.at(when, std::move(action)); }
  void pause(Host& host, Duration how_long) { host.pause_until(now_ + how_long); }
  void stop(Host& host, Duration how_long) { host.stop_until(now_ + how_long); }  // its machine reports it as stopped

  [[nodiscard]] Instant now() const { return now_; }
  // The stations that have run at the last instant: for `done` of run_until().
  [[nodiscard]] const std::vector<Station*>& ran() const { return stations_.ran(); }
  [[nodiscard]] TraceRecorder& trace() { return trace_; }
  [[nodiscard]] PacketPool& packets() { return pool_; }

  // Runs until `done` holds (checked after each instant), nothing can happen any more, or `at_most` has passed. True:
  // `done` holds.
  bool run_until(const std::function<bool()>& done, Duration at_most);
  // True: no packet in flight, no timer armed, no action left.
  bool run_until_idle(Duration at_most);
  void run_for(Duration how_long);

 private:
  struct Connection {
    const Host* from;
    Host* to;
    std::unique_ptr<fabric::Link<PacketIndex>> link;
    std::unique_ptr<fabric::PathMap> paths;  // by UDP source port
    std::unique_ptr<fabric::DropNotifier> notifier{};
    fabric::RttTranslator* translator = nullptr;  // of both directions
  };
  struct Links {
    std::vector<Connection> all;
    std::unordered_map<const Host*, std::vector<std::uint32_t>> by_sender;
    WakeList wakes;
    bool notify = false;  // some have a notifier
    Instant polled;       // the last time
  };
  [[nodiscard]] std::optional<Instant> next_instant();
  // Runs the next instant if it is not after `deadline`.
  bool step(Instant deadline);
  void deliver();
  void run_hosts();
  void arrange(Connection& connection);  // sets the time of its next work
  void send(const Station& from, PacketIndex packet);
  void enter_link(Connection& connection, PacketIndex packet);
  [[nodiscard]] PacketOwner owner(const Connection& connection);
  void send_notices();
  void send_notice(const Connection& about, const fabric::DropNotice& notice);
  [[nodiscard]] Connection& connection(const Host& from, const Host& to);

  std::uint64_t seed_;
  Instant now_;
  PacketPool pool_;
  TraceRecorder trace_;
  EventQueue actions_;
  Filter filter_;
  std::vector<Observer*> observers_;
  std::vector<Host*> hosts_;  // those of the stations that have an engine
  StationList stations_;
  Links links_;
  std::vector<std::unique_ptr<fabric::RttTranslator>> translators_;
  std::unique_ptr<SwitchedNetwork> switched_;
  std::unique_ptr<RoutedNetwork> routed_;
  std::uint32_t steps_at_now_ = 0;
};

}  // namespace brdma::sim
