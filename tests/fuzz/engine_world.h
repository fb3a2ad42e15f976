// tests/fuzz/engine_world.h - one engine and a peer that the fuzzer plays: it sends whatever the input selects, mostly
// close enough to valid to get past the first checks. After every step the world checks its invariants:
//   packets that the engine sends parse, carry the right ICRC, go to the peer and fit their batch;
//   accepted plus drops equals received;
//   completions: no more than posted, each once, in the order of posting per queue;
//   bytes around the registered regions never change, nor those of the regions that nobody may write, one of them
//   because it is of another protection domain, nor the half of
//   the lent region that no window ever shows; a drain ends, and no timer asks for an instant that has passed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "device/engine.h"
#include "fuzz/input_reader.h"
#include "wire/edn.h"
#include "wire/packet.h"

namespace brdma::fuzz {

class EngineWorld {
 public:
  explicit EngineWorld(InputReader& input);
  ~EngineWorld();
  EngineWorld(const EngineWorld&) = delete;
  EngineWorld& operator=(const EngineWorld&) = delete;

  void step();  // one operation that the input chooses
  void finish();

 private:
  static constexpr std::size_t kQueuePairs = 2;
  static constexpr std::uint32_t kRegionBytes = 8192, kGuardBytes = 256, kWorkRequestsMax = 8;
  static constexpr std::uint32_t kBoundMax = kRegionBytes / 2;  // of the lent region: what windows may show
  static constexpr std::uint64_t kIova = 0x10'0000;

  struct Posted {
    std::uint64_t wr_id = 0;
    bool signaled = true;
  };
  struct Connection {
    QueuePair* qp = nullptr;
    std::uint32_t qpn = 0;
    std::uint32_t peer_qpn = 0;
    Psn next_request;                    // the peer's next request in order
    Psn own_next;                        // behind the last request of the engine that was seen leaving
    std::uint32_t msn = 0, rsn = 0;      // of the peer's next message
    std::deque<Posted> sends, receives;  // posted and not completed
  };
  struct Region {
    std::vector<std::byte> bytes;  // guards at both ends
    MemoryRegion* handle = nullptr;
    std::uint32_t key = 0;
    bool writable = false;
  };
  struct Window {
    MemoryRegion* handle = nullptr;
    std::uint32_t key = 0;
    bool type2 = false;
  };
  enum class Choice : std::uint8_t { kExact, kNear, kAny };

  // engine_world.cc
  void make_regions();
  void register_region(Region& region);
  void create(Connection& connection);
  void destroy(Connection& connection);
  void connect(Connection& connection);
  void deliver(ConstBytes packet, std::uint16_t ip_id);
  void drain();
  void check_sent(const Transmit& transmit);
  void note_own_request(const wire::Packet& packet);
  void check_invariants();
  void check_memory();
  void take_notifications();
  void take_completions();
  void take(const Completion& completion);
  void pass_time();
  Connection& pick() { return connections_[input_.below(kQueuePairs)]; }

  // peer_packets.cc
  void send_raw();
  void send_message();
  void send_scattered();
  void send_request();
  void send_piggyback();
  void send_response();
  void send_acknowledgement();
  void acknowledge_in_turn();
  void send_control();
  void send_caps(const Connection& connection);
  void send_bitmap_ack(const Connection& connection);
  void send_ffm(const Connection& connection);
  void send_drop_notification(const Connection& connection);
  void send_source_quench(const Connection& connection, const wire::Edn& edn);
  void address_to(const Connection& connection, wire::Packet& packet);
  void fill_target(wire::Packet& packet, std::uint32_t length);
  void send_packet(wire::Packet packet, std::size_t payload_bytes);
  void send_control_body(const Connection& connection, std::uint8_t opcode, Psn psn, ConstBytes body);
  void seal_and_deliver(std::vector<std::byte>& packet);
  Psn around(Psn psn);
  std::size_t some_payload();

  // shared_objects.cc
  void make_shared(bool with_queue);
  void allocate(Window& window);
  void destroy_shared();
  void use_shared_queue();
  void use_window();
  void attack_window();

  // application.cc
  void post_send();
  void post_receive();
  void modify();
  void register_again();
  Sge some_sge();

  InputReader& input_;
  const std::vector<std::byte>& initial_;  // of either region
  EngineConfig config_;
  IpAddress here_, there_;
  PathMtu mtu_ = PathMtu::k256;
  Statistics statistics_;
  std::unique_ptr<Engine> engine_;
  ProtectionDomain* pd_ = nullptr;
  ProtectionDomain* other_pd_ = nullptr;  // of no queue pair
  CompletionQueue* cq_ = nullptr;
  std::array<Region, 3> regions_;      // everything allowed; nothing but local reading; another domain's
  Region lent_;                        // windows are bound to it; no peer may do anything without one
  std::array<Window, 2> windows_;      // of type 1, of type 2
  SharedReceiveQueue* srq_ = nullptr;  // of the second queue pair, in half of the worlds
  std::set<std::uint64_t>
      shared_receives_;  // posted to it and not completed: taken by any queue pair's arrivals, in any order
  std::array<Connection, kQueuePairs> connections_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  std::uint64_t next_wr_id_ = 1;
  bool overrun_ = false;  // the completion queue was too small: later completions are lost
};

}  // namespace brdma::fuzz
