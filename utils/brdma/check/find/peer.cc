// Findings about the path to a peer: `brdma check PEER`.

#include <algorithm>
#include <array>
#include <cstdio>

#include "check/finding.h"

namespace brdma::check {
namespace {

constexpr double kLossPercent = 0.05, kReorderPercent = 0.05;
constexpr double kTcpShare = 0.5;  // of TCP's rate below which RDMA counts as slow

// Datagrams were sent both ways, so their counts mean something, also where a later step failed.
const Peer* measured(const Facts& facts) {
  return facts.peer && facts.peer->to_peer.sent > 0 && facts.peer->from_peer.sent > 0 ? &*facts.peer : nullptr;
}

double percent(std::uint32_t part, std::uint32_t of) { return of == 0 ? 0 : 100.0 * part / of; }

double loss(const Direction& way) { return percent(way.sent - std::min(way.sent, way.received), way.sent); }

std::string number(double value, const char* unit) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), value < 10 ? "%.2f%s" : "%.0f%s", value, unit);
  return text.data();
}

Finding blocked(const char* key, const Peer& peer, bool to_peer) {
  return {key, Severity::kError,
          std::string{"UDP port 4791 is closed "} + (to_peer ? "towards " : "from ") + peer.address + ": of " +
              std::to_string((to_peer ? peer.to_peer : peer.from_peer).sent) + " datagrams none arrived",
          std::string{"allow UDP port 4791 in the firewalls between, first in that of "} +
              (to_peer ? "the peer" : "this host")};
}

}  // namespace

Found find_peer_failed(const Facts& facts) {
  if (!facts.peer || facts.peer->error.empty()) return std::nullopt;
  // What the datagrams showed is the reason.
  if (find_path_mtu(facts) || find_port_blocked_to_peer(facts) || find_port_blocked_from_peer(facts))
    return std::nullopt;
  const Peer& peer = *facts.peer;
  std::string next = "run 'brdma check' on both hosts";
  if (peer.error_key == "peer_unreachable")
    next = "run 'brdma check --listen' on " + peer.address + ", and open its TCP port";
  if (peer.error_key == "peer_protocol")
    next = "install the same version on both hosts, and see what listens on that port";
  if (peer.error_key == "peer_no_device")
    next = "use the address of an interface itself, not one that is translated (NAT)";
  return Finding{peer.error_key, Severity::kError, peer.error, next};
}

Found find_peer_version(const Facts& facts) {
  if (!facts.peer || facts.peer->version.empty() || facts.peer->version == facts.library.version) return std::nullopt;
  return Finding{"peer_version", Severity::kWarning,
                 "the peer has version " + facts.peer->version + ", this host " + facts.library.version,
                 "install the same version on both hosts"};
}

Found find_port_blocked_to_peer(const Facts& facts) {
  const Peer* const peer = measured(facts);
  if (peer == nullptr || peer->to_peer.received > 0) return std::nullopt;
  return blocked("port_blocked_to_peer", *peer, true);
}

Found find_port_blocked_from_peer(const Facts& facts) {
  const Peer* const peer = measured(facts);
  if (peer == nullptr || peer->from_peer.received > 0) return std::nullopt;
  return blocked("port_blocked_from_peer", *peer, false);
}

Found find_path_mtu(const Facts& facts) {
  const Peer* const peer = measured(facts);
  if (peer == nullptr) return std::nullopt;
  const std::uint32_t expected = std::min(peer->own_mtu, peer->mtu);
  for (const Direction* way : {&peer->to_peer, &peer->from_peer}) {
    if (way->path_mtu == 0 || way->path_mtu >= expected) continue;
    return Finding{"path_mtu", Severity::kError,
                   std::string{way == &peer->to_peer ? "towards " : "from "} + peer->address + " packets of " +
                       std::to_string(way->path_mtu) + " bytes pass, those of " + std::to_string(expected) +
                       " do not, which the interfaces allow: all full packets are lost",
                   "lower the MTU of both interfaces to that of the path (ip link set " +
                       peer->own_device.substr(std::min<std::size_t>(6, peer->own_device.size())) +
                       " mtu ...), or raise it between them"};
  }
  return std::nullopt;
}

Found find_mtu_differs(const Facts& facts) {
  const Peer* const peer = measured(facts);
  if (peer == nullptr || peer->own_mtu == peer->mtu) return std::nullopt;
  return Finding{"mtu_differs", Severity::kWarning,
                 "the path MTU of this device is " + std::to_string(peer->own_mtu) + ", of the peer's " +
                     std::to_string(peer->mtu) + ": programs that do not exchange it fail",
                 "give both interfaces the same MTU"};
}

Found find_loss(const Facts& facts) {
  const Peer* const peer = measured(facts);
  if (peer == nullptr || peer->to_peer.received == 0 || peer->from_peer.received == 0) return std::nullopt;
  const double to = loss(peer->to_peer), from = loss(peer->from_peer);
  if (std::max(to, from) <= kLossPercent) return std::nullopt;
  return Finding{"loss", Severity::kWarning,
                 "the path loses " + number(to, " %") + " towards the peer and " + number(from, " %") + " from it",
                 "RC queue pairs recover that; find the drops by 'ethtool -S' and 'tc -s qdisc' on the path"};
}

Found find_reordering(const Facts& facts) {
  const Peer* const peer = measured(facts);
  if (peer == nullptr) return std::nullopt;
  const double to = percent(peer->to_peer.reordered, peer->to_peer.received);
  const double from = percent(peer->from_peer.reordered, peer->from_peer.received);
  if (std::max(to, from) <= kReorderPercent) return std::nullopt;
  return Finding{"reordering", Severity::kWarning,
                 "the path reorders " + number(to, " %") + " towards the peer and " + number(from, " %") + " from it",
                 "bitmap mode tolerates that up to recovery.depth_max packets, which adapts"};
}

Found find_bitmap_not_agreed(const Facts& facts) {
  const Peer* const peer = measured(facts);
  if (peer == nullptr || peer->mode.empty() || peer->mode == "bitmap") return std::nullopt;
  return Finding{"bitmap_not_agreed", Severity::kWarning,
                 "queue pairs to the peer use mode " + peer->mode + ": a loss costs more than the lost packet",
                 "set recovery.mode to bitmap on both hosts ('brdma recovery' shows it and its source)"};
}

Found find_slower_than_tcp(const Facts& facts) {
  const Peer* const peer = measured(facts);
  if (peer == nullptr) return std::nullopt;
  for (const Direction* way : {&peer->to_peer, &peer->from_peer}) {
    if (way->mbps <= 0 || way->tcp_mbps <= 0 || way->mbps >= kTcpShare * way->tcp_mbps) continue;
    return Finding{"slower_than_tcp", Severity::kWarning,
                   std::string{way == &peer->to_peer ? "towards" : "from"} + " the peer WRITEs run at " +
                       number(way->mbps, " Mbit/s") + ", TCP at " + number(way->tcp_mbps, " Mbit/s"),
                   "see docs/howto/tuning.md; first the findings about processors, buffers and offloads"};
  }
  return std::nullopt;
}

}  // namespace brdma::check
