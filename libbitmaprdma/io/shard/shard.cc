// io/shard/shard.cc - rounds of progress: receive, timeouts, notify. Sending: shard_send.cc.
#include "io/shard/shard.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "io/daemon/lease_protocol.h"
#include "io/shard/clock.h"

namespace brdma::io {
namespace {

// enum ibv_event_type; this folder does not see libibverbs.
int verbs_event(Notification::Kind kind) {
  switch (kind) {
    case Notification::Kind::kCqError:
      return 0;
    case Notification::Kind::kQpFatal:
      return 1;
    case Notification::Kind::kQpRequestError:
      return 2;
    case Notification::Kind::kQpAccessError:
      return 3;
    case Notification::Kind::kCommEstablished:
      return 4;
    case Notification::Kind::kSqDrained:
      return 5;
    case Notification::Kind::kSrqLimitReached:
      return 15;
    case Notification::Kind::kLastWqeReached:
      return 16;
    case Notification::Kind::kCompletion:
      break;
  }
  return -1;
}

constexpr unsigned kLooksPerMicrosecond = 3;
constexpr Duration kAnyAge = 3600_s;

}  // namespace

Shard::Shard(const EngineConfig& config, Intake intake, Outlet outlet, Statistics& statistics,
             NotificationHandler* handler, Duration poll_stay_max)
    : statistics_(statistics),
      handler_(handler),
      intake_(std::move(intake)),
      sender_(std::move(outlet), statistics),
      slots_(config.slot, config.slot_bits),
      engine_(config, statistics, nullptr),
      scheduler_(config.recovery.ack_hold_max),
      policy_(poll_stay_max) {}

// The caller's arrays, and what the call has found so far.
struct Shard::Poll {
  Shard& shard;
  CompletionQueue* cq;
  std::span<Completion> out;
  std::span<Instant> times;
  std::size_t count = 0;
  unsigned received = 0;  // messages

  [[nodiscard]] bool full() const { return count == out.size(); }
  [[gnu::always_inline]] void take_completions() {
    count += shard.engine_.poll_cq(cq, out.subspan(count), times.empty() ? times : times.subspan(count));
  }
  [[nodiscard]] bool receive(bool idle, Instant& now);
  [[nodiscard]] bool look_again(ReceivedMessage& message, Instant& now) const;
  [[nodiscard]] bool leaves_look_out(Instant now) const;
};

// Until the arrays are full, the sockets empty, or a burst has come. True: the call ends with its first completion.
[[gnu::always_inline]] inline bool Shard::Poll::receive(bool idle, Instant& now) {
  ReceivedMessage message;
  bool found = !out.empty() && (shard.take_message(message, now) || (idle && look_again(message, now)));
  while (found) {
    shard.handle_message(message, now);
    // A full array of the caller is returned at once: further packets can wait for the next call, the caller cannot.
    take_completions();
    if (++received == 1 && full() && shard.leaves_for_reply(now)) return true;
    if (received % shard.intake_.messages_per_drain() == 0) shard.send(Occasion::kPoll, now);
    found = received < shard.intake_.burst() && !full() && shard.take_message(message, now);
  }
  return false;
}

// A packet that waits wakes the program, or the program has polled for long and looked just now.
inline bool Shard::Poll::leaves_look_out(Instant now) const {
  constexpr Duration kPacketAge = 10_us;  // a program that has worked since may get more for its look
  constexpr Duration kBetweenLooks = 1_us;
  if (shard.progress_owner_.packets_wake() && shard.looks_.poll.leaves_out(now, kPacketAge)) {
    shard.statistics_.add(Counter::kSleeperLooksSaved);
  } else if (!shard.progress_owner_.polls_in_vain() || now - shard.looks_.polled_at >= kBetweenLooks) {
    return false;
  }
  shard.progress_owner_.on_empty_poll(0);
  return true;
}

// Nothing was there, and nothing is to be done. False: nothing has come since.
inline bool Shard::Poll::look_again(ReceivedMessage& message, Instant& now) const {
  unsigned looks = 1;
  if (shard.progress_owner_.polls_in_vain()) {
    looks = kLooksPerMicrosecond;
  } else if (shard.policy_.looks_again(shard.progress_owner_.driver(), shard.deadline_, now)) {
    for (const unsigned most = shard.intake_.looks_max(); looks < most && !shard.lock_.contended(); ++looks) {
      if (shard.take_message(message, now)) return true;
    }
  }
  shard.progress_owner_.on_empty_poll(looks);
  shard.policy_.on_empty(monotonic_now());
  return false;
}

// A poll returns nothing only after a look at the socket behind its look at the queue: the program may not poll again.
std::size_t Shard::poll_cq(CompletionQueue* cq, std::span<Completion> out, std::span<Instant> times) {
  progress_owner_.called();
  policy_.on_poll();
  Poll poll{*this, cq, out, times};
  poll.take_completions();
  if (poll.count > 0) return_completions();
  if (poll.count > 0 || engine_.queue_pairs() == 0) return poll.count;
  Instant now = monotonic_now();
  const bool due = deadline_ && *deadline_ <= now;
  const bool idle = !due && !sender_.pending() && scheduler_.idle(load_of_rest(), now);
  if (idle && poll.leaves_look_out(now)) return 0;
  progress_owner_.looked();
  looks_.polled_at = now;
  if (poll.receive(idle, now)) return poll.count;
  if (progress_owner_.packets_wake()) looks_.poll.on_look(poll.received > 0);
  if (poll.received == 0 && idle) return 0;      // the most frequent case of a polling loop
  if (poll.received > 0) now = monotonic_now();  // held acknowledgements count from here
  handle_due_timeouts(now);
  send(Occasion::kPoll, now);
  if (!poll.full()) poll.take_completions();  // of timeouts
  if (poll.count == 0) {
    progress_owner_.on_empty_poll();
  } else {
    return_completions();
  }
  end_call();
  return poll.count;
}

// A poll has completions.
void Shard::return_completions() {
  progress_owner_.polled_well();
  policy_.on_completions();
  const QueuePair* const qp = policy_.take_posted(progress_owner_.driver());
  if (qp != nullptr && policy_.stays(engine_.load(qp))) [[unlikely]]
    stay(qp);
}

// True: the call ends with its first completion, and leaves the rest of its work to the next call.
bool Shard::leaves_for_reply(Instant now) {
  if (!scheduler_.expects_reply(progress_owner_.driver(), sender_.pending())) return false;
  if (deadline_ && *deadline_ <= now) return false;
  if (engine_.has_notifications() || !scheduler_.holds_for_reply(engine_.transmit_interest().level, now)) return false;
  progress_owner_.polled_well();
  policy_.on_completions();
  // The engine's deadlines are read then: its present output comes first.
  deadline_ = std::min(deadline_.value_or(*scheduler_.deadline()), *scheduler_.deadline());
  return true;
}

// For what the peer is expected to send over `qp`, and not while another thread waits for the lock.
void Shard::stay(const QueuePair* qp) {
  ReceivedMessage message;
  Instant now = monotonic_now();
  unsigned received = 0;
  policy_.on_stay_begins(now);
  while (policy_.goes_on(engine_.load(qp), now) && !lock_.contended()) {
    if (take_message(message, now)) {
      handle_message(message, now);
      policy_.on_stay_packet(now);
      if (++received % intake_.messages_per_drain() != 0) continue;
    } else {
      progress_owner_.on_empty_poll();
      if (progress_owner_.should_yield()) sched_yield();
      now = monotonic_now();
    }
    handle_due_timeouts(now);
    send(Occasion::kRound, now);
  }
  policy_.on_stay_ends(engine_.load(qp), now);
  handle_due_timeouts(now);
  send(Occasion::kRound, now);
  end_call();
}

template <class Queue>
Status Shard::post_receive(Queue* queue, std::span<const ReceiveRequest> requests, std::size_t& posted) {
  progress_owner_.called();
  const Instant now = monotonic_now();
  Status status;
  for (posted = 0; posted < requests.size() && status.ok();) {
    status = engine_.post_receive(queue, requests[posted], now);
    if (status.ok()) ++posted;
  }
  settle(now);
  return status;
}

template Status Shard::post_receive(QueuePair*, std::span<const ReceiveRequest>, std::size_t&);
template Status Shard::post_receive(SharedReceiveQueue*, std::span<const ReceiveRequest>, std::size_t&);

void Shard::request_notify(CompletionQueue* cq, bool solicited_only) {
  progress_owner_.called();
  engine_.request_notify(cq, solicited_only);
  progress_owner_.request_charge();
  progress_owner_.sleeps();
  settle(monotonic_now());
}

void Shard::attend(bool all, bool then_sleeps) {
  progress_owner_.called();
  progress_owner_.sleeps();
  Instant now = monotonic_now();
  if (looks_.attend.leaves_out(now, kAnyAge)) {
    statistics_.add(Counter::kSleeperLooksSaved);
  } else {
    progress_owner_.looked();
    take_for_sleeper(all, now);
  }
  handle_due_timeouts(now);
  send(Occasion::kRound, now);
  if (end_call() || !then_sleeps || !scheduler_.holding()) return;
  send(Occasion::kLeave, now);  // no reply will come
  end_call();
}

// Until nothing is left, or a burst has come. A look behind each packet is cheaper than being woken by the next.
void Shard::take_for_sleeper(bool all, Instant& now) {
  constexpr unsigned kBurstsOfAll = 16;  // packets may keep coming; then the thread takes over
  ReceivedMessage message;
  unsigned received = 0;
  bool last = false;
  const unsigned most = intake_.burst() * (all ? kBurstsOfAll : 1);
  while ((received < most || intake_.has_next()) && !last && intake_.receive_and_look(message, last)) {
    now = arrived(message);
    if (received == 0) looks_.attend.on_look(true);
    handle_message(message, now);
    statistics_.add(Counter::kSleeperTook);
    const Instant came = message.stamp != 0 ? now - message.datagram.waited : Instant{};
    looks_.attend.on_packet(came, last, now);
    looks_.poll.on_packet(came, last, now);
    if (++received % intake_.messages_per_drain() == 0) send(Occasion::kRound, now);
  }
  if (received == 0) looks_.attend.on_look(false);
  if (all && !last && received >= most) progress_owner_.request_help();
}

void Shard::before() {
  progress_owner_.called();
  policy_.forget();
  // A held acknowledgement must not be lost with its queue pair: the peer would resend to nobody until its retries run
  // out.
  scheduler_.on_event();
  send(Occasion::kLeave, monotonic_now());
  scheduler_.forget();
  if (sender_.pending()) (void)taken(sender_.finish_pending());
}

Status Shard::attach_multicast(QueuePair* qp, const IpAddress& group, std::uint32_t ifindex) {
  if (const Status attached = engine_.attach_multicast(qp, group); !attached.ok()) return attached;
  intake_.take_multicast(true);
  const Status joined = groups_.join(group, ifindex);
  if (!joined.ok()) (void)detach_multicast(qp, group);
  return joined;
}

Status Shard::detach_multicast(QueuePair* qp, const IpAddress& group) {
  if (const Status detached = engine_.detach_multicast(qp, group); !detached.ok()) return detached;
  if (!engine_.has_members(group)) groups_.leave(group);
  if (groups_.empty()) intake_.take_multicast(false);
  return Status::success();
}

void Shard::settle(Instant now) {
  scheduler_.on_event();
  send(Occasion::kRound, now);
  end_call();
  if (gauges_ == nullptr) return;
  __atomic_store_n(&gauges_->queue_pairs_max, engine_.recovery().qps_max, __ATOMIC_RELAXED);
  __atomic_store_n(&gauges_->state_bytes_max, engine_.recovery().device_state_bytes_max, __ATOMIC_RELAXED);
}

// Until the socket is empty; bounded, because other senders may keep it filled.
void Shard::send_final_acks(QueuePair* qp) {
  constexpr unsigned kBursts = 16;
  before();
  Instant now = monotonic_now();
  ReceivedMessage message;
  for (unsigned left = kBursts * intake_.burst(); left > 0 && take_message(message, now); --left) {
    handle_message(message, now);
    if (left % intake_.messages_per_drain() == 0) send(Occasion::kRound, now);
  }
  engine_.send_final_acks(qp);
  settle(now);
}

Shard::Round Shard::make_progress() {
  Round round;
  Instant now = monotonic_now();
  ReceivedMessage message;
  while (round.received < intake_.burst() && take_message(message, now)) {
    handle_message(message, now);
    if (++round.received % intake_.messages_per_drain() == 0) send(Occasion::kRound, now);
  }
  if (round.received > 0) {
    policy_.on_thread_received();
    now = monotonic_now();
  }
  const bool timeouts = handle_due_timeouts(now);
  const bool sent = send(Occasion::kRound, now);
  round.busy = round.received > 0 || timeouts || sent;
  deliver_notifications();
  find_deadline();
  return round;
}

// Read the clock after taking the message. Otherwise, if our core is lost in between, the round trip appears shorter
// than the path's. The sender takes the minimum as the path's own, and its window shrinks to a part of the path's
// capacity.
bool Shard::take_message(ReceivedMessage& message, Instant& now) {
  if (!intake_.receive(message)) return false;
  now = arrived(message);
  return true;
}

Instant Shard::arrived(ReceivedMessage& message) {
  const Instant now = monotonic_now();
  message.datagram.waited = arrivals_.waited(message.stamp, now);
  return now;
}

void Shard::handle_message(const ReceivedMessage& message, Instant now) {
  Datagram datagram = message.datagram;
  for (std::size_t offset = 0; offset < message.bytes.size(); offset += message.segment_bytes) {
    datagram.bytes = message.bytes.subspan(offset, std::min(message.segment_bytes, message.bytes.size() - offset));
    if (!slots_.passes(datagram.bytes, engine_.slots())) [[unlikely]] {
      statistics_.add(Counter::kStrayPackets);
      continue;
    }
    engine_.handle_datagram(datagram, now);
  }
  scheduler_.on_event();
  if (message.by_xdp) {
    statistics_.add(Counter::kXdpReceived);
    if (const std::uint64_t bad = intake_.take_unreadable(); bad > 0) [[unlikely]]
      statistics_.add(Counter::kXdpUnreadable, bad);
  }
  if (const std::uint64_t lost = intake_.take_overflow(); lost > 0) [[unlikely]]
    statistics_.add(Counter::kSocketOverflow, lost);
}

void Shard::count_help() { statistics_.add(Counter::kSleeperHelped); }

void Shard::count_drops() {
  if (const std::uint64_t lost = intake_.take_drops(); lost > 0) statistics_.add(Counter::kSocketOverflow, lost);
}

bool Shard::handle_due_timeouts(Instant now) {
  const auto due = engine_.next_timeout();
  if (!due || *due > now) return false;
  engine_.handle_timeout(now);
  scheduler_.on_event();
  return true;
}

bool Shard::deliver_notifications() {
  bool completion = false;
  while (const auto arrival = engine_.poll_write_arrival()) {
    if (handler_ != nullptr) handler_->write_event(*arrival);
  }
  while (const auto notification = engine_.poll_notification()) {
    if (notification->kind == Notification::Kind::kCompletion) {
      progress_owner_.notified();
      completion = true;
      if (handler_ != nullptr) handler_->completion_event(notification->user);
    } else if (handler_ != nullptr) {
      handler_->async_event(verbs_event(notification->kind), notification->user);
    }
  }
  return completion;
}

bool Shard::end_call() {
  const bool completion = deliver_notifications();
  find_deadline();
  if (has_pending_output() && progress_owner_.attended()) progress_owner_.request_help();
  progress_owner_.deadline_is(deadline_);
  return completion;
}

void Shard::find_deadline() {
  engine_.publish_state_bytes();
  deadline_ = engine_.next_timeout();
  if (sender_.pending()) return;  // held output cannot leave before it
  const auto deferred = scheduler_.deadline();
  if (deferred && (!deadline_ || *deferred < *deadline_)) deadline_ = deferred;
}

}  // namespace brdma::io
