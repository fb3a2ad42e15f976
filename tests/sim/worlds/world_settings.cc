#include "worlds/world_settings.h"

#include <algorithm>

#include "base/check.h"
#include "fabric/marking_text.h"

namespace brdma::test {
namespace {

const char* name_of(RecoveryMode mode) {
  constexpr const char* kNames[] = {"bitmap", "standard", "gobackn", "selective", "wan", "wan_ffm"};
  return kNames[static_cast<std::size_t>(mode)];
}
const char* name_of(CongestionControl control) {
  constexpr const char* kNames[] = {"window", "timely", "dcqcn", "none", "paced", "both"};
  return kNames[static_cast<std::size_t>(control)];
}
std::string percent(std::uint32_t ppm) {
  return std::to_string(ppm / 10'000) + "." + std::to_string(ppm / 1000 % 10) + " %";
}
std::string us(Duration duration) { return std::to_string(duration.ns() / 1000) + " us"; }
std::string text_of(const Span& span) { return "at " + us(span.from) + " for " + us(span.length) + "\n"; }

std::string text_of(const sim::HostConfig& host) {
  const EngineConfig& engine = host.engine;
  const RecoveryConfig& r = engine.recovery;
  return host.name + ": " + name_of(r.mode) + ", window " + std::to_string(r.window_packets) + ", standard window " +
         std::to_string(r.standard_window_packets) + ", batches of " + std::to_string(engine.segments_max) +
         ", credit " + std::to_string(engine.receive_packets) + "/" + std::to_string(engine.receive_bytes) +
         ", socket " + std::to_string(host.socket_packets) + "/" + std::to_string(host.socket_bytes) + ", hold " +
         std::to_string(r.hold_bytes_max) + ", G " + std::to_string(r.granularity) + ", step " +
         std::to_string(r.slide_step) + ", state " + std::to_string(r.state_bytes_max) + ", ack after " +
         std::to_string(r.ack_packets) + ", depth " + std::to_string(r.depth_max) + ", age " + us(r.age_max) +
         ", paths " + std::to_string(engine.source_ports.size()) + "/" + std::to_string(r.path_bitmaps) + " sprayed " +
         std::to_string(static_cast<int>(r.spraying)) + ", large from " +
         std::to_string(engine.transfer.threshold_bytes) + " by " + std::to_string(engine.transfer.segment_bytes) +
         ", escape " + std::to_string(engine.transfer.escape_bytes_max) + "/" + us(engine.transfer.escape_time) +
         ", control " + name_of(r.congestion.control) + " from " + std::to_string(r.congestion.rate_first_mbps) +
         " of " + std::to_string(r.congestion.rate_min_mbps) + ".." + std::to_string(r.congestion.rate_max_mbps) +
         " Mbit/s, ECN " + std::to_string(static_cast<int>(r.congestion.ecn)) + ", EDN " + (r.edn ? "applied" : "off") +
         ", pause " + us(r.edn_pause_max) + ", fetched from " +
         std::to_string(engine.transfer.local ? engine.transfer.local_threshold_bytes : 0) + "\n";
}

std::string text_of(const fabric::ImpairmentConfig& f) {
  return "loss " + percent(f.loss_ppm) + ", bursts " + percent(f.burst_loss_ppm) + " of " +
         std::to_string(f.burst_length_mean) + ", reorder " + percent(f.reorder_ppm) + " depth " +
         std::to_string(f.reorder_depth) + ", duplicate " + percent(f.duplicate_ppm) + ", corrupt " +
         percent(f.corrupt_ppm) + ", jitter " + us(f.jitter) + "\n";
}

std::string text_of(const EndpointConfig& e) {
  return "first PSN " + std::to_string(e.first_psn.value()) + ", SQ " + std::to_string(e.send_wr_max) + ", RQ " +
         std::to_string(e.receive_wr_max) + ", rd_atomic " + std::to_string(e.rd_atomic_max) + ", timeout " +
         std::to_string(e.timeout) + "\n";
}

std::string text_of(const SwitchSettings& switches) {
  constexpr const char* kForms[] = {"off", "ICMP", "control packets"};
  const fabric::DropNotifier::Config& edn = switches.edn;
  std::string text = std::string{"switches: EDN "} + kForms[static_cast<std::size_t>(edn.form)] + ", flows " +
                     std::to_string(edn.table.flows_max) + ", silence " + us(edn.table.silence) + ", " +
                     std::to_string(edn.notices_per_second) + "/s in bursts of " + std::to_string(edn.burst);
  if (!switches.translation) return text + "\n";
  return text + "; marks become up to " + us(switches.translation->increment.longest) + " by rule " +
         std::to_string(static_cast<int>(switches.translation->increment.rule)) + ", window " +
         std::to_string(switches.translation->increment.window) + ", flows " +
         std::to_string(switches.translation->flows_max) + "\n";
}

std::string text_of(const WorldSettings& world, const LinkSettings& link) {
  const std::string a = world.hosts[link.hosts[0]].name, b = world.hosts[link.hosts[1]].name;
  return "link " + a + b + ": delay " + us(link.clean.delay) + ", rate " +
         (link.clean.rate ? std::to_string(link.clean.rate->bps() / 1'000'000) + " Mbit/s" : "none") + ", queue " +
         std::to_string(link.clean.queue_bytes) + ", paths " + std::to_string(link.clean.paths) + " skew " +
         us(link.clean.skew) + (link.clean.marking ? ", marks " + fabric::print_marking(*link.clean.marking) : "") +
         "\n   " + a + " sends into " + text_of(link.faulty[0].impairments) + "   " + b + " sends into " +
         text_of(link.faulty[1].impairments);
}

std::string text_of(const WorldSettings& world, const ConnectionSettings& c) {
  const std::string a = world.hosts[c.hosts[0]].name, b = world.hosts[c.hosts[1]].name;
  return "connection " + a + b + ": MTU " + std::to_string(mtu_bytes(c.endpoints[0].mtu)) +
         (c.ends_in_error ? ", ends in error" : "") + "\n   " + a + " " + text_of(c.endpoints[0]) + "   " + b + " " +
         text_of(c.endpoints[1]);
}

std::string text_of(const WorldSettings& world, const GroupSettings& g) {
  constexpr const char* kTypes[] = {"RC", "UC", "UD"};
  const std::size_t type = g.type == QpType::kRc ? 0 : g.type == QpType::kUc ? 1 : 2;
  std::string text = std::string{"group: "} + kTypes[type] + (g.shared ? ", shared receives" : "") +
                     (g.windows ? ", windows" : "") + ", MTU " + std::to_string(mtu_bytes(g.mtu)) + ", " +
                     std::to_string(g.messages) + " messages of up to " + std::to_string(g.bytes_max) + ", " +
                     std::to_string(g.receives) + " receives, to " + world.hosts[g.receiver].name + " from";
  for (const std::size_t sender : g.senders) text += " " + world.hosts[sender].name;
  return text + "\n";
}

std::string text_of(const WorldSettings& world, const EventSettings& events) {
  std::string text = "faults for " + us(events.faults_last) + "\n";
  for (const Absence& e : events.absences) text += "  " + world.hosts[e.host].name + " has no core " + text_of(e);
  for (const Silence& e : events.silences) {
    const Sides<std::size_t>& hosts = world.links[e.link].hosts;
    text += "  link " + world.hosts[hosts[0]].name + world.hosts[hosts[1]].name +
            (e.path ? " path " + std::to_string(*e.path) : std::string{}) + " is silent " + text_of(e);
  }
  for (const PollingBreak& e : events.polling_breaks) {
    text += "  side " + std::to_string(e.side) + " of connection " + std::to_string(e.connection) + " looks away " +
            text_of(e);
  }
  if (events.crash) text += "  " + world.hosts[events.crash->host].name + " crashes " + text_of(*events.crash);
  return text;
}

}  // namespace

WorldSettings draw_world(std::uint64_t seed) {
  WorldSettings world;
  const auto draw_from = [&](const char* name, void (*draw)(WorldSettings&, Random&)) {
    Random random{seed, name};
    draw(world, random);
  };
  draw_from("hosts", draw_hosts);
  draw_from("machine", draw_machine);
  draw_from("connections", draw_connections);
  draw_from("network", draw_network);
  draw_from("switches", draw_switches);
  draw_from("events", draw_events);
  draw_from("endpoints", draw_endpoints);
  draw_from("groups", draw_groups);
  return world;
}

bool WorldSettings::agree(const ConnectionSettings& connection) const {
  return negotiates(hosts[connection.hosts[0]].engine.recovery.mode) &&
         negotiates(hosts[connection.hosts[1]].engine.recovery.mode);
}
bool WorldSettings::all_agree() const {
  return std::all_of(connections.begin(), connections.end(), [this](const auto& c) { return agree(c); });
}
bool WorldSettings::all_in(RecoveryMode mode) const {
  return std::all_of(hosts.begin(), hosts.end(), [mode](const auto& h) { return h.engine.recovery.mode == mode; });
}
bool WorldSettings::any_in(RecoveryMode mode) const {
  return std::any_of(hosts.begin(), hosts.end(), [mode](const auto& h) { return h.engine.recovery.mode == mode; });
}

bool WorldSettings::corrupts() const {
  return std::any_of(links.begin(), links.end(), [](const LinkSettings& link) {
    return link.faulty[0].impairments.corrupt_ppm != 0 || link.faulty[1].impairments.corrupt_ppm != 0;
  });
}

bool WorldSettings::faultless() const {
  return events.absences.empty() && events.silences.empty() && !events.crash &&
         std::all_of(links.begin(), links.end(), [](const LinkSettings& link) {
           return link.faulty[0] == link.clean && link.faulty[1] == link.clean;
         });
}

bool WorldSettings::near() const {
  constexpr Duration kFirstProbe = 1_ms;    // qp/timers/timer_lengths.h: 2 ms, with some work on the way
  constexpr std::int64_t kAcrossTimes = 4;  // qp/paths/paths_receive.cc
  Duration tolerance = kFirstProbe;
  for (const sim::HostConfig& host : hosts) {
    const RecoveryConfig& recovery = host.engine.recovery;
    tolerance = std::min({tolerance, recovery.age_max * kAcrossTimes, recovery.stall_max * kAcrossTimes});
  }
  return std::all_of(links.begin(), links.end(), [&](const LinkSettings& link) {
    return link.round_trip() < kFirstProbe && (link.clean.paths == 1 || link.clean.skew < tolerance);
  });
}

const LinkSettings* WorldSettings::link_between(std::size_t a, std::size_t b) const {
  const auto found =
      std::find_if(links.begin(), links.end(), [&](const LinkSettings& link) { return link.joins(a, b); });
  return found == links.end() ? nullptr : &*found;
}
const LinkSettings& WorldSettings::link_of(const ConnectionSettings& connection) const {
  const LinkSettings* const link = link_between(connection.hosts[0], connection.hosts[1]);
  BRDMA_CHECK(link != nullptr);
  return *link;
}

std::string WorldSettings::text() const {
  std::string text = one_machine ? "hosts that fetch from each other\n" : "";
  for (const sim::HostConfig& host : hosts) text += text_of(host);
  for (const LinkSettings& link : links) text += text_of(*this, link);
  text += text_of(switches);
  for (const ConnectionSettings& connection : connections) text += text_of(*this, connection);
  for (const ConnectionSettings& connection : after_restart) text += "after restart: " + text_of(*this, connection);
  for (const GroupSettings& group : groups) text += text_of(*this, group);
  return text + text_of(*this, events);
}

}  // namespace brdma::test
