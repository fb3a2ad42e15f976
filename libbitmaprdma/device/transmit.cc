// Output: queue pairs in turn. Packets of several share a batch, which is one system call, if they go to the same
// socket of the same peer by the same path, and fit (QueuePair::joins): with many queue pairs of few packets each,
// system calls dominate the cost. Queue pairs inside a large command come after the others (registry/command_queues.h).
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/engine_impl.h"
#include "qp/turn/transmission.h"

namespace brdma {

bool Engine::poll_transmit(TransmitBuffer& buffer, Transmit& out, Instant now) {
  Impl& me = *impl_;
  me.now = now;
  if (me.schedule.given_out() != nullptr) [[unlikely]]
    me.hand_over();
  me.settle();
  while (QueuePair* qp = me.schedule.front()) {
    qp::TransmitBatch batch(buffer, me.settings.config);
    do me.take_turn(qp, batch);
    while ((qp = me.schedule.front()) != nullptr && me.schedule.given_out() == nullptr && qp->joins(batch));
    BRDMA_CHECK_SLOW(me.touched_pairs.empty() && qp == me.schedule.front());
    out.more = qp != nullptr || me.schedule.given_out() != nullptr;
    if (!batch.finish(out)) continue;
    me.schedule.set_batch_made(now);
    if (!batch.faulted()) [[likely]]
      return true;
    me.withdraw();
  }
  return false;
}

void Engine::withdraw(Instant now) {
  impl_->now = now;
  impl_->withdraw();
}

// The owners of the batch's packets are not recorded: each queue pair knows when it sent.
void Engine::Impl::withdraw() {
  memory.be_careful();
  schedule.take_given_out();
  queue_pairs.for_each([this](QueuePair* qp) {
    qp->withdraw(schedule.batch_made(), now);
    touched(qp);
  });
  settle();
}

// `qp`, first of the ready ones, adds its share to the batch.
void Engine::Impl::take_turn(QueuePair* qp, qp::TransmitBatch& batch) {
  const bool large = qp->ready_queue == registry::ReadyQueue::kLarge;
  if (!schedule.begin_turn(qp, large)) return;
  const std::size_t packets_before = batch.packets(), bytes_before = batch.bytes();
  // A queue pair that sent is next again while it has more. One that did not waits for the next event, unless there was
  // no room.
  const bool more = qp->poll_transmit(batch, now) != TransmitInterest::kNone;
  const std::size_t packets = batch.packets() - packets_before, bytes = batch.bytes() - bytes_before;
  if (packets > 0) {
    schedule.sent(qp, large);
    environment.count(Counter::kSentPackets, packets);
    environment.count(Counter::kSentBytes, bytes);
  }
  qp->begins_batch = more;
  note_changes(qp);
  schedule.end_turn(qp, static_cast<std::uint32_t>(bytes), large, more);
}

// The caller of the next batch has sent the last one, and no longer reads its memory.
void Engine::Impl::hand_over() {
  QueuePair* const qp = schedule.take_given_out();
  qp->handed_over(now);
  note_changes(qp);
}

// Usual in a driver's poll: a packet has come for one queue pair, and nothing was ready. It need not be listed then,
// since a reply may be posted next.
Engine::Interest Engine::transmit_interest() {
  Impl& me = *impl_;
  if (me.touched_pairs.size() == 1 && me.schedule.front() == nullptr && me.schedule.given_out() == nullptr) [[likely]] {
    QueuePair* const qp = me.touched_pairs.front();
    qp->count_in_flight();  // as next_timeout() would, for Load::awaited
    const TransmitInterest level = qp->interest(me.now);
    BRDMA_CHECK_SLOW(level == TransmitInterest::kNone || !qp->is_idle());
    return {level, level == TransmitInterest::kNone ? nullptr : qp};
  }
  me.settle();
  return me.merged_interest();
}

Engine::Interest Engine::Impl::merged_interest() const {
  Interest merged;
  if (schedule.given_out() != nullptr) merged = {TransmitInterest::kForced, schedule.given_out()};
  static_cast<void>(schedule.any_of([&](const QueuePair* qp) {
    const TransmitInterest level = qp->interest(now);
    if (level == TransmitInterest::kNone) return false;
    merged.only = merged.level == TransmitInterest::kNone || merged.only == qp ? qp : nullptr;
    merged.level = merge(merged.level, level);
    return merged.only == nullptr && merged.level > TransmitInterest::kDeferrable;
  }));
  return merged;
}

Engine::Load Engine::load(const QueuePair* qp) const {
  const qp::Identity& identity = qp->identity();
  Load load{.mtu = identity.mtu(), .sends = identity.can_send(), .unacknowledged = qp->unreliable() != nullptr};
  if (identity.bitmap_agreed && identity.sending_paths == 1) load.per_batch = impl_->packets_per_batch(identity.mtu());
  if (qp->unreliable() != nullptr) return load;
  load.in_flight = qp->requester().packets_in_flight();
  load.awaited = identity.send_cq->in_flight;
  load.requests = !qp->requester().all_complete();
  load.receiving = qp->responder().in_midst_of_message();
  return load;
}

std::uint32_t Engine::Impl::packets_per_batch(std::uint32_t mtu) const {
  constexpr std::size_t kHeaders = wire::kBthSize + wire::kBxthSize + wire::kRethSize;
  const std::size_t packet = qp::TransmitBatch::packet_bytes(kHeaders, mtu);
  const std::size_t segments = std::min<std::size_t>(settings.config.segments_max, kSegmentsMax);
  return static_cast<std::uint32_t>(
      std::max<std::size_t>(std::min(settings.config.batch_bytes_max / packet, segments), 1));
}

}  // namespace brdma
