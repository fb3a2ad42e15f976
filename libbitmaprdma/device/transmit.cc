// The way out: queue pairs in turn, one a batch (a GSO message has one destination, and a receiving socket is chosen by
// its first segment). Those in the midst of a large command come after the others (registry/command_queues.h).
#include <utility>

#include "device/engine_impl.h"

namespace brdma {

bool Engine::poll_transmit(TransmitBuffer& buffer, Transmit& out, Instant now) {
  Impl& me = *impl_;
  me.now = now;
  if (me.given_out != nullptr) [[unlikely]]
    me.hand_over();
  while (QueuePair* const qp = me.ready.front()) {
    qp::TransmitBatch batch(buffer, me.config);
    const bool large = qp->ready_queue == registry::ReadyQueue::kLarge;
    me.ready.remove(qp);
    const bool added = qp->poll_transmit(batch, now);
    if (added) me.ready.turn_taken(large);
    // One that sent comes again while it has more; one that did not waits for the next event.
    if (added && qp->has_output(now)) me.ready.push_back(qp, qp->next_is_large());
    me.note_changes(qp);
    if (!batch.finish(out)) continue;
    if (qp->unreliable() != nullptr) [[unlikely]]
      me.given_out = qp;
    me.environment.count(Counter::kSentPackets, out.segments);
    me.environment.count(Counter::kSentBytes, out.bytes);
    return true;
  }
  return false;
}

// Who asks for the next batch has sent the last one, and does not read its memory any more.
void Engine::Impl::hand_over() {
  QueuePair* const qp = std::exchange(given_out, nullptr);
  qp->handed_over(now);
  note_changes(qp);
}

std::uint32_t Engine::packets_in_flight(const QueuePair* qp) const {
  return qp->unreliable() != nullptr ? 0 : qp->requester().packets_in_flight();
}

bool Engine::only_deferrable_output() const {
  const Impl& me = *impl_;
  bool any = false, urgent = false;  // without output there is nothing to put off
  me.ready.for_each([&](const QueuePair* qp) {
    if (urgent || !qp->has_output(me.now)) return;
    urgent = !qp->only_deferrable(me.now);
    any = true;
  });
  return any && !urgent;
}

}  // namespace brdma
