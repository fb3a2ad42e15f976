// tests/attacks/hostile_peer.h - a peer with all knowledge of a peer (tokens, numbers, keys) that breaks every rule.
// Two engines of the library, one in bitmap mode and one with standard packets only, and a connection manager build
// an honest peer's packets; some of them leave changed, twice, late or not at all, and more are invented.
//
// It connects to the victim and is connected to by it. Memory that the victim must never reveal (kSecret) is searched
// in every packet that comes.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/datagram.h"
#include "cm/agent.h"
#include "device/engine.h"
#include "mutate.h"
#include "offer.h"
#include "peer_socket.h"
#include "trace/counters.h"
#include "wire/control.h"
#include "wire/opcode.h"

namespace brdma::attacks {

struct HostileOptions {
  std::string own, victim;
  std::uint64_t seed = 1;
  double seconds = 60;
};

struct HostileFigures {
  std::uint64_t packets = 0, changed = 0, invented = 0, mads = 0, as_client = 0, as_server = 0, completed = 0,
                failed = 0, received = 0, leaks = 0;
};

class HostilePeer {
 public:
  explicit HostilePeer(const HostileOptions& options);
  ~HostilePeer();
  HostilePeer(const HostilePeer&) = delete;
  HostilePeer& operator=(const HostilePeer&) = delete;

  void run();
  [[nodiscard]] const HostileFigures& figures() const { return figures_; }

 private:
  static constexpr std::size_t kSides = 2, kHalf = 65536, kLinksMax = 10, kKept = 64;
  struct Side {
    Statistics statistics;
    std::unique_ptr<Engine> engine;
    ProtectionDomain* pd = nullptr;
    CompletionQueue* cq = nullptr;
    MemoryRegion *source = nullptr, *sink = nullptr;
  };
  // One connection, or its remains.
  struct Link {
    cm::CommId id = 0;
    std::size_t side = 0;
    QueuePair* qp = nullptr;
    std::uint32_t own_qpn = 0, victim_qpn = 0;
    Psn own_psn, seen, sent;  // the victim's first; last received, last sent
    PathMtu mtu = PathMtu::k1024;
    Offer offer{};
    std::uint32_t chance = 0;  // that a packet leaves changed, per million
    Instant until;
    bool up = false, careful = false;  // careful: makes only permitted requests, and lasts
    std::deque<PacketBytes> kept;
  };

  // hostile_peer.cc
  void make_side(std::size_t index, RecoveryMode mode);
  void receive(Instant now);
  void pump(Instant now);
  void take_completions();
  void leave(Link* link, PacketBytes packet);
  void send(PacketBytes& packet, bool sign);
  void attack(Instant now);
  void post_work(Link& link, Instant now);
  [[nodiscard]] Link* find_own(std::uint32_t qpn);
  [[nodiscard]] Link* find_victims(std::uint32_t qpn);
  [[nodiscard]] Link* any_link();

  // hostile_connections.cc
  void connect(Instant now);
  void take_events(Instant now);
  void on_request(const cm::Event& event, Instant now);
  void on_reply(const cm::Event& event, Instant now);
  [[nodiscard]] Link* make_link(Instant now);
  void bring_up(Link& link, Psn first, Instant now);
  void end_old(Instant now);
  void send_mads();
  void send_mad(const cm::MadArray& mad);
  void invent_mad();

  // hostile_control.cc
  void invent(Link& link, Instant now);
  void send_control(const Link& link, wire::Control which, Psn psn, ConstBytes body);
  void invent_acknowledgement(const Link& link, Instant now);
  void invent_feedback(const Link& link, Instant now);
  void invent_drop(const Link& link, Instant now);
  void invent_caps(const Link& link);
  void invent_other(const Link& link, std::uint64_t which);
  [[nodiscard]] Psn near(Psn psn) { return psn - 8 + static_cast<std::uint32_t>(random_.below(24)); }

  HostileOptions options_;
  HostileFigures figures_;
  Random random_;
  PeerSocket socket_;
  std::vector<std::byte> memory_;  // its outgoing data, then memory that others may write
  std::array<Side, kSides> sides_;
  std::list<Link> links_;
  cm::Outbox outbox_;
  cm::Agent agent_;
  std::unique_ptr<TransmitBuffer> buffer_ = std::make_unique<TransmitBuffer>();
  PacketBytes late_;  // kept back until the next packet has left
  std::deque<cm::MadArray> mads_;
};

}  // namespace brdma::attacks
