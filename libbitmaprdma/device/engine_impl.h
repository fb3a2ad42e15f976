// device/engine_impl.h - private: the engine's parts. Start at engine.h.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <vector>

#include "base/ring.h"
#include "congestion/managed_list.h"
#include "device/engine.h"
#include "device/qp_table.h"
#include "device/timers.h"
#include "memory/memory_table.h"
#include "qp/queues/completion_queue.h"
#include "qp/queues/shared_receive_queue.h"
#include "qp/state/environment.h"
#include "registry/command_queues.h"
#include "wire/crc/icrc.h"
#include "wire/packet.h"

namespace brdma {

struct Engine::Impl {
  Impl(const EngineConfig& given, Statistics& statistics, trace::Sink* sink);

  EngineConfig config;
  memory::MemoryTable memory;
  qp::Environment environment;
  std::vector<std::unique_ptr<SharedReceiveQueue>> shared_receive_queues;  // each knows its index
  device::QpTable queue_pairs;  // before the SRQs in destruction: it gives receives back
  std::vector<std::unique_ptr<CompletionQueue>> completion_queues;
  device::Timers timers;
  registry::CommandQueues<QueuePair> ready;  // queue pairs that may have something to send
  std::vector<QueuePair*> touched_pairs;     // touched since settle()
  std::vector<QueuePair*> stale_timers;      // touched since their deadline was last read
  Ring<Notification> notifications;
  wire::IdentificationSolver identifications;
  wire::AddressedIcrcFlow datagram_flow;  // of the last packet for a queue pair with many peers
  struct Member {
    IpAddress group;
    QueuePair* qp = nullptr;
  };
  std::vector<Member> members;  // of multicast groups, in the order of attaching
  std::map<IpAddress, std::uint32_t> group_sizes;
  QueuePair* given_out = nullptr;    // UC, UD: maker of the last batch, which may not have been sent yet
  QueuePair* last_posted = nullptr;  // where there are many
  std::uint32_t user_bytes = 0;      // QpCreate::user_bytes, the same for all
  congestion::ManagedList managed;
  Instant now;                               // of the latest call
  Instant batch_made;                        // the last one
  std::int16_t turn_words;                   // of a turn that nothing shortens (transmit.cc)
  DeviceUse device_use;                      // shared with the device's other programs, and its limits
  std::list<RecoveryConfig> own_recoveries;  // of queue pairs whose settings differ from config.recovery

  // An event of `qp`: it may have output, another deadline, notifications. settle() handles the consequences, once for
  // all packets of a burst or requests of a list, before anything is read or sent.
  void touched(QueuePair* qp) {
    if (qp->is_touched) return;
    qp->is_touched = true;
    touched_pairs.push_back(qp);
  }
  void settle();
  void fetch_next(QueuePair* qp);          // objects.cc
  [[nodiscard]] bool admits_queue_pair();  // manage.cc
  // Deadline and events only.
  void note_changes(QueuePair* qp) {
    qp->known_idle = false;
    if (!qp->timer_is_stale) {
      qp->timer_is_stale = true;
      stale_timers.push_back(qp);
    }
    if (qp->events().any()) [[unlikely]]
      take_events(qp);
    if (environment.has_notices()) [[unlikely]]
      collect_notices();
  }
  void take_events(QueuePair* qp);
  void refresh_timers();
  [[nodiscard]] static std::int16_t turn_of(const EngineConfig& config);
  void hand_over();
  void withdraw();
  void take_turn(QueuePair* qp, qp::TransmitBatch& batch);
  void end_turn(QueuePair* qp, std::uint32_t bytes, bool large, bool more);
  [[nodiscard]] Interest merged_interest() const;  // of the ready ones
  [[nodiscard]] std::uint32_t packets_per_batch(std::uint32_t mtu) const;
  // --- managed.cc ---
  bool manage(const IpAddress& peer);
  void release(const IpAddress& peer);
  void take_congested_peers();
  void visit_managed();
  void note_peer(QueuePair* qp);
  // --- receive.cc ---
  bool take_usual(const Datagram& datagram, bool writes);
  void take(const Datagram& datagram);
  [[nodiscard]] QueuePair* addressee(const Datagram& datagram) const;
  void note_peer_alive(QueuePair* qp);
  void handle_multicast(const Datagram& datagram, const wire::Packet& packet);  // multicast.cc
  void collect_notices();
  // `own_flow`: of a queue pair with one peer, the packet's source; else null.
  [[nodiscard]] bool icrc_holds(const Datagram& datagram, const wire::Packet& packet, wire::IcrcFlow* own_flow);
  const wire::IcrcFlow& flow_of(const Datagram& datagram, wire::IcrcFlow* own_flow);
  void drop(const Datagram& datagram, DropReason reason);
};

}  // namespace brdma
