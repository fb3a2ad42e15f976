// io/shard/shard.h - an engine, its sockets and its lock: one leased slot. Application threads and the progress thread
// both drive it; every function but lock() and progress_owner() needs the lock.
//
// An application's call makes progress inline (docs/explanation/datapath.md): a post sends at once; a poll without a
// completion reads the socket. Between calls the progress thread may be in charge (io/shard/progress_thread.h).
//
// It decides nothing about time: SendScheduler decides whether output leaves now or waits, PollPolicy whether a poll
// returns, looks again or stays (io/poll). The shard reports to both what happens, and carries out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bitmaprdma/context.h"
#include "device/engine.h"
#include "io/poll/follow_up_look.h"
#include "io/poll/poll_policy.h"
#include "io/poll/progress_owner.h"
#include "io/poll/send_scheduler.h"
#include "io/shard/arrival_clock.h"
#include "io/shard/batch_sender.h"
#include "io/shard/intake.h"
#include "io/shard/shard_lock.h"
#include "io/shard/slot_filter.h"
#include "io/udp/multicast_groups.h"

namespace brdma::io {

inline constexpr unsigned kTransmitBurstMax = 512;

struct Gauges;

class Shard {
 public:
  // `handler` may be null. The leased socket's descriptor and `statistics` outlive the shard. `poll_stay_max`: bounds
  // each stay of a poll.
  Shard(const EngineConfig& config, Intake intake, Outlet outlet, Statistics& statistics, NotificationHandler* handler,
        Duration poll_stay_max);

  [[nodiscard]] ShardLock& lock() { return lock_; }
  [[nodiscard]] ProgressOwner& progress_owner() { return progress_owner_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  void set_gauges(Gauges* gauges) { gauges_ = gauges; }  // null: none

  // --- the application's calls ---
  std::size_t poll_cq(CompletionQueue* cq, std::span<Completion> out, std::span<Instant> times = {});
  Status post_send(QueuePair* qp, std::span<const SendRequest> requests, std::size_t& posted);
  Status post_send_all(QueuePair* qp, std::span<const SendRequest> requests);  // or none
  template <class Queue>                                                       // QueuePair, SharedReceiveQueue
  Status post_receive(Queue* queue, std::span<const ReceiveRequest> requests, std::size_t& posted);
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
  [[nodiscard]] bool has_pending_output() const { return sender_.pending() || scheduler_.cut_short(); }
  // An acknowledgement waits for the application's reply: let it run.
  [[nodiscard]] bool awaits_reply() const { return scheduler_.holding(); }
  [[nodiscard]] std::array<int, 2> receive_fds() const { return intake_.fds(); }
  [[nodiscard]] const Intake& intake() const { return intake_; }
  [[nodiscard]] const BatchSender& sender() const { return sender_; }
  // Call before the thread sleeps: reads the kernel's drop count.
  void count_drops();
  void count_help();  // an application that should attend did not

 private:
  using Occasion = SendScheduler::Occasion;
  struct Poll;                                                              // a call of poll_cq()
  [[nodiscard]] bool take_message(ReceivedMessage& message, Instant& now);  // `now`: set if there was one
  Instant arrived(ReceivedMessage& message);                                // now; notes how long it had waited
  void handle_message(const ReceivedMessage& message, Instant now);
  bool handle_due_timeouts(Instant now);
  void return_completions();
  void take_for_sleeper(bool all, Instant& now);
  [[nodiscard]] bool leaves_for_reply(Instant now);
  void stay(const QueuePair* qp);
  [[nodiscard]] bool gathers(const QueuePair* qp, std::span<const SendRequest> requests, const Engine::Load& load,
                             Instant now);
  [[nodiscard]] Engine::Load load_of_rest() const;
  bool send(Occasion occasion, Instant now, const Engine::Load* posting = nullptr);
  bool send_batches(std::uint64_t packets, Instant now);
  [[nodiscard]] bool taken(BatchSender::Sent sent);
  bool deliver_notifications();  // true: a completion event
  bool end_call();               // likewise
  void find_deadline();

  ShardLock lock_;
  ProgressOwner progress_owner_;
  Statistics& statistics_;
  NotificationHandler* handler_;
  Gauges* gauges_ = nullptr;
  Intake intake_;
  MulticastGroups groups_;
  BatchSender sender_;
  SlotFilter slots_;
  Engine engine_;
  ArrivalClock arrivals_;
  SendScheduler scheduler_;
  PollPolicy policy_;
  struct Looks {
    FollowUpLook attend, poll;  // of a program that sleeps: in attend(), in a poll
    Instant polled_at;          // the last one of a poll
  };
  Looks looks_;
  std::optional<Instant> deadline_;  // of the engine and of held acknowledgements, as of the last call
};

}  // namespace brdma::io
