// io/shard/shard.cc - rounds of progress: receive, timeouts, notify. Sending: shard_send.cc.
#include "io/shard/shard.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "io/daemon/lease_protocol.h"
#include "io/shard/clock.h"
#include "qp/state/queue_pair.h"

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

}  // namespace

Shard::Shard(const EngineConfig& config, Intake intake, Outlet outlet, Statistics& statistics,
             NotificationHandler* handler)
    : statistics_(statistics),
      handler_(handler),
      intake_(std::move(intake)),
      outlet_(std::move(outlet)),
      slot_(config.slot),
      slot_mask_((1u << config.slot_bits) - 1),
      engine_(config, statistics, nullptr),
      ack_hold_max_(config.recovery.ack_hold_max),
      deferral_(config.recovery.ack_hold_max) {}

std::size_t Shard::poll_cq(CompletionQueue* cq, std::span<Completion> out, std::span<Instant> times) {
  progress_owner_.called();
  stay_for_message_.called();
  std::size_t count = engine_.poll_cq(cq, out, times);
  if (count > 0) {
    polled_well();
    if (linger_.stay()) [[unlikely]]
      stay_for_reply();
    stay_for_message();
  }
  if (count > 0 || engine_.queue_pairs() == 0) return count;
  const auto poll_more = [&](std::size_t got) {
    return engine_.poll_cq(cq, out.subspan(got), times.empty() ? times : times.subspan(got));
  };
  Instant now = monotonic_now();
  const bool due = deadline_ && *deadline_ <= now;
  const bool idle = !due && !pending_ && !cut_short_ && (!gathered_.any() || rest_waits(now));
  if (idle && packets_will_wake()) return 0;
  progress_owner_.looked();
  ReceivedMessage message;
  unsigned received = 0;
  bool found = !out.empty() && (take_message(message, now) || (idle && look_again(message, now)));
  while (found) {
    handle_message(message, now);
    // A full array of the caller is returned at once: further packets can wait for the next call, the caller cannot.
    count += poll_more(count);
    if (++received == 1 && count == out.size() && leaves_for_reply(now)) return count;
    if (received % intake_.messages_per_drain() == 0) drain_but_rest(now);
    found = received < intake_.burst() && count < out.size() && take_message(message, now);
  }
  if (received == 0 && idle) return 0;      // the most frequent case of a polling loop
  if (received > 0) now = monotonic_now();  // held acknowledgements count from here
  handle_due_timeouts(now);
  drain_but_rest(now);
  if (count < out.size()) count += poll_more(count);  // of timeouts
  if (count == 0) {
    progress_owner_.on_empty_poll();
  } else {
    polled_well();
    stay_for_message();
  }
  end_call();
  return count;
}

// The application has armed a completion queue and polls once more before it sleeps, as it must where events come from
// a thread. Here packets in the socket wake it at once. More polls than one mean a loop.
bool Shard::packets_will_wake() {
  constexpr unsigned kPolls = 2;
  if (!sleeps_on_events_ || progress_owner_.thread() != ProgressOwner::Thread::kStandingBy) return false;
  return polls_since_wake_++ < kPolls;
}

void Shard::polled_well() {
  progress_owner_.polled_well(sleeps_on_events_);
  empty_polls_.delivered();
}

// Nothing was there, and nothing is to be done. False: nothing has come since.
bool Shard::look_again(ReceivedMessage& message, Instant& now) {
  unsigned looks = 1;
  const bool again = empty_polls_.look_again(now);
  if (again && (!deadline_ || *deadline_ - now > EmptyPolls::kLastsMax)) {
    for (const unsigned most = intake_.looks_max(); looks < most && !lock_.contended(); ++looks) {
      if (take_message(message, now)) return true;
    }
  }
  progress_owner_.on_empty_poll(looks);
  empty_polls_.ended(monotonic_now());
  return false;
}

// True: the call may end with its first completion. The program plays ping-pong, and the only work left is to hold an
// acknowledgement back for its reply. The other work at a call's end (deadlines above all) takes as long as making that
// reply, which the peer waits for; so the next call does it. Only while the program polls in a loop: if it stops, the
// parked thread notices and does all of a call's work.
bool Shard::leaves_for_reply(Instant now) {
  if (!deferral_.expects_reply() || progress_owner_.thread() != ProgressOwner::Thread::kParked || sleeps_on_events_)
    return false;
  if (pending_ || cut_short_ || gathered_.any() || (deadline_ && *deadline_ <= now)) return false;
  if (!engine_.has_only_ack_pending() || !deferral_.hold_back(now)) return false;
  polled_well();
  // The engine's deadlines are read then: its present output comes first.
  deadline_ = std::min(deadline_.value_or(*deferral_.deadline()), *deferral_.deadline());
  return true;
}

// Until a packet comes, for a moment, and not while another thread waits for the lock.
void Shard::stay_for_reply() {
  ReceivedMessage message;
  Instant now = monotonic_now();
  const Instant until = now + StayForReply::kStayMax;
  bool received = false;
  for (; !received && now < until && !lock_.contended(); now = monotonic_now()) {
    received = take_message(message, now);
    if (received) {
      handle_message(message, now);
    } else {
      progress_owner_.on_empty_poll();
    }
  }
  linger_.stayed(received);
  handle_due_timeouts(now);
  drain(now);
  end_call();
}

// Until the peer's message is complete, if it is partly arrived, and not while another thread waits for the lock. A
// program that sleeps on completion channels leaves its core to the thread, which receives as well.
void Shard::stay_for_message() {
  const QueuePair* const qp = stay_for_message_.take_posted();
  if (qp == nullptr || sleeps_on_events_ || !engine_.only_receives(qp) || !stay_for_message_.stay()) [[likely]]
    return;
  ReceivedMessage message;
  Instant now = monotonic_now();
  const Instant until = now + StayForMessage::kStayMax;
  Instant last_message = now;
  unsigned received = 0;
  while (engine_.only_receives(qp) && now < until && now - last_message < StayForMessage::kSilenceMax &&
         !lock_.contended()) {
    if (take_message(message, now)) {
      handle_message(message, now);
      last_message = now;
      if (++received % intake_.messages_per_drain() != 0) continue;
    } else {
      progress_owner_.on_empty_poll();
      if (progress_owner_.should_yield()) sched_yield();
      now = monotonic_now();
    }
    handle_due_timeouts(now);
    drain(now);
  }
  handle_due_timeouts(now);
  drain(now);
  end_call();
}

Status Shard::post_receive(QueuePair* qp, std::span<const ReceiveRequest> requests, std::size_t& posted) {
  return post_receives(qp, requests, posted);
}
Status Shard::post_receive(SharedReceiveQueue* srq, std::span<const ReceiveRequest> requests, std::size_t& posted) {
  return post_receives(srq, requests, posted);
}

template <class Queue>
Status Shard::post_receives(Queue* queue, std::span<const ReceiveRequest> requests, std::size_t& posted) {
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

void Shard::request_notify(CompletionQueue* cq, bool solicited_only) {
  progress_owner_.called();
  engine_.request_notify(cq, solicited_only);
  progress_owner_.request_charge();
  set_sleeps_on_events(true);
  settle(monotonic_now());
}

// A small packet that comes alone is mostly a request or a reply, with nothing behind it; a check costs as much as the
// packet.
void Shard::attend(bool all, bool then_sleeps) {
  constexpr std::size_t kSmall = 2048;
  constexpr unsigned kBurstsOfAll = 16;  // packets may keep coming; then the thread takes over
  progress_owner_.called();
  progress_owner_.looked();
  set_sleeps_on_events(true);
  polls_since_wake_ = 0;
  Instant now = monotonic_now();
  ReceivedMessage message;
  unsigned received = 0;
  const unsigned most = intake_.burst() * (all ? kBurstsOfAll : 1);
  while (received < most && take_message(message, now)) {
    handle_message(message, now);
    statistics_.add(Counter::kSleeperTook);
    if (++received % intake_.messages_per_drain() == 0) drain(now);
    if (!all && message.bytes.size() <= kSmall) break;
  }
  if (all && received == most) progress_owner_.request_help();
  handle_due_timeouts(now);
  drain(now);
  if (end_call() || !then_sleeps || !deferral_.holding()) return;
  drain(now, Hold::kNo);  // no reply will come
  end_call();
}

// A sleeping program takes longer to reply: its work on a message, and its own wake-up.
void Shard::set_sleeps_on_events(bool sleeps) {
  constexpr Duration kSleeperHolds = 100_us;
  if (sleeps == sleeps_on_events_) return;
  sleeps_on_events_ = sleeps;
  deferral_.set_hold_max(sleeps && ack_hold_max_ > Duration{} ? std::max(kSleeperHolds, ack_hold_max_) : ack_hold_max_);
}

void Shard::before() {
  progress_owner_.called();
  stay_for_message_.forget();
  // A held acknowledgement must not be lost with its queue pair: the peer would resend to nobody until its retries run
  // out.
  output_possible_ = true;
  drain(monotonic_now(), Hold::kNo);
  gathered_.clear();
  if (!pending_) return;
  pollfd writable{blocked_fd(), POLLOUT, 0};
  poll(&writable, 1, kPendingWaitMs);
  const Transmit again = *std::exchange(pending_, std::nullopt);
  if (send_batch(again)) return;
  statistics_.add(Counter::kSendFailed, outlet_.give_up(again));
  pending_.reset();
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
  output_possible_ = true;
  drain(now);
  end_call();
  publish();
}

// Until the socket is empty; bounded, because other senders may keep it filled.
void Shard::send_final_acks(QueuePair* qp) {
  constexpr unsigned kBursts = 16;
  before();
  Instant now = monotonic_now();
  ReceivedMessage message;
  for (unsigned left = kBursts * intake_.burst(); left > 0 && take_message(message, now); --left) {
    handle_message(message, now);
    if (left % intake_.messages_per_drain() == 0) drain(now);
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
    if (++round.received % intake_.messages_per_drain() == 0) drain(now);
  }
  if (round.received > 0) {
    linger_.thread_received();
    stay_for_message_.thread_received();
    now = monotonic_now();
  }
  const bool timeouts = handle_due_timeouts(now);
  const bool sent = drain(now);
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
  now = monotonic_now();
  message.datagram.waited = arrivals_.waited(message.stamp, now);
  return true;
}

bool Shard::is_ours(std::uint32_t qpn) const {
  constexpr std::uint32_t kMulticastQpn = 0xFF'FFFF;  // received by every socket
  return qpn == kMulticastQpn || std::ranges::find(engine_.slots(), qpn & slot_mask_) != engine_.slots().end();
}

void Shard::handle_message(const ReceivedMessage& message, Instant now) {
  constexpr std::size_t kQpn = 5;  // of BTH
  Datagram datagram = message.datagram;
  for (std::size_t offset = 0; offset < message.bytes.size(); offset += message.segment_bytes) {
    datagram.bytes = message.bytes.subspan(offset, std::min(message.segment_bytes, message.bytes.size() - offset));
    // A merged message is steered whole by its first packet; another slot's packet must not reach our queue pairs.
    if (datagram.bytes.size() >= kQpn + 3 && (load_be16(&datagram.bytes[kQpn + 1]) & slot_mask_) != slot_)
        [[unlikely]] {
      if (!is_ours(load_be24(&datagram.bytes[kQpn]))) {
        statistics_.add(Counter::kStrayPackets);
        continue;
      }
    }
    engine_.handle_datagram(datagram, now);
  }
  output_possible_ = true;
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
  output_possible_ = true;
  return true;
}

bool Shard::deliver_notifications() {
  bool completion = false;
  deliver_write_events();
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

void Shard::deliver_write_events() {
  while (const auto arrival = engine_.poll_write_arrival()) {
    if (handler_ != nullptr) handler_->write_event(*arrival);
  }
}

bool Shard::end_call() {
  const bool completion = deliver_notifications();
  find_deadline();
  if (has_pending_output() && progress_owner_.attended()) progress_owner_.request_help();
  progress_owner_.deadline_is(deadline_);
  return completion;
}

void Shard::publish() const {
  if (gauges_ == nullptr) return;
  __atomic_store_n(&gauges_->queue_pairs_max, engine_.recovery().qps_max, __ATOMIC_RELAXED);
  __atomic_store_n(&gauges_->state_bytes_max, engine_.recovery().device_state_bytes_max, __ATOMIC_RELAXED);
}

void Shard::find_deadline() {
  engine_.publish_state_bytes();
  deadline_ = engine_.next_timeout();
  if (pending_) return;  // held output cannot leave before it
  const auto deferred = deferral_.deadline();
  if (deferred && (!deadline_ || *deferred < *deadline_)) deadline_ = deferred;
}

int Shard::blocked_fd() const { return pending_ ? outlet_.blocked_fd(*pending_) : -1; }

}  // namespace brdma::io
