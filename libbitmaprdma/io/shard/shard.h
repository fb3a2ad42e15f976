// io/shard/shard.h - an engine, its sockets and its lock: one leased slot. Application threads and the progress thread
// both drive it; every function but lock() and progress_owner() needs the lock.
//
// An application's call makes progress inline (design section 6): a post sends at once; a poll without a completion
// reads the socket. Between calls the progress thread may be in charge (io/shard/progress_thread.h). Output that the
// system does not take now (EAGAIN) stays here as the pending batch and goes first next time: no output of the engine
// is lost without a count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bitmaprdma/context.h"
#include "device/engine.h"
#include "io/poll/ack_deferral.h"
#include "io/poll/empty_polls.h"
#include "io/poll/post_gather.h"
#include "io/poll/progress_owner.h"
#include "io/poll/stay_for_message.h"
#include "io/poll/stay_for_reply.h"
#include "io/shard/arrival_clock.h"
#include "io/shard/intake.h"
#include "io/shard/outlet.h"
#include "io/shard/shard_lock.h"
#include "io/udp/multicast_groups.h"

namespace brdma::io {

inline constexpr unsigned kTransmitBurstMax = 512;
inline constexpr int kPendingWaitMs = 10;  // for the system to take a pending batch whose memory may go away

struct Gauges;

class Shard {
 public:
  // `handler` may be null. The leased socket's descriptor and `statistics` outlive the shard.
  Shard(const EngineConfig& config, Intake intake, Outlet outlet, Statistics& statistics, NotificationHandler* handler);

  [[nodiscard]] ShardLock& lock() { return lock_; }
  [[nodiscard]] ProgressOwner& progress_owner() { return progress_owner_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  void set_gauges(Gauges* gauges) { gauges_ = gauges; }  // null: none

  // --- the application's calls ---
  std::size_t poll_cq(CompletionQueue* cq, std::span<Completion> out, std::span<Instant> times = {});
  Status post_send(QueuePair* qp, std::span<const SendRequest> requests, std::size_t& posted);
  Status post_send_all(QueuePair* qp, std::span<const SendRequest> requests);  // or none
  Status post_receive(QueuePair* qp, std::span<const ReceiveRequest> requests, std::size_t& posted);
  Status post_receive(SharedReceiveQueue* srq, std::span<const ReceiveRequest> requests, std::size_t& posted);
  void request_notify(CompletionQueue* cq, bool solicited_only);
  // The application sleeps on receive_fds() itself, and was woken or is about to sleep: handles received packets.
  // `all`: until nothing is left, for a caller woken by new packets only; else leftover packets wake it again.
  // `then_sleeps`: if that gives it no event, it goes to sleep.
  void attend(bool all, bool then_sleeps = false);
  // Around other engine calls (they may remove queue pairs and memory that a pending batch points to): before() sends
  // held output and removes the pending batch, settle() sends the calls' output.
  Status attach_multicast(QueuePair* qp, const IpAddress& group, std::uint32_t ifindex);
  Status detach_multicast(QueuePair* qp, const IpAddress& group);
  void before();
  void settle(Instant now);
  void send_final_acks(QueuePair* qp);  // as Context::send_final_acks

  // --- the progress thread's ---
  struct Round {
    bool busy = false;      // received or sent something
    unsigned received = 0;  // messages
  };
  Round make_progress();
  [[nodiscard]] std::optional<Instant> next_deadline() const { return deadline_; }
  // True: more to send, and no event will announce it.
  [[nodiscard]] bool has_pending_output() const { return pending_.has_value() || cut_short_; }
  // An acknowledgement waits for the application's reply: let it run.
  [[nodiscard]] bool awaits_reply() const { return deferral_.holding(); }
  // The descriptor that is writable when the pending batch can continue; -1: nothing pending.
  [[nodiscard]] int blocked_fd() const;
  [[nodiscard]] std::array<int, 2> receive_fds() const { return intake_.fds(); }
  [[nodiscard]] const Intake& intake() const { return intake_; }
  [[nodiscard]] const Outlet& outlet() const { return outlet_; }
  // Call before the thread sleeps: reads the kernel's drop count.
  void count_drops();
  void count_help();  // an application that should attend did not

 private:
  template <class Queue>
  Status post_receives(Queue* queue, std::span<const ReceiveRequest> requests, std::size_t& posted);
  [[nodiscard]] bool is_ours(std::uint32_t qpn) const;
  [[nodiscard]] bool take_message(ReceivedMessage& message, Instant& now);  // `now`: set if there was one
  void handle_message(const ReceivedMessage& message, Instant now);
  bool handle_due_timeouts(Instant now);
  [[nodiscard]] bool packets_will_wake();
  void polled_well();
  [[nodiscard]] bool look_again(ReceivedMessage& message, Instant& now);
  [[nodiscard]] bool leaves_for_reply(Instant now);
  void stay_for_reply();
  void stay_for_message();
  [[nodiscard]] bool may_hold_back();
  [[nodiscard]] bool may_gather(const QueuePair* qp, std::span<const SendRequest> requests, Instant now);
  [[nodiscard]] bool rest_waits(Instant now) const;
  bool send_full_batches(Instant now);
  enum class Hold : std::uint8_t { kAllowed, kNo };
  bool drain(Instant now, Hold hold = Hold::kAllowed);
  void drain_but_rest(Instant now);
  bool send_batches(std::uint64_t packets, Instant now);
  [[nodiscard]] bool send_batch(const Transmit& transmit);
  void lose(const Transmit& transmit);
  bool deliver_notifications();  // true: a completion event
  void deliver_write_events();
  bool end_call();  // likewise
  void set_sleeps_on_events(bool sleeps);
  void find_deadline();
  void publish() const;

  ShardLock lock_;
  ProgressOwner progress_owner_;
  Statistics& statistics_;
  NotificationHandler* handler_;
  Gauges* gauges_ = nullptr;
  Intake intake_;
  MulticastGroups groups_;
  Outlet outlet_;
  std::uint32_t slot_, slot_mask_;
  Engine engine_;
  ArrivalClock arrivals_;
  Duration ack_hold_max_;  // of a polling program
  AckDeferral deferral_;
  StayForReply linger_;
  StayForMessage stay_for_message_;
  EmptyPolls empty_polls_;
  std::optional<Instant> deadline_;  // of the engine and of held acknowledgements, as of the last call
  bool sleeps_on_events_ = false;    // has armed a completion queue, without a polling loop since
  unsigned polls_since_wake_ = 0;    // of an application that attends
  bool output_possible_ = false;     // something happened since poll_transmit returned false
  bool cut_short_ = false;           // there was more than kTransmitBurstMax batches
  PostGather gathered_;              // posts that wait for more of them
  std::optional<Transmit> pending_;
  TransmitBuffer buffer_;
};

}  // namespace brdma::io
