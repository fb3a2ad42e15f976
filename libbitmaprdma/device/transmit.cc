// The way out: queue pairs in turn, one a batch (a GSO message has one destination, and a receiving socket is chosen by
// its first segment).
#include "device/engine_impl.h"

namespace brdma {

bool Engine::poll_transmit(TransmitBuffer& buffer, Transmit& out, Instant now) {
  Impl& me = *impl_;
  me.now = now;
  while (QueuePair* const qp = me.ready.front()) {
    qp::TransmitBatch batch(buffer, me.config);
    me.ready.remove(qp);
    const bool added = qp->poll_transmit(batch, now);
    // One that sent comes again while it has more; one that did not waits for the next event.
    if (added && qp->has_output(now)) me.ready.push_back(qp);
    me.note_changes(qp);
    if (!batch.finish(out)) continue;
    me.environment.count(Counter::kSentPackets, out.segments);
    me.environment.count(Counter::kSentBytes, out.bytes);
    return true;
  }
  return false;
}

std::uint32_t Engine::packets_in_flight(const QueuePair* qp) const { return qp->requester().packets_in_flight(); }

bool Engine::only_deferrable_output() const {
  const Impl& me = *impl_;
  bool any = false;  // without output there is nothing to put off
  for (const QueuePair* qp = me.ready.front(); qp != nullptr; qp = qp->ready_next) {
    if (!qp->has_output(me.now)) continue;
    if (!qp->only_deferrable(me.now)) return false;
    any = true;
  }
  return any;
}

}  // namespace brdma
