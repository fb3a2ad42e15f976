// io/shard.cc - rounds of progress: receive, timeouts, send, notify.
#include "io/shard.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "io/clock.h"
#include "io/lease_protocol.h"
#include "qp/queue_pair.h"

namespace brdma::io {
namespace {

constexpr std::uint64_t kAllPackets = ~std::uint64_t{0};

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
      deferral_(config.recovery.ack_hold_max) {}

std::size_t Shard::poll_cq(CompletionQueue* cq, std::span<Completion> out, std::span<Instant> times) {
  attendance_.called();
  message_linger_.called();
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
  ReceivedMessage message;
  unsigned received = 0;
  bool found = !out.empty() && (take_message(message, now) || (idle && look_again(message, now)));
  while (found) {
    handle_message(message, now);
    // As soon as the caller's array is full he gets it: what else came can wait for his next call, he cannot.
    count += poll_more(count);
    if (++received == 1 && count == out.size() && leaves_for_reply(now)) return count;
    if (received % intake_.messages_per_drain() == 0) drain_but_rest(now);
    found = received < intake_.burst() && count < out.size() && take_message(message, now);
  }
  if (received == 0 && idle) return 0;      // what a program that polls in a loop sees most often
  if (received > 0) now = monotonic_now();  // what holds an acknowledgement back counts from here
  handle_due_timeouts(now);
  drain_but_rest(now);
  if (count < out.size()) count += poll_more(count);  // of timeouts
  if (count == 0) {
    attendance_.polled_in_vain();
  } else {
    polled_well();
    stay_for_message();
  }
  end_call();
  return count;
}

void Shard::polled_well() {
  attendance_.polled_well(sleeps_on_events_);
  vain_polls_.delivered();
}

// Nothing was there, and nothing is to be done. False: nothing has come since.
bool Shard::look_again(ReceivedMessage& message, Instant& now) {
  unsigned looks = 1;
  if (vain_polls_.look_again(now)) {
    for (const unsigned most = intake_.looks_max(); looks < most && !lock_.contended(); ++looks) {
      if (take_message(message, now)) return true;
    }
  }
  attendance_.polled_in_vain(looks);
  vain_polls_.ended(monotonic_now());
  return false;
}

// Whether the call may end with what came first: the program plays ping-pong, and all that is left to do is to hold an
// acknowledgement back for its reply. What else a call does at its end (deadlines above all) takes as long as making
// that reply, which its peer waits for; so the program gets its completion now, and the next call does it. Only while
// the program polls in a loop: should it stop, the parked thread sees that and does all that a call does.
bool Shard::leaves_for_reply(Instant now) {
  if (!deferral_.expects_reply() || attendance_.thread() != Attendance::Thread::kParked || sleeps_on_events_)
    return false;
  if (pending_ || cut_short_ || gathered_.any() || (deadline_ && *deadline_ <= now)) return false;
  if (!engine_.owes_only_acknowledgement() || !deferral_.hold_back(now)) return false;
  polled_well();
  // The engine's deadlines are asked then: what it owes now comes first.
  deadline_ = std::min(deadline_.value_or(*deferral_.deadline()), *deferral_.deadline());
  return true;
}

// Until something comes, for a moment, and not where somebody else wants to go on.
void Shard::stay_for_reply() {
  ReceivedMessage message;
  Instant now = monotonic_now();
  const Instant until = now + ReplyLinger::kStayMax;
  bool received = false;
  for (; !received && now < until && !lock_.contended(); now = monotonic_now()) {
    received = take_message(message, now);
    if (received) {
      handle_message(message, now);
    } else {
      attendance_.polled_in_vain();
    }
  }
  linger_.stayed(received);
  handle_due_timeouts(now);
  drain(now);
  end_call();
}

// Until the peer's message is whole, if it is in the midst of arriving, and not where somebody else wants to go on. A
// program that sleeps on completion channels leaves its core to the thread, which receives as well.
void Shard::stay_for_message() {
  const QueuePair* const qp = message_linger_.take_posted();
  if (qp == nullptr || sleeps_on_events_ || !engine_.only_receives(qp) || !message_linger_.stay()) [[likely]]
    return;
  ReceivedMessage message;
  Instant now = monotonic_now();
  const Instant until = now + MessageLinger::kStayMax;
  Instant heard = now;
  unsigned received = 0;
  while (engine_.only_receives(qp) && now < until && now - heard < MessageLinger::kSilenceMax && !lock_.contended()) {
    if (take_message(message, now)) {
      handle_message(message, now);
      heard = now;
      if (++received % intake_.messages_per_drain() != 0) continue;
    } else {
      attendance_.polled_in_vain();
      if (attendance_.should_yield()) sched_yield();
      now = monotonic_now();
    }
    handle_due_timeouts(now);
    drain(now);
  }
  handle_due_timeouts(now);
  drain(now);
  end_call();
}

// A post that finds the send queue full is no call: a program that posts again and again until there is room does not
// receive, and the thread must see that nobody does.
Status Shard::post_send(QueuePair* qp, std::span<const SendRequest> requests, std::size_t& posted) {
  const Instant now = monotonic_now();
  const Status status = engine_.post_send(qp, requests, now, posted);
  if (posted > 0) {
    attendance_.called();
    deferral_.posted(now);
    vain_polls_.posted();
    const bool write = requests[posted - 1].opcode == WorkOpcode::kRdmaWrite;
    linger_.posted(write && qp->identity().type == QpType::kUc);
    message_linger_.posted(write ? qp : nullptr);
    output_possible_ = true;
    if (may_gather(qp, requests.first(posted), now)) return status;  // nothing has left, come or fallen due
    // Where nothing else is on its way this leaves at once, and what was held back with it.
    if (!send_full_batches(now)) drain(now, engine_.packets_in_flight(qp) == 0 ? Hold::kNo : Hold::kAllowed);
    end_call();
  }
  return status;
}

Status Shard::post_send_all(QueuePair* qp, std::span<const SendRequest> requests) {
  if (requests.size() > 1) {
    if (const Status status = engine_.check_send(qp, requests); !status.ok()) return status;
  }
  std::size_t posted = 0;
  return post_send(qp, requests, posted);
}

// Only while the program polls in a loop: should it stop, the parked thread sees it as it would see an acknowledgement
// that nobody fetches.
bool Shard::may_gather(const QueuePair* qp, std::span<const SendRequest> requests, Instant now) {
  if (attendance_.thread() != Attendance::Thread::kParked || sleeps_on_events_ || pending_) return false;
  if (!qp->identity().can_send()) return false;
  const std::uint32_t mtu = qp->identity().mtu();
  PostGather::Posts posts{.from = qp, .count = static_cast<unsigned>(requests.size())};
  bool even = true;
  for (const SendRequest& request : requests) {
    std::uint64_t bytes = 0;
    for (const Sge& sge : request.sges) bytes += sge.length;
    even = even && bytes >= mtu && bytes % mtu == 0;
    posts.bytes += bytes;
  }
  if (even) posts.packets = posts.bytes / mtu;
  return gathered_.add(posts, engine_.packets_in_flight(qp), engine_.packets_awaited(qp), now);
}

// What was gathered, but for what does not fill a batch. False: nothing has happened.
bool Shard::send_full_batches(Instant now) {
  const QueuePair* const qp = gathered_.from();
  if (qp == nullptr || pending_) return false;
  const std::uint64_t full = gathered_.full(engine_.packets_per_batch(qp), engine_.packets_in_flight(qp));
  if (full == 0 || !engine_.only_begins_requests(qp)) return false;
  PostGather rest = gathered_;
  rest.sent(full, now);
  gathered_.clear();
  send_batches(full, now);
  if (output_possible_ && !pending_ && !cut_short_) gathered_ = rest;  // else less left, or all
  return true;
}

bool Shard::rest_waits(Instant now) const {
  return gathered_.any_rest() && gathered_.from() != nullptr &&
         gathered_.rest_waits(engine_.packets_in_flight(gathered_.from()), now);
}

// For polls that have received: the rest goes on waiting, unless there is something else to send as well.
void Shard::drain_but_rest(Instant now) {
  if (rest_waits(now) && !pending_ && engine_.only_begins_requests(gathered_.from())) return;
  drain(now);
}

Status Shard::post_receive(QueuePair* qp, std::span<const ReceiveRequest> requests, std::size_t& posted) {
  return post_receives(qp, requests, posted);
}
Status Shard::post_receive(SharedReceiveQueue* srq, std::span<const ReceiveRequest> requests, std::size_t& posted) {
  return post_receives(srq, requests, posted);
}

template <class Queue>
Status Shard::post_receives(Queue* queue, std::span<const ReceiveRequest> requests, std::size_t& posted) {
  attendance_.called();
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
  attendance_.called();
  engine_.request_notify(cq, solicited_only);
  attendance_.request_charge();
  sleeps_on_events_ = true;
  settle(monotonic_now());
}

void Shard::before() {
  attendance_.called();
  message_linger_.forget();
  // An acknowledgement that is still held back must not be lost with the queue pair that owes it: its peer would resend
  // to nobody until its retries run out.
  output_possible_ = true;
  drain(monotonic_now(), Hold::kNo);
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

// Until the socket is empty; but more may come all the time, as long as others send.
void Shard::take_leave(QueuePair* qp) {
  constexpr unsigned kBursts = 16;
  before();
  Instant now = monotonic_now();
  ReceivedMessage message;
  for (unsigned left = kBursts * intake_.burst(); left > 0 && take_message(message, now); --left) {
    handle_message(message, now);
    if (left % intake_.messages_per_drain() == 0) drain(now);
  }
  engine_.take_leave(qp);
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
    message_linger_.thread_received();
    now = monotonic_now();
  }
  const bool timeouts = handle_due_timeouts(now);
  const bool sent = drain(now);
  round.busy = round.received > 0 || timeouts || sent;
  deliver_notifications();
  find_deadline();
  return round;
}

// The clock is read when the message is in our hands. Were it read before, and our core lost in between, the round trip
// would be found shorter than the path is: the sender takes the smallest for what the path needs, and its window
// shrinks to a part of what it holds.
bool Shard::take_message(ReceivedMessage& message, Instant& now) {
  if (!intake_.receive(message)) return false;
  now = monotonic_now();
  message.datagram.waited = arrivals_.waited(message.stamp, now);
  return true;
}

void Shard::handle_message(const ReceivedMessage& message, Instant now) {
  constexpr std::size_t kQpn = 5, kQpnLowByte = 7;    // of BTH
  constexpr std::uint32_t kMulticastQpn = 0xFF'FFFF;  // which every socket gets
  Datagram datagram = message.datagram;
  for (std::size_t offset = 0; offset < message.bytes.size(); offset += message.segment_bytes) {
    datagram.bytes = message.bytes.subspan(offset, std::min(message.segment_bytes, message.bytes.size() - offset));
    // A merged message is steered whole by its first packet; another slot's packet must not reach our queue pairs.
    if (datagram.bytes.size() > kQpnLowByte && (load_u8(&datagram.bytes[kQpnLowByte]) & slot_mask_) != slot_ &&
        load_be24(&datagram.bytes[kQpn]) != kMulticastQpn) [[unlikely]] {
      statistics_.add(Counter::kStrayPackets);
      continue;
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

// Holding back is for calls that follow each other closely, or for a thread that watches the deadline; a blocked one
// would have to be woken for it, which costs more than the acknowledgement; but where the program polls in a loop
// again, the thread just has not noticed yet, and the first acknowledgement that left alone would make the peer wait
// for its own thread, which then is blocked in turn: two programs that poll their memory would never get in step again.
// And not for a program that sleeps on completion channels: waking it takes longer than anything that could be saved,
// and its peer, most likely of the same kind, expects the completion of its send before the reply to it (ib_send_lat -e
// goes wrong otherwise).
bool Shard::may_hold_back() {
  if (sleeps_on_events_ && attendance_.application_spins()) sleeps_on_events_ = false;
  if (sleeps_on_events_) return false;
  return attendance_.thread() != Attendance::Thread::kBlocked || attendance_.application_spins();
}

// Sends what the engine has. True: something left.
bool Shard::drain(Instant now, Hold hold) {
  bool sent = false;
  if (pending_) {
    const Transmit again = *std::exchange(pending_, std::nullopt);
    if (!send_batch(again)) return false;
    sent = true;
  }
  if (!output_possible_) return sent;
  cut_short_ = false;
  gathered_.clear();
  if (hold == Hold::kAllowed || deferral_.holding()) {
    const bool deferrable = engine_.only_deferrable_output();
    if (hold == Hold::kAllowed && deferrable && may_hold_back() && deferral_.hold_back(now)) return sent;
    deferral_.sent(!deferrable);
  }
  return send_batches(kAllPackets, now) || sent;
}

// Batches until so many packets have left, or all. True: something left.
bool Shard::send_batches(std::uint64_t packets, Instant now) {
  bool sent = false;
  cut_short_ = false;
  Transmit transmit;
  for (unsigned i = 0; i < kTransmitBurstMax; ++i) {
    const bool all_sent = engine_.all_sent();
    if (i > 0 && !all_sent) now = monotonic_now();  // a batch takes microseconds, and carries timestamps
    if (all_sent || !engine_.poll_transmit(buffer_, transmit, now)) {
      output_possible_ = false;
      return sent;
    }
    if (!send_batch(transmit)) return sent;
    sent = true;
    packets -= std::min<std::uint64_t>(packets, transmit.segments);
    if (packets == 0) return sent;
  }
  cut_short_ = true;
  attendance_.request_charge();  // there is more, and the application may not call again
  return sent;
}

// False: the system cannot take it now; it is pending.
bool Shard::send_batch(const Transmit& transmit) {
  const SendReport report = outlet_.send(transmit);
  if (report.refused > 0) [[unlikely]]
    statistics_.add(Counter::kSendFailed, report.refused);
  if (report.unreachable) [[unlikely]]
    statistics_.add(Counter::kPeerUnreachable);
  if (report.blocked) [[unlikely]] {
    statistics_.add(Counter::kSendBlocked);
    pending_ = transmit;
    return false;
  }
  return true;
}

void Shard::deliver_notifications() {
  deliver_write_events();
  while (const auto notification = engine_.poll_notification()) {
    if (notification->kind == Notification::Kind::kCompletion) {
      attendance_.notified();
      if (handler_ != nullptr) handler_->completion_event(notification->user);
    } else if (handler_ != nullptr) {
      handler_->async_event(verbs_event(notification->kind), notification->user);
    }
  }
}

void Shard::deliver_write_events() {
  while (const auto arrival = engine_.poll_write_arrival()) {
    if (handler_ != nullptr) handler_->write_event(*arrival);
  }
}

void Shard::end_call() {
  deliver_notifications();
  find_deadline();
  attendance_.deadline_is(deadline_);
}

void Shard::publish() const {
  if (gauges_ == nullptr) return;
  __atomic_store_n(&gauges_->queue_pairs_max, engine_.recovery().qps_max, __ATOMIC_RELAXED);
  __atomic_store_n(&gauges_->state_bytes_max, engine_.recovery().device_state_bytes_max, __ATOMIC_RELAXED);
}

void Shard::find_deadline() {
  engine_.publish_state_bytes();
  deadline_ = engine_.next_timeout();
  if (pending_) return;  // what is held back cannot leave before it
  const auto deferred = deferral_.deadline();
  if (deferred && (!deadline_ || *deferred < *deadline_)) deadline_ = deferred;
}

int Shard::blocked_fd() const { return pending_ ? outlet_.blocked_fd(*pending_) : -1; }

}  // namespace brdma::io
