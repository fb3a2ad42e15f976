// Output: queue pairs in turn. Packets of several share a batch, which is one system call, if they go to the same
// socket of the same peer by the same path, and fit (QueuePair::joins): with many queue pairs of few packets each,
// system calls dominate the cost. Queue pairs inside a large command come after the others (registry/command_queues.h).
//
// Deficit round robin: a turn is as many bytes as a batch of large messages has, however many batches make them. So
// queue pairs of small messages get as many bytes as those of large ones. A queue pair that sends more (by less than a
// batch) has less the next time; one that runs out of output gives up the rest of its turn.
#include <algorithm>
#include <utility>

#include "device/engine_impl.h"

namespace brdma {
namespace {

// In words of 4 bytes, of which every RoCE packet is a number (IBTA 9.2.1: pad): 16 bits hold two turns.
constexpr std::int32_t kWord = 4;
// No longer than a batch of large messages at any path MTU (15, 31 or 60 packets fill it, and headers come to their
// payload), so that one batch is one turn. A remainder would make a second turn, for which all others wait. Without GSO
// a packet.
constexpr std::uint32_t kLargestPayload = 4096, kTurnBytesMax = 15 * kLargestPayload;

std::int16_t turn_words(const EngineConfig& config) {
  const std::uint32_t batch = std::min<std::uint32_t>(config.segments_max, kSegmentsMax) * kLargestPayload;
  return static_cast<std::int16_t>(std::clamp(batch, kLargestPayload, kTurnBytesMax) / kWord);
}

}  // namespace

bool Engine::poll_transmit(TransmitBuffer& buffer, Transmit& out, Instant now) {
  Impl& me = *impl_;
  me.now = now;
  if (me.given_out != nullptr) [[unlikely]]
    me.hand_over();
  me.settle();
  while (QueuePair* qp = me.ready.front()) {
    qp::TransmitBatch batch(buffer, me.config);
    do me.take_turn(qp, batch);
    while ((qp = me.ready.front()) != nullptr && me.given_out == nullptr && qp->joins(batch));
    if (!batch.finish(out)) continue;
    me.batch_made = now;
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
  given_out = nullptr;
  queue_pairs.for_each([this](QueuePair* qp) {
    qp->withdraw(batch_made, now);
    touched(qp);
  });
  settle();
}

bool Engine::all_sent() const {
  return impl_->given_out == nullptr && impl_->touched_pairs.empty() && impl_->ready.front() == nullptr;
}

// `qp`, first of the ready ones, adds its share to the batch.
void Engine::Impl::take_turn(QueuePair* qp, qp::TransmitBatch& batch) {
  const bool large = qp->ready_queue == registry::ReadyQueue::kLarge;
  ready.remove(qp);
  if (qp->turn_left <= 0) {
    const std::int32_t turn = turn_words(config) * static_cast<std::int32_t>(qp->turn_percent()) / 100;
    qp->turn_left = static_cast<std::int16_t>(qp->turn_left + turn);
    if (qp->turn_left <= 0) [[unlikely]]  // its turns are shorter than others', and its last batch was longer
      return ready.push_back(qp, large);
  }
  const std::size_t packets_before = batch.packets(), bytes_before = batch.bytes();
  const bool joins = packets_before > 0;
  const QueuePair::Polled polled = qp->poll_transmit(batch, now);
  const bool added = polled != QueuePair::Polled::kNothing;
  const std::size_t packets = batch.packets() - packets_before, bytes = batch.bytes() - bytes_before;
  // A queue pair that sent is next again while it has more. One that did not waits for the next event, unless there was
  // no room.
  if (added) ready.turn_taken(large);
  const bool more = (added || joins) && polled != QueuePair::Polled::kAll && !qp->has_said_all() && qp->has_output(now);
  qp->begins_batch = more;
  note_changes(qp);
  end_turn(qp, static_cast<std::uint32_t>(bytes), large, more);
  if (packets == 0) return;
  if (qp->unreliable() != nullptr) [[unlikely]]
    given_out = qp;
  environment.count(Counter::kSentPackets, packets);
  environment.count(Counter::kSentBytes, bytes);
}

// `qp` sent so many bytes; `more`: it has more to send.
void Engine::Impl::end_turn(QueuePair* qp, std::uint32_t bytes, bool large, bool more) {
  const std::int32_t left = qp->turn_left - static_cast<std::int32_t>(bytes) / kWord;
  qp->turn_left = static_cast<std::int16_t>(more ? left : 0);
  const bool next_is_large = more && qp->next_is_large();
  if (more && left > 0 && next_is_large == large) return ready.push_front(qp, large);
  if (more) ready.push_back(qp, next_is_large);
}

// The caller of the next batch has sent the last one, and no longer reads its memory.
void Engine::Impl::hand_over() {
  QueuePair* const qp = std::exchange(given_out, nullptr);
  qp->handed_over(now);
  note_changes(qp);
}

std::uint32_t Engine::packets_in_flight(const QueuePair* qp) const {
  return qp->unreliable() != nullptr ? 0 : qp->requester().packets_in_flight();
}

std::uint32_t Engine::packets_awaited(const QueuePair* qp) const {
  return qp->unreliable() != nullptr ? 0 : qp->identity().send_cq->in_flight;
}

std::uint32_t Engine::packets_per_batch(const QueuePair* qp) const {
  constexpr std::size_t kHeaders = wire::kBthSize + wire::kBxthSize + wire::kRethSize;
  const EngineConfig& config = impl_->config;
  const std::size_t packet = qp::TransmitBatch::packet_bytes(kHeaders, qp->identity().mtu());
  const std::size_t segments = std::min<std::size_t>(config.segments_max, kSegmentsMax);
  return static_cast<std::uint32_t>(std::max<std::size_t>(std::min(config.batch_bytes_max / packet, segments), 1));
}

bool Engine::only_begins_requests(const QueuePair* qp) {
  Impl& me = *impl_;
  me.settle();
  if (me.given_out != nullptr) return false;
  return !me.ready.any_of([qp](const QueuePair* other) { return other != qp || !other->only_begins_requests(); });
}

bool Engine::only_receives(const QueuePair* qp) const {
  return qp->unreliable() == nullptr && qp->responder().in_midst_of_message() && qp->requester().all_complete();
}

bool Engine::only_deferrable_output() const {
  Impl& me = *impl_;
  me.settle();
  bool any = false;  // without output there is nothing to put off
  const bool urgent = me.ready.any_of([&](const QueuePair* qp) {
    const QueuePair::Output output = qp->output(me.now);
    any = any || output != QueuePair::Output::kNone;
    return output == QueuePair::Output::kUrgent;
  });
  return any && !urgent;
}

bool Engine::has_only_ack_pending() {
  Impl& me = *impl_;
  if (me.touched_pairs.size() != 1 || me.ready.front() != nullptr || me.given_out != nullptr || !me.managed.empty())
    return false;
  QueuePair* const qp = me.touched_pairs.front();
  if (me.environment.has_notices() || qp->has_async_event() || !me.notifications.empty() ||
      !me.environment.arrivals.empty()) {
    return false;
  }
  qp->count_in_flight();  // as next_timeout() would, for packets_awaited()
  return qp->output(me.now) == QueuePair::Output::kDeferrable;
}

}  // namespace brdma
