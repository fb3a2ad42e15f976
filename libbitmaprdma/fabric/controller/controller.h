// fabric/controller/controller.h - a controller of a wide-area network without its sockets (design WT-11 to WT-13):
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
#include <vector>

#include "base/units.h"
#include "fabric/controller/change_damper.h"
#include "fabric/controller/control_packet_pace.h"
#include "fabric/controller/host_directory.h"
#include "fabric/controller/link_health.h"
#include "fabric/controller/link_states.h"
#include "fabric/controller/member_messages.h"
#include "fabric/controller/network_map.h"
#include "fabric/controller/pending_installs.h"
#include "fabric/controller/port_numbers.h"
#include "fabric/controller/route_choice.h"

namespace brdma::fabric::controller {

struct Settings {
  LinkLimits links;
  DampingLimits damping;
  std::uint32_t congested_links_max = 2;     // the threshold of design WT-12
  std::uint32_t improvement_permille = 250;  // by which a path must be cheaper to justify a change
  std::uint32_t equal_permille = 50;         // by which equal-cost paths may differ
  Duration pace = 250_ms;                    // between improvements of different prefixes
  Duration settle = 2_s;                     // after the start
  Duration acknowledgement_max = 3_s;        // a switch that takes longer is cut off
  Duration control_interval = 500_ms;        // between control packets to a host for one destination
};

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
  // Epochs of a switch end far above: what it reports leaves room for all orders to come.
  static constexpr std::uint64_t kEpochMax = ~std::uint64_t{0} >> 1;
  static constexpr std::size_t kHostsMax = HostDirectory::kHostsMax, kAddressesMax = HostDirectory::kAddressesMax;

  // `configured`: the network as known before any hello.
  Controller(NetworkMap configured, const Settings& settings, Instant now);

  // False: refused; nothing has changed. A switch is refused without a name or a place, with an epoch above kEpochMax,
  // and with the number of another switch.
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
    std::uint64_t epoch = 0;  // the highest that it has reported or was sent
    std::map<PrefixIndex, NextLinks> installed;
    std::vector<PortRoute> unresolved;  // reported, to prefixes that no switch has announced
  };
  [[nodiscard]] const NetworkMap& map() const { return map_; }
  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] const SwitchState& state(SwitchIndex index) const { return switches_[index]; }
  [[nodiscard]] const LinkHealth& health(LinkIndex link) const { return links_.health(link); }
  [[nodiscard]] bool usable(LinkIndex link) const { return links_.usable(link); }  // in both directions
  [[nodiscard]] bool changing(PrefixIndex prefix) const { return prefixes_[prefix].change.has_value(); }
  [[nodiscard]] const std::map<std::string, HostHello>& hosts() const { return hosts_.hosts(); }
  [[nodiscard]] std::uint32_t congested_links() const { return links_.congested(); }
  [[nodiscard]] bool recovering() const { return recovery_end_.has_value(); }
  [[nodiscard]] std::uint64_t epoch() const;  // the highest of all switches
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
  void notify_senders(LinkIndex link, const std::vector<FlowEnds>& flows, Instant now);
  void lower(const FlowEnds& flow, Instant now);

  // controller_routes.cc
  void decide(Instant now);
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
  LinkStates links_;
  std::vector<PrefixState> prefixes_;
  PortNumbers numbers_;
  HostDirectory hosts_;
  ControlPacketPace control_packet_pace_;
  PendingInstalls installs_;
  std::deque<Order> orders_;
  std::optional<Instant> recovery_end_;  // nothing: it is over
  bool dirty_ = true;                    // routes must be computed again
  std::optional<Instant> look_at_, paced_until_;
  Counters counters_;
};

}  // namespace brdma::fabric::controller
