// fabric/controller/controller.h - a controller of a wide-area network without its sockets (spec 3: flow control):
// members, state of links, routes, and requests to senders to lower their rate.
//
// - Feedback reports the state of links. Congested ones are counted. Up to `congested_links_max`, routes move away from
// them; above, senders are asked to lower their rate. Passive feedback, which a sender passes on because *it* counted
// few, may always move the routes of its destination. A sender is also asked when there is no better path.
// - Routes of a prefix are those of route_choice.h. They change when a switch has no path (a repair, at once). They
// also change to avoid congested links, or when the path gets cheaper by `improvement_permille` (damped:
// change_damper.h, and one prefix in `pace`, so that the next reports show the effect).
// - A change is installed from the destination outwards: a switch gets its new routes after all switches behind it have
// theirs. Packets of unchanged switches follow the old path until they meet a changed switch; from there on all have
// changed. So there is no loop at any time, if there was none before. A switch without session keeps its routes; they
// are part of the calculation, and are queried when it returns.
// - A new controller begins with the routes that switches report as installed. It changes nothing until all configured
// switches have come, or `settle` is over.
//
// Calls: handle_* with a time that never goes back, then poll() until it is empty, then a timer at next_timeout().
// Inconsistent messages of members are ignored and counted (Counters).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/ip_address.h"
#include "base/units.h"
#include "fabric/controller/change_damper.h"
#include "fabric/controller/link_health.h"
#include "fabric/controller/network_map.h"
#include "fabric/controller/route_choice.h"

namespace brdma::fabric::controller {

struct Settings {
  LinkLimits links;
  DampingLimits damping;
  std::uint32_t congested_links_max = 2;     // the threshold of spec 3
  std::uint32_t improvement_permille = 250;  // by which a path must be cheaper to justify a change
  std::uint32_t equal_permille = 50;         // by which equal-cost paths may differ
  Duration pace = 250_ms;                    // between improvements of different prefixes
  Duration settle = 2_s;                     // after the start
  Duration acknowledgement_max = 3_s;        // a switch that takes longer is cut off
  Duration control_interval = 500_ms;        // between control packets to a host for one destination
};

struct PortRoute {
  Prefix prefix;
  std::vector<std::string> ports;
};
struct PortPeer {  // a switch's report of a port's other end
  std::string port, peer_switch, peer_port;
  LinkFacts facts;
  std::uint32_t number = 0;  // names the port in passive feedback
};
struct SwitchHello {
  std::string id;
  std::uint64_t epoch = 0;  // of the last routes installed
  std::vector<PortPeer> links;
  std::vector<Prefix> prefixes;  // behind it
  std::vector<PortRoute> routes;
  std::uint32_t number = 0;  // names the switch in passive feedback
};
struct HostHello {
  std::string id;
  std::vector<IpAddress> addresses;
};
struct PortReport {
  std::string port;
  LinkReport report;
};
struct FlowEnds {
  IpAddress source, destination;
};
struct HopReport {  // of passive feedback: docs/wire.md#link-state
  std::uint32_t switch_number = 0, port_number = 0;
  LinkReport report;
};

// Actions for the driver.
struct InstallRoutes {
  std::string switch_id;
  std::uint64_t epoch = 0;
  std::vector<PortRoute> routes;
};
struct LowerDestination {  // spec 3's control packet
  std::string host_id;
  IpAddress destination;
  std::uint32_t congested_links = 0;
};
struct CutOff {  // end its session: it does not answer
  std::string switch_id;
};
using Order = std::variant<InstallRoutes, LowerDestination, CutOff>;

// X(member)
#define BRDMA_CONTROLLER_COUNTERS(X)                                             \
  X(switch_hellos)                                                               \
  X(host_hellos)                                                                 \
  X(hellos_refused) /* no place, or against what is known */                     \
  X(members_gone)                                                                \
  X(link_reports)                                                                \
  X(active_feedback)                                                             \
  X(passive_feedback)                                                            \
  X(unknown_ports)     /* reports of ports that lead to no switch */             \
  X(unknown_members)   /* said by who is not there */                            \
  X(unknown_prefixes)  /* routes reported, or destinations, that are not ours */ \
  X(repairs)           /* route changes of a prefix because there was no way */  \
  X(improvements)      /* ... because there was a better one */                  \
  X(improvements_held) /* had to wait: damping */                                \
  X(changes_done)                                                                \
  X(changes_abandoned) /* a switch left or refused, or the network changed */    \
  X(installs_sent)     /* orders to switches */                                  \
  X(installs_done)                                                               \
  X(installs_refused)                                                            \
  X(installs_unanswered) /* the switch was cut off, or left */                   \
  X(acknowledgements_stale)                                                      \
  X(control_packets)                                                             \
  X(control_packets_limited) /* sent to the host just before */                  \
  X(senders_unknown)         /* no host with that address is here */

struct Counters {
#define BRDMA_X(member) std::uint64_t member = 0;
  BRDMA_CONTROLLER_COUNTERS(BRDMA_X)
#undef BRDMA_X
};

class Controller {
 public:
  static constexpr std::size_t kHostsMax = 4096, kAddressesMax = 64;

  // `configured`: the network as known before any hello.
  Controller(NetworkMap configured, const Settings& settings, Instant now);

  // False: refused; nothing has changed.
  bool handle_switch(const SwitchHello& hello, Instant now);
  bool handle_host(const HostHello& hello, Instant now);
  void handle_switch_gone(const std::string& id, Instant now);
  void handle_host_gone(const std::string& id, Instant now);
  void handle_links(const std::string& switch_id, const std::vector<PortReport>& reports, Instant now);
  // A port beyond its switch's limits, and flows that pass it.
  void handle_active(const std::string& switch_id, const PortReport& report, const std::vector<FlowEnds>& flows,
                     Instant now);
  void handle_passive(const std::string& host_id, const FlowEnds& flow, const std::vector<HopReport>& hops,
                      Instant now);
  void handle_acknowledgement(const std::string& switch_id, std::uint64_t epoch, bool installed, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;
  [[nodiscard]] std::optional<Order> poll();

  // For display.
  struct SwitchState {
    bool connected = false;
    std::map<PrefixIndex, NextLinks> installed;
    std::vector<PortRoute> unresolved;  // reported, to prefixes that no switch has announced
  };
  [[nodiscard]] const NetworkMap& map() const { return map_; }
  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] const SwitchState& state(SwitchIndex index) const { return switches_[index]; }
  [[nodiscard]] const LinkHealth& health(LinkIndex link) const { return health_[link]; }
  [[nodiscard]] bool usable(LinkIndex link) const;  // in both directions
  [[nodiscard]] bool changing(PrefixIndex prefix) const { return prefixes_[prefix].change.has_value(); }
  [[nodiscard]] const std::map<std::string, HostHello>& hosts() const { return hosts_; }
  [[nodiscard]] std::uint32_t congested_links() const;
  [[nodiscard]] bool recovering() const { return recovering_; }
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  struct Change {
    // Of each switch that was known when the change began: no goal leads to a later one, which gets its routes in the
    // next change.
    std::vector<NextLinks> goal;
    std::set<SwitchIndex> to_update;  // not sent yet
    std::set<SwitchIndex> waiting;    // sent, not acknowledged
    bool abandoned = false;           // ends when no acknowledgement is awaited

    // From the destination outwards: for each switch, whether packets from there on meet only the goal's routes. A
    // switch whose routes were right before is not enough: its next hops may not have theirs yet.
    [[nodiscard]] std::vector<bool> complete(const NetworkMap& map, PrefixIndex prefix) const;
    // The switches that may get their routes now; from here on they are waiting.
    [[nodiscard]] std::vector<SwitchIndex> take_ready(const NetworkMap& map, PrefixIndex prefix);
  };
  struct PrefixState {
    ChangeDamper damper;
    std::optional<Change> change;
    bool asked = false;   // by passive feedback: may change with any number of congested links
    bool better = false;  // a better path exists and waits for its time
  };
  struct Install {
    SwitchIndex to = 0;
    std::vector<PrefixIndex> prefixes;
    Instant deadline;
  };
  enum class Verdict : std::uint8_t { kStay, kRepair, kImprove };
  struct Improvement {
    PrefixIndex prefix = 0;
    std::uint32_t gain = 0;
    Routes routes;
  };

  // controller.cc
  void grow();
  void take_routes(SwitchIndex index, const std::vector<PortRoute>& routes);
  void report(SwitchIndex from, const PortReport& report, Instant now, bool over_limits = false);
  void leave(SwitchIndex index);
  void cut_off_silent(Instant now);
  void tell_senders(LinkIndex link, const std::vector<FlowEnds>& flows, Instant now);
  void lower(const FlowEnds& flow, Instant now);

  // controller_routes.cc
  void decide(Instant now);
  void update_costs();
  [[nodiscard]] Routes desired_routes(PrefixIndex prefix) const;
  [[nodiscard]] Routes cost_of(PrefixIndex prefix, const std::vector<const NextLinks*>& ways) const;
  [[nodiscard]] Verdict judge(PrefixIndex prefix, const Routes& desired, std::uint32_t& gain) const;
  void improve(Improvement best, bool others, Instant now);
  void begin_change(PrefixIndex prefix, Routes routes, Instant now);
  void advance(Instant now);
  void abandon(PrefixIndex prefix);
  void settle_change(PrefixIndex prefix);

  NetworkMap map_;
  Settings settings_;
  std::vector<SwitchState> switches_;
  std::vector<LinkHealth> health_;
  std::vector<PrefixState> prefixes_;
  std::map<std::uint32_t, SwitchIndex> switch_numbers_;
  std::map<std::pair<SwitchIndex, std::uint32_t>, std::string> port_numbers_;
  std::map<std::string, HostHello> hosts_;
  std::map<IpAddress, std::string> host_of_;
  std::map<std::pair<std::string, IpAddress>, Instant> told_;  // control packets
  std::map<std::uint64_t, Install> installs_;                  // by epoch
  std::deque<Order> orders_;
  std::uint64_t epoch_ = 0;
  Instant recovery_end_;
  bool recovering_ = true;
  bool dirty_ = true;  // routes must be computed again
  std::optional<Instant> look_at_, paced_until_;
  std::vector<std::optional<Cost>> costs_, idle_costs_;  // as of the last decide(): with load and without
  Counters counters_;
};

}  // namespace brdma::fabric::controller
