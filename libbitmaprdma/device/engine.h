// device/engine.h - the engine of one context: queue pairs, completion queues, regions; packets and time are arguments.
//
// Order of calls, by the driver (io's shard, the simulator, a test), one thread at a time, with a time that never goes
// back:
//   handle_datagram(...)*  handle_timeout(now) when next_timeout() has passed  post_...(...)*
//   then poll_transmit() until it returns false, poll_notification() until empty, and arm one timer with
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
#include "base/transmit_interest.h"
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
  // kInitiator: without `receive_cq`. kTarget: of domain `xrc_domain`, and without `pd` and completion queues. Both:
  // RC, without `srq`.
  XrcRole xrc = XrcRole::kNone;
  std::uint16_t xrc_domain = 0;
  QpCapabilities capabilities;  // with a shared receive queue: receive capabilities are ignored, and returned as 0
  bool signal_all = false;      // sq_sig_all
  PathMtu path_mtu = PathMtu::k1024;  // UD: its longest message; other types set it at connection
  void* user = nullptr;               // returned in notifications
  std::uint32_t user_bytes = 0;       // size; its first and its last line are read by each post (Engine::post_send)
};

// Asks the driver to wake an application thread; made during handle_... and post_....
struct Notification {
  enum class Kind : std::uint8_t {
    kCompletion,
    kQpFatal,
    kQpAccessError,
    kQpRequestError,
    kCommEstablished,
    kSqDrained,
    kLastWqeReached,   // a queue pair with a shared receive queue takes no more receives
    kSrqLimitReached,  // fewer receives than the SRQ's limit are left
    kCqError
  };
  Kind kind = Kind::kCompletion;
  void* user = nullptr;  // the user pointer of the CQ (kCompletion, kCqError), SRQ (kSrqLimitReached) or QP
};

// Changes recovery settings, those in force and those of new queue pairs.
class RecoveryEditor {
 public:
  virtual ~RecoveryEditor() = default;
  // `made`: settings of an existing queue pair, which takes only those that apply at once; else of those made from now
  // on.
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
  [[nodiscard]] bool in_use(const ProtectionDomain* pd) const;  // dealloc_pd() would return EBUSY
  // Registers [address, address+length); work requests and peers address it from `iova` on. Pins nothing. Engines of
  // one seed give the same keys if domains, regions and windows are created and destroyed in the same order.
  Result<MemoryRegion*, Status> register_memory(ProtectionDomain* pd, std::uint64_t address, std::uint64_t length,
                                                std::uint64_t iova, std::uint32_t access);
  Status deregister_memory(MemoryRegion* region);  // EBUSY: memory windows are bound to it
  // ibv_rereg_mr: changes the parts of `to` that `mask` (memory::kChange...) names. Keys stay. EBUSY: memory windows
  // are bound to it.
  Status change_memory(MemoryRegion* region, std::uint32_t mask, const MemoryRegion& to);
  // ibv_alloc_null_mr; memory as memory::MemoryTable::add_null() takes it.
  Result<MemoryRegion*, Status> register_null(ProtectionDomain* pd, const std::byte* zeros, std::byte* sink);
  // The bytes that a work request of that domain could use. ENOENT: no such key. EPERM: another domain's region, or
  // without the needed right. EFAULT: out of its bounds.
  Result<std::byte*, Status> locate(const ProtectionDomain* pd, std::uint32_t lkey, std::uint64_t address,
                                    std::uint64_t length, std::uint32_t needed) const;
  // Memory windows: bound by work requests (kBindMw). Type 2 is also invalidated by work requests (kLocalInvalidate)
  // and by peers.
  Result<MemoryRegion*, Status> alloc_window(ProtectionDomain* pd, bool type2);
  Status dealloc_window(MemoryRegion* window);
  // From now on each WRITE that arrives in this region makes one WriteArrival, with or without immediate, as soon as
  // its last missing packet is here. No receive is needed, and the sender's last acknowledgement is not waited for. The
  // driver calls poll_write_arrival() until it is empty. Beyond kWriteArrivalsMax unread ones the newest are dropped
  // and counted (write_events_lost). EINVAL: not a region of ours.
  Status watch_writes(MemoryRegion* region, void* user);
  Status unwatch_writes(MemoryRegion* region);
  [[nodiscard]] std::optional<WriteArrival> poll_write_arrival();
  [[nodiscard]] MemoryRegionInfo info(const MemoryRegion* region) const;
  Result<CompletionQueue*, Status> create_cq(std::uint32_t entries, void* user, const CqOptions& options = {});
  Status destroy_cq(CompletionQueue* cq);
  [[nodiscard]] bool in_use(const CompletionQueue* cq) const;  // destroy_cq() would return EBUSY
  Status resize_cq(CompletionQueue* cq, std::uint32_t entries);
  // ibv_modify_cq: notifications of an armed queue wait for more completions. Each queue with moderation costs a look
  // in each next_timeout().
  void moderate_cq(CompletionQueue* cq, const CqModeration& moderation);
  [[nodiscard]] std::uint32_t cq_capacity(const CompletionQueue* cq) const;
  [[nodiscard]] std::size_t cq_unpolled(const CompletionQueue* cq) const;
  // Writes back the granted values (at least those requested); the limit is 0 at first, whatever was requested.
  Result<SharedReceiveQueue*, Status> create_srq(ProtectionDomain* pd, SrqAttributes& attributes, void* user);
  // Of an extended reliable connection (IBTA annex A14): targets of that domain take receives from it, which complete
  // in `cq`. `domain`: the caller's number.
  Result<SharedReceiveQueue*, Status> create_xrc_srq(ProtectionDomain* pd, SrqAttributes& attributes, void* user,
                                                     std::uint16_t domain, CompletionQueue* cq);
  [[nodiscard]] std::uint32_t srq_number(const SharedReceiveQueue* srq) const;  // that requests name it by; 0: basic
  Status modify_srq(SharedReceiveQueue* srq, const SrqAttributes& attributes, std::uint32_t mask);
  [[nodiscard]] SrqAttributes query_srq(const SharedReceiveQueue* srq) const;
  Status destroy_srq(SharedReceiveQueue* srq);
  // Writes back the granted values in `request.capabilities` (at least those requested).
  Result<QueuePair*, Status> create_qp(QpCreate& request);
  // create_qp() does not fail for lack of a number. Where it would, add_slot() adds the numbers of one slot, which are
  // steered to the same socket.
  [[nodiscard]] bool has_queue_pair_numbers() const;
  void add_slot(std::uint32_t slot);
  [[nodiscard]] const std::vector<std::uint32_t>& slots() const;  // EngineConfig's first
  Status destroy_qp(QueuePair* qp);                               // EBUSY: attached to a multicast group
  // Call before a queue pair is destroyed or moved to RESET or ERR, or the program ends with some: poll_transmit() then
  // gives out their final acknowledgements several times. Nobody would answer a peer that missed the last one; it would
  // retransmit until its retry limit.
  void send_final_acks(QueuePair* qp);
  void send_final_acks();  // of all
  // From now on this UD queue pair also receives packets sent to queue pair 0xffffff at that address
  // (device/multicast.cc); it cannot be destroyed while it does. EINVAL: no UD queue pair, no multicast address;
  // detached: not attached.
  Status attach_multicast(QueuePair* qp, const IpAddress& group);  // again: no change
  Status detach_multicast(QueuePair* qp, const IpAddress& group);
  [[nodiscard]] bool has_members(const IpAddress& group) const;
  [[nodiscard]] std::uint32_t qp_num(const QueuePair* qp) const;
  [[nodiscard]] std::size_t queue_pairs() const;  // existing ones: without one, no packet is for us
  // Checks move and mask as IBTA table 92 does: EINVAL and nothing changed where they do not fit.
  Status modify_qp(QueuePair* qp, const QpAttributes& attributes, std::uint32_t mask, Instant now);
  [[nodiscard]] QpAttributes query_qp(const QueuePair* qp) const;
  [[nodiscard]] bool sq_draining(const QueuePair* qp) const;  // in SQD, and not drained yet
  [[nodiscard]] QpCapabilities qp_capabilities(const QueuePair* qp) const;

  // --- data path ---
  Status post_send(QueuePair* qp, const SendRequest& request, Instant now);  // EINVAL, ENOMEM (queue full)
  // In order, up to the first that fails; `posted`: how many succeeded.
  Status post_send(QueuePair* qp, std::span<const SendRequest> requests, Instant now, std::size_t& posted);
  // Would post_send take all of them in order? If not: the error. Nothing changes.
  [[nodiscard]] Status check_send(const QueuePair* qp, std::span<const SendRequest> requests) const;
  Status post_receive(QueuePair* qp, const ReceiveRequest& request, Instant now);
  Status post_receive(SharedReceiveQueue* srq, const ReceiveRequest& request, Instant now);
  // `times`: empty, or as long as `out`; receives the time of each completion (CqOptions::stamped).
  std::size_t poll_cq(CompletionQueue* cq, std::span<Completion> out, std::span<Instant> times = {});
  // Arms the CQ: the next completion (or the next solicited one) makes one notification. An unpolled completion since
  // the last notification makes it at once.
  void request_notify(CompletionQueue* cq, bool solicited_only);
  void cancel_notify(CompletionQueue* cq);  // not armed any more

  void handle_datagram(const Datagram& datagram, Instant now);
  // An ICMP message (behind the IP header), for any queue pair. An explicit drop notification about packets of ours
  // (wire/edn.h) is applied, all else ignored. If the quoted packet is a standard one, which does not name its sender,
  // the cost grows with the number of queue pairs.
  void handle_icmp(ConstBytes message, Instant now);
  void handle_timeout(Instant now);
  // Next batch to send. False: nothing to send now. `buffer` and the application's memory back the slices until the
  // next call: by then the batch has been sent, and work requests of UC and UD complete.
  bool poll_transmit(TransmitBuffer& buffer, Transmit& out, Instant now);
  // Instead of sending the last batch of poll_transmit(): memory that it points to is gone (memory/guard.h). Reliable
  // queue pairs retransmit its packets; the work request with the missing memory fails when that is found.
  void withdraw(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;
  [[nodiscard]] std::optional<Notification> poll_notification();

  // What poll_transmit() has to send now, the greatest interest of all queue pairs. `only`: the one queue pair that has
  // any; null: none, or several. Of several that have more than an acknowledgement to defer, the first two decide: the
  // level is at least theirs. Forced, too, while a batch of UC or UD has been given out: its work requests complete in
  // the next poll_transmit().
  struct Interest {
    TransmitInterest level = TransmitInterest::kNone;
    const QueuePair* only = nullptr;
  };
  [[nodiscard]] Interest transmit_interest();
  // Something happened that poll_notification() or poll_write_arrival() reports. The same before and after
  // transmit_interest().
  [[nodiscard]] bool has_notifications() const;

  // Counts of one queue pair, for a driver that gathers posts or waits for a message.
  struct Load {
    std::uint32_t in_flight = 0;  // packets sent and not acknowledged yet: an acknowledgement is expected; UC and UD: 0
    std::uint32_t awaited = 0;    // the same of all queue pairs whose requests complete in the same queue, as of the
                                  // last next_timeout()
    std::uint32_t per_batch = 1;  // packets of long messages that fill a batch; 1 if none is worth waiting for: UC, UD,
                                  // a standard peer, several paths
    std::uint32_t mtu = 0;        // bytes of payload of a full packet: the path MTU
    bool sends = false;           // in a state that sends requests (RTS, SQD)
    bool unacknowledged = false;  // UC and UD: a request completes when it has left
    bool requests = false;        // RC: some request is not complete
    bool receiving = false;       // RC: a message of the peer is arriving, and some of its packets are here
  };
  [[nodiscard]] Load load(const QueuePair* qp) const;

  // --- links and destinations (device/managed.cc; design WT-10 to WT-15) ---
  // Link reports towards a peer, for the controller. A component with a controller session polls until it is empty. At
  // most recovery::LinkReport::kWaitingMax wait; more are counted (link_state_reports_lost).
  [[nodiscard]] std::optional<recovery::LinkReport> poll_link_report();
  // Reduces the rate of all queue pairs to that address (congestion/managed_list.h), later ones included: by hand, or
  // by the controller, whose control packet is counted. ENOENT: no queue pair sends there. ENOSPC: too many
  // destinations. Same effect as when their queue pairs detect congestion.
  Status manage_destination(const IpAddress& peer, Instant now);
  Status handle_control_packet(const IpAddress& peer, Instant now);
  Status release_destination(const IpAddress& peer, Instant now);  // ENOENT
  [[nodiscard]] std::vector<ManagedReport> managed_destinations() const;

  // --- management (device/manage.cc). Not for the data path: cost grows with the number of queue pairs. ---
  // Applies `editor` to the settings of one queue pair, or of all and of those made later, and then to those of
  // transfers. ENOENT: no such queue pair.
  Status change_recovery(std::optional<std::uint32_t> qpn, const RecoveryEditor& editor, Instant now);
  void set_journal(trace::Journal* journal);             // null: off, as at first; outlives the engine
  [[nodiscard]] std::size_t state_bytes() const;         // of all bitmaps
  void share_limits(const DeviceUse& use);               // with the device's other programs; as at first: alone
  void publish_state_bytes();                            // publishes our bytes to them; called periodically
  [[nodiscard]] const RecoveryConfig& recovery() const;  // of queue pairs made from now on
  [[nodiscard]] const TransferConfig& transfer() const;
  [[nodiscard]] std::vector<std::uint32_t> queue_pair_numbers() const;
  // `now`: learnt limits decay with time; without it, as of the last call that had one.
  [[nodiscard]] std::optional<QueuePairReport> report(std::uint32_t qpn) const;
  [[nodiscard]] std::optional<QueuePairReport> report(std::uint32_t qpn, Instant now) const;
  [[nodiscard]] RecoveryStatus recovery_status() const;  // of all queue pairs
  [[nodiscard]] const Statistics& statistics() const;    // of this engine, over its lifetime
  [[nodiscard]] std::vector<qp::OpenGap> open_gaps(std::uint32_t qpn, Instant now) const;  // of requests and responses
  [[nodiscard]] std::vector<qp::Duplicate> duplicates() const;  // the most recent, newest first
  // An operator requested `records` records of gaps, or of duplicates: an event. `qpn`: of one queue pair; 0: of all.
  void note_query(bool duplicates, std::uint32_t qpn, std::size_t records, Instant now);
  // An operator requests retransmission of unacknowledged packets, or of gaps (those this side sees: they count as
  // lost, and are requested from the peer at once). Under window, credit and congestion window like any retransmission.
  // ENOENT: no such queue pair. EINVAL: not an RC queue pair in RTR or later. ERANGE: no such packet is outstanding, or
  // missing.
  struct Retransmission {
    bool gaps = false;        // else packets
    std::optional<Psn> psn;   // first packet, or one of the gap; none: all
    std::uint32_t count = 1;  // of packets, from psn on
  };
  [[nodiscard]] Result<qp::RetransmitRequested, int> retransmit(std::uint32_t qpn, const Retransmission& which,
                                                                Instant now);
  [[nodiscard]] std::vector<CompletionQueueReport> completion_queue_reports() const;
  [[nodiscard]] std::vector<MemoryRegion> memory_regions() const;
  [[nodiscard]] std::vector<ProtectionDomain> protection_domains() const;  // copies
  [[nodiscard]] std::vector<SharedReceiveQueueReport> shared_receive_queue_reports() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace brdma
