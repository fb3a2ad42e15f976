// device/engine.h - the engine of one context: queue pairs, completion queues, regions; packets and time are arguments.
//
// Order of calls, by whoever drives it (io's shard, the simulator, a test), one thread at a time, with a time that
// never goes back:
//   handle_datagram(...)*  handle_timeout(now) when next_timeout() has passed  post_...(...)*
//   then poll_transmit() until it answers false, poll_notification() until empty, and arm one timer with
//   next_timeout().
// An early timeout is harmless. Nothing here reads a clock, a socket or the environment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/config.h"
#include "base/datagram.h"
#include "base/result.h"
#include "base/units.h"
#include "bitmaprdma/types.h"
#include "device/device_use.h"
#include "device/report.h"
#include "recovery/link_inquiry.h"
#include "trace/counters.h"

namespace brdma {

namespace trace {
class Journal;
class Sink;
}  // namespace trace

namespace qp {
struct Duplicate;  // qp/state/duplicate_log.h
}  // namespace qp

// Opaque objects, owned by the engine, stable in memory until destroyed.
class ProtectionDomain;
class MemoryRegion;
class CompletionQueue;
class QueuePair;
class SharedReceiveQueue;

struct MemoryRegionInfo {
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
};

struct QpCreate {
  QpType type = QpType::kRc;
  ProtectionDomain* pd = nullptr;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  SharedReceiveQueue* srq = nullptr;  // null: receives of its own. Of any protection domain
  QpCapabilities capabilities;        // with a shared receive queue: those of receives are ignored, and come back as 0
  bool signal_all = false;            // sq_sig_all
  PathMtu path_mtu = PathMtu::k1024;  // UD: its longest message; the others are told when they are connected
  void* user = nullptr;               // handed back in notifications
  std::uint32_t user_bytes = 0;       // of it: its first and its last line are read by each post (Engine::post_send)
};

// Tells the driver to wake somebody; made during handle_... and post_....
struct Notification {
  enum class Kind : std::uint8_t {
    kCompletion,
    kQpFatal,
    kQpAccessError,
    kQpRequestError,
    kCommEstablished,
    kSqDrained,
    kLastWqeReached,   // of a queue pair with a shared receive queue: none will be taken any more
    kSrqLimitReached,  // fewer receives than its limit are left
    kCqError
  };
  Kind kind = Kind::kCompletion;
  void* user = nullptr;  // the user pointer of the CQ (kCompletion, kCqError), SRQ (kSrqLimitReached) or QP
};

// Changes recovery settings, those in force and those to come.
class RecoveryEditor {
 public:
  virtual ~RecoveryEditor() = default;
  // `made`: of a queue pair that exists, which takes only what applies at once; else of those made from now on.
  virtual void edit(RecoveryConfig& config, bool made) const = 0;
  // Of the engine, all queue pairs: messages that begin from now on.
  virtual void edit_transfers(TransferConfig& config) const { static_cast<void>(config); }
};

class Engine {
 public:
  // `statistics` must outlive the engine (it may lie in shared memory); `sink` may be null: no tracing.
  Engine(const EngineConfig& config, Statistics& statistics, trace::Sink* sink);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- objects. Status carries the errno value of the verbs manual; EBUSY when still in use. ---
  ProtectionDomain* alloc_pd();
  Status dealloc_pd(ProtectionDomain* pd);
  [[nodiscard]] bool in_use(const ProtectionDomain* pd) const;  // dealloc_pd() would answer EBUSY
  // Registers [address, address+length), known to work requests and peers as starting at `iova`. Pins nothing. Engines
  // of one seed whose domains, regions and windows have been made and taken away in the same order give the same keys.
  Result<MemoryRegion*, Status> register_memory(ProtectionDomain* pd, std::uint64_t address, std::uint64_t length,
                                                std::uint64_t iova, std::uint32_t access);
  Status deregister_memory(MemoryRegion* region);  // EBUSY: memory windows are bound to it
  // ibv_rereg_mr: of `to`, what `mask` (memory::kChange...) names. Keys stay. EBUSY: memory windows are bound to it.
  Status change_memory(MemoryRegion* region, std::uint32_t mask, const MemoryRegion& to);
  // A work request of that domain could use these bytes.
  [[nodiscard]] bool covers(const ProtectionDomain* pd, std::uint32_t lkey, std::uint64_t address, std::uint64_t length,
                            std::uint32_t needed) const;
  // Memory windows: bound by work requests (kBindMw), type 2 also taken back by them (kLocalInvalidate) and by peers.
  Result<MemoryRegion*, Status> alloc_window(ProtectionDomain* pd, bool type2);
  Status dealloc_window(MemoryRegion* window);
  // From now on each WRITE that arrives in this region makes one WriteArrival, with or without immediate, as soon as
  // its last missing packet is here; no receive is needed, and the sender's last acknowledgement is not waited for.
  // Whoever drives the engine asks poll_write_arrival() until it is empty; of more than kWriteArrivalsMax that nobody
  // has asked for, the newest are counted (write_events_lost) and not told. EINVAL: not a region of ours.
  Status watch_writes(MemoryRegion* region, void* user);
  Status unwatch_writes(MemoryRegion* region);
  [[nodiscard]] std::optional<WriteArrival> poll_write_arrival();
  [[nodiscard]] MemoryRegionInfo info(const MemoryRegion* region) const;
  Result<CompletionQueue*, Status> create_cq(std::uint32_t entries, void* user, const CqOptions& options = {});
  Status destroy_cq(CompletionQueue* cq);
  [[nodiscard]] bool in_use(const CompletionQueue* cq) const;  // destroy_cq() would answer EBUSY
  Status resize_cq(CompletionQueue* cq, std::uint32_t entries);
  [[nodiscard]] std::uint32_t cq_capacity(const CompletionQueue* cq) const;
  [[nodiscard]] std::size_t cq_unpolled(const CompletionQueue* cq) const;
  // Writes back what was granted (at least what was asked); the limit is 0 at first, whatever it says.
  Result<SharedReceiveQueue*, Status> create_srq(ProtectionDomain* pd, SrqAttributes& attributes, void* user);
  Status modify_srq(SharedReceiveQueue* srq, const SrqAttributes& attributes, std::uint32_t mask);
  [[nodiscard]] SrqAttributes query_srq(const SharedReceiveQueue* srq) const;
  Status destroy_srq(SharedReceiveQueue* srq);
  // Writes back in `request.capabilities` what was granted (at least what was asked).
  Result<QueuePair*, Status> create_qp(QpCreate& request);
  // create_qp() does not fail for want of a number. Where it would: add_slot() gives it those of one slot more, which
  // are steered to the same socket.
  [[nodiscard]] bool has_queue_pair_numbers() const;
  void add_slot(std::uint32_t slot);
  [[nodiscard]] const std::vector<std::uint32_t>& slots() const;  // EngineConfig's first
  Status destroy_qp(QueuePair* qp);                               // EBUSY: attached to a multicast group
  // Before a queue pair is destroyed or moved to RESET or ERR, or the program ends with some: poll_transmit() gives out
  // their acknowledgements several times. Nobody will be here to answer a peer that missed the last one; it would
  // resend until its retries run out.
  void send_final_acks(QueuePair* qp);
  void send_final_acks();  // of all
  // From now on this UD queue pair also receives what is sent to queue pair 0xffffff at that address
  // (device/multicast.cc); it cannot be destroyed while it does. EINVAL: no UD queue pair, no multicast address;
  // detached: not attached.
  Status attach_multicast(QueuePair* qp, const IpAddress& group);  // once more: nothing changes
  Status detach_multicast(QueuePair* qp, const IpAddress& group);
  [[nodiscard]] bool has_members(const IpAddress& group) const;
  [[nodiscard]] std::uint32_t qp_num(const QueuePair* qp) const;
  [[nodiscard]] std::size_t queue_pairs() const;  // that exist: without one, no packet is for us
  // Checks move and mask as IBTA table 92 does: EINVAL and nothing changed where they do not fit.
  Status modify_qp(QueuePair* qp, const QpAttributes& attributes, std::uint32_t mask, Instant now);
  [[nodiscard]] QpAttributes query_qp(const QueuePair* qp) const;
  [[nodiscard]] bool sq_draining(const QueuePair* qp) const;  // in SQD, and not drained yet
  [[nodiscard]] QpCapabilities qp_capabilities(const QueuePair* qp) const;

  // --- data path ---
  Status post_send(QueuePair* qp, const SendRequest& request, Instant now);  // EINVAL, ENOMEM (queue full)
  // One after the other, up to the first that fails; `posted`: how many were.
  Status post_send(QueuePair* qp, std::span<const SendRequest> requests, Instant now, std::size_t& posted);
  // Would post_send take all of them, one after the other? If not: why not. Nothing changes.
  [[nodiscard]] Status check_send(const QueuePair* qp, std::span<const SendRequest> requests) const;
  Status post_receive(QueuePair* qp, const ReceiveRequest& request, Instant now);
  Status post_receive(SharedReceiveQueue* srq, const ReceiveRequest& request, Instant now);
  // `times`: empty, or as long as `out`, for when each completion was made (CqOptions::stamped).
  std::size_t poll_cq(CompletionQueue* cq, std::span<Completion> out, std::span<Instant> times = {});
  // Arms the CQ: the next completion (or the next solicited one) makes one notification; one that came since the
  // last notification and waits to be polled makes it at once.
  void request_notify(CompletionQueue* cq, bool solicited_only);
  void cancel_notify(CompletionQueue* cq);  // not armed any more

  void handle_datagram(const Datagram& datagram, Instant now);
  // An ICMP message (behind the IP header), to whoever it may concern: an explicit drop notification about packets of a
  // queue pair of ours (wire/edn.h) is heeded, all else ignored. Costs what there are queue pairs where the quoted
  // packet is a standard one, which does not name its sender.
  void handle_icmp(ConstBytes message, Instant now);
  void handle_timeout(Instant now);
  // Next batch to send. False: nothing to send now. `buffer` and the application's memory back the slices, until the
  // next call: by then the batch has been sent, and work requests of UC and UD complete.
  bool poll_transmit(TransmitBuffer& buffer, Transmit& out, Instant now);
  // Instead of sending what poll_transmit() gave last: memory that it points to is not there (memory/guard.h). Reliable
  // queue pairs send again what was in it; of whose memory it was, the work request fails when that is found.
  void withdraw(Instant now);
  // Seen at a glance: poll_transmit() would answer false and do nothing. False where that takes a closer look.
  [[nodiscard]] bool all_sent() const;
  [[nodiscard]] std::optional<Instant> next_timeout() const;
  [[nodiscard]] std::optional<Notification> poll_notification();

  // Sent by this queue pair and not acknowledged yet: while there is some, its acknowledgement will come.
  [[nodiscard]] std::uint32_t packets_in_flight(const QueuePair* qp) const;
  // Likewise by all queue pairs whose requests complete in the same queue, as of the last next_timeout(); of UC and UD
  // none.
  [[nodiscard]] std::uint32_t packets_awaited(const QueuePair* qp) const;

  // How many packets of long messages fill a batch of this queue pair's.
  [[nodiscard]] std::uint32_t packets_per_batch(const QueuePair* qp) const;
  // All that poll_transmit() has to send are packets of this queue pair's requests (of bitmap mode, by one path), for
  // the first time; nothing that a peer or anybody else waits for beyond them.
  [[nodiscard]] bool only_begins_requests(const QueuePair* qp);

  // A message of the peer is arriving, some of its packets are here, and nothing of ours waits or is under way. RC
  // only.
  [[nodiscard]] bool only_receives(const QueuePair* qp) const;

  // True when poll_transmit has only acknowledgements to send whose delay has not run out: the driver may put them off
  // until the application's next call, so that they travel behind its data in one batch.
  [[nodiscard]] bool only_deferrable_output() const;
  // True when all that what came since the last poll_transmit() left to do is such an acknowledgement of one queue
  // pair: nothing else to send, nothing to tell the application. Costs a part of only_deferrable_output() and
  // next_timeout(), which the driver asks later. False where that takes a closer look.
  [[nodiscard]] bool has_only_ack_pending();

  // --- links and destinations (device/managed.cc; spec 3) ---
  // What links towards a peer said, which the controller should know. Asked until it is empty, by whoever has a session
  // with one; at most recovery::LinkReport::kWaitingMax wait, what is more is counted (link_state_reports_lost).
  [[nodiscard]] std::optional<recovery::LinkReport> poll_link_report();
  // All queue pairs to that address get less (congestion/managed_list.h), those that come later too: by hand, or by the
  // controller, whose control packet is counted. ENOENT: no queue pair sends there. ENOSPC: too many destinations. As
  // if their queue pairs had found it out.
  Status manage_destination(const IpAddress& peer, Instant now);
  Status handle_control_packet(const IpAddress& peer, Instant now);
  Status release_destination(const IpAddress& peer, Instant now);  // ENOENT
  [[nodiscard]] std::vector<ManagedReport> managed_destinations() const;

  // --- management (device/manage.cc). Not for the data path: costs what there are queue pairs. ---
  // Applies `editor` to the settings of one queue pair, or of all and of those made later, and then to those of
  // transfers. ENOENT: no such queue pair.
  Status change_recovery(std::optional<std::uint32_t> qpn, const RecoveryEditor& editor, Instant now);
  void set_journal(trace::Journal* journal);             // null: off, as at first; outlives the engine
  [[nodiscard]] std::size_t state_bytes() const;         // of all bitmaps
  void share_limits(const DeviceUse& use);               // with the device's other programs; as at first: alone
  void publish_state_bytes();                            // tells them ours, now and then
  [[nodiscard]] const RecoveryConfig& recovery() const;  // of queue pairs that are made now
  [[nodiscard]] const TransferConfig& transfer() const;
  [[nodiscard]] std::vector<std::uint32_t> queue_pair_numbers() const;
  // `now`: learnt limits go back with time; without it, as of the last call that had one.
  [[nodiscard]] std::optional<QueuePairReport> report(std::uint32_t qpn) const;
  [[nodiscard]] std::optional<QueuePairReport> report(std::uint32_t qpn, Instant now) const;
  [[nodiscard]] RecoveryStatus recovery_status() const;  // of all queue pairs
  [[nodiscard]] const Statistics& statistics() const;    // of this engine, as long as it has been
  [[nodiscard]] std::vector<qp::OpenGap> open_gaps(std::uint32_t qpn, Instant now) const;  // of requests and responses
  [[nodiscard]] std::vector<qp::Duplicate> duplicates() const;  // the last that came, newest first
  // An operator asked for `records` records of gaps, or of duplicates: an event. `qpn`: of one queue pair; 0: of all.
  void note_query(bool duplicates, std::uint32_t qpn, std::size_t records, Instant now);
  // An operator has packets that are not acknowledged sent again, or gaps (those that this side sees: they count as
  // lost, and the peer is asked for them at once). Under window, credit and congestion window like any retransmission.
  // ENOENT: no such queue pair. EINVAL: not an RC queue pair in RTR or later. ERANGE: nothing of that is outstanding,
  // or missing.
  struct Retransmission {
    bool gaps = false;        // else packets
    std::optional<Psn> psn;   // first packet, or one of the gap; none: all
    std::uint32_t count = 1;  // of packets, from psn on
  };
  [[nodiscard]] Result<qp::RetransmitRequested, int> retransmit(std::uint32_t qpn, const Retransmission& which,
                                                                Instant now);
  [[nodiscard]] std::vector<CompletionQueueReport> completion_queue_reports() const;
  [[nodiscard]] std::vector<MemoryRegion> memory_regions() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace brdma
