// Timing of output: gathered posts, held acknowledgements, batches that the system does not take.
#include <algorithm>
#include <utility>

#include "io/shard/clock.h"
#include "io/shard/shard.h"
#include "memory/guard.h"
#include "qp/state/queue_pair.h"

namespace brdma::io {
namespace {

constexpr std::uint64_t kAllPackets = ~std::uint64_t{0};

}  // namespace

// A post into a full send queue does not count as a call: a program that retries until there is room does not receive,
// and the thread must notice.
Status Shard::post_send(QueuePair* qp, std::span<const SendRequest> requests, std::size_t& posted) {
  const Instant now = monotonic_now();
  const Status status = engine_.post_send(qp, requests, now, posted);
  if (posted > 0) {
    progress_owner_.called();
    deferral_.posted(now);
    empty_polls_.posted();
    const bool write = requests[posted - 1].opcode == WorkOpcode::kRdmaWrite;
    linger_.posted(write && qp->identity().type == QpType::kUc);
    stay_for_message_.posted(write ? qp : nullptr);
    output_possible_ = true;
    if (may_gather(qp, requests.first(posted), now)) return status;  // nothing has left, come or fallen due
    // With nothing else in flight this leaves at once, with held acknowledgements.
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

// Only while the program polls in a loop: if it stops, the parked thread notices, as with an unread acknowledgement.
bool Shard::may_gather(const QueuePair* qp, std::span<const SendRequest> requests, Instant now) {
  if (progress_owner_.thread() != ProgressOwner::Thread::kParked || sleeps_on_events_ || pending_) return false;
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

// Sends gathered posts that fill batches. False: nothing has happened.
bool Shard::send_full_batches(Instant now) {
  const QueuePair* const qp = gathered_.from();
  if (qp == nullptr || pending_) return false;
  const std::uint64_t full = gathered_.full(engine_.packets_per_batch(qp), engine_.packets_in_flight(qp));
  if (full == 0 || !engine_.only_begins_requests(qp)) return false;
  PostGather rest = gathered_;
  rest.sent(full, now);
  gathered_.clear();
  send_batches(full, now);
  if (output_possible_ && !pending_ && !cut_short_) gathered_ = rest;  // else fewer left, or all
  return true;
}

bool Shard::rest_waits(Instant now) const {
  return gathered_.any_rest() && gathered_.from() != nullptr &&
         gathered_.rest_waits(engine_.packets_in_flight(gathered_.from()), now);
}

// For polls that have received: the rest continues to wait, unless there is other output as well.
void Shard::drain_but_rest(Instant now) {
  if (rest_waits(now) && !pending_ && engine_.only_begins_requests(gathered_.from())) return;
  drain(now);
}

// Holding back is for calls in quick succession, or for a thread that keeps the deadline. A blocked thread would have
// to be woken for it, which costs more than the acknowledgement. Exception: the program polls in a loop again and the
// thread has not noticed yet. The first separate acknowledgement would make the peer wait for its own thread, which
// then blocks in turn: two programs that poll their memory would never get in step again. A program that sleeps on
// completion channels and takes its packets itself holds back until it has replied, or goes to sleep again; the thread,
// which stands by, has the deadline.
bool Shard::may_hold_back() {
  if (sleeps_on_events_ && progress_owner_.application_spins()) set_sleeps_on_events(false);
  if (sleeps_on_events_)
    return progress_owner_.attended() && progress_owner_.thread() == ProgressOwner::Thread::kStandingBy;
  return progress_owner_.thread() != ProgressOwner::Thread::kBlocked || progress_owner_.application_spins();
}

// Sends the engine's output. True: something left.
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

// Sends batches until `packets` have left, or all. True: something left.
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
  progress_owner_.request_charge();  // there is more, and the application may not call again
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
  if (report.fault) [[unlikely]]
    lose(transmit);
  return true;
}

// The system reports the batch's memory as missing. If we can read it, the packets count as lost on the network.
void Shard::lose(const Transmit& transmit) {
  const bool there =
      std::ranges::all_of(transmit.slices, [](const Slice& slice) { return memory::can_read(slice.data, slice.size); });
  if (there) return statistics_.add(Counter::kSendFailed, transmit.segments);
  engine_.withdraw(monotonic_now());
  output_possible_ = true;
}

}  // namespace brdma::io
