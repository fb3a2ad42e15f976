// device/engine_impl.h - private: the engine's parts. Start at engine.h.
#pragma once

#include <vector>

#include "base/ring.h"
#include "congestion/managed_list.h"
#include "device/engine.h"
#include "device/icrc_check.h"
#include "device/multicast_groups.h"
#include "device/post_prefetch.h"
#include "device/qp_table.h"
#include "device/queue_table.h"
#include "device/settings.h"
#include "device/timers.h"
#include "device/transmit_schedule.h"
#include "memory/memory_table.h"
#include "qp/state/environment.h"
#include "wire/packet.h"

namespace brdma {

struct Engine::Impl {
  Impl(const EngineConfig& given, Statistics& statistics, trace::Sink* sink);

  device::Settings settings;
  memory::MemoryTable memory;
  qp::Environment environment;
  device::QueueTable queues;
  device::QpTable queue_pairs;  // before the shared receive queues in destruction: it gives receives back
  device::Timers timers;
  device::TransmitSchedule schedule;
  std::vector<QueuePair*> touched_pairs;  // touched since settle()
  Ring<Notification> notifications;
  device::IcrcCheck icrc;
  device::MulticastGroups groups;
  device::PostPrefetch prefetch;
  congestion::ManagedList managed;
  Instant now;           // of the latest call
  DeviceUse device_use;  // shared with the device's other programs, and its limits

  // An event of `qp`: it may have output, another deadline, notifications. settle() handles the consequences, once for
  // all packets of a burst or requests of a list, before anything is read or sent.
  void touched(QueuePair* qp) {
    if (qp->is_touched) return;
    qp->is_touched = true;
    touched_pairs.push_back(qp);
  }
  void settle();
  [[nodiscard]] bool admits_queue_pair();  // manage.cc
  // Deadline and events only.
  void note_changes(QueuePair* qp) {
    qp->known_idle = false;
    timers.note_stale(qp);
    if (qp->events().any()) [[unlikely]]
      take_events(qp);
    if (environment.has_notices()) [[unlikely]]
      collect_notices();
  }
  void take_events(QueuePair* qp);
  void refresh_timers();
  void hand_over();
  void withdraw();
  void take_turn(QueuePair* qp, qp::TransmitBatch& batch);
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
  void drop(const Datagram& datagram, DropReason reason);
};

}  // namespace brdma
