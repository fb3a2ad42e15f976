// Memory of a queue pair, part by part (qp/state/memory_use.h). A test holds the sums against the allocator.
#include "qp/state/memory_use.h"

#include "qp/receive/responder_impl.h"
#include "qp/send/requester_impl.h"
#include "qp/state/queue_pair.h"

namespace brdma::qp {
namespace {

// All of a half counts as transport; other parts are subtracted.
class Tally {
 public:
  explicit Tally(std::size_t whole) { use_.transport = whole; }
  template <class Part>
  void take(std::size_t MemoryUse::*kind, const Part& part, std::size_t allocated = 0) {
    use_.transport -= sizeof part;
    (use_.*kind) += sizeof part + allocated;
  }
  void take_bytes(std::size_t MemoryUse::*kind, std::size_t bytes) {
    use_.transport -= bytes;
    (use_.*kind) += bytes;
  }
  void add(std::size_t MemoryUse::*kind, std::size_t allocated) { use_.*kind += allocated; }
  [[nodiscard]] MemoryUse use() const { return use_; }

 private:
  MemoryUse use_;
};

MemoryUse of_requester(const Requester::Impl& me) {
  Tally tally{sizeof me};
  tally.take(&MemoryUse::windows, me.scoreboard, me.scoreboard.allocated_bytes());
  tally.take(&MemoryUse::recovery, me.losses.feedback_order);
  tally.take(&MemoryUse::recovery, me.losses.recovery);
  if (me.losses.recovery) tally.add(&MemoryUse::recovery, sizeof(LossRecovery) + me.losses.recovery->allocated_bytes());
  tally.take(&MemoryUse::queues, me.queue, me.queue.allocated_bytes());
  tally.take(&MemoryUse::queues, me.messages, me.messages.allocated_bytes());
  tally.add(&MemoryUse::transport, me.path.congestion.allocated_bytes() + me.responses.congestion().allocated_bytes());
  tally.add(&MemoryUse::transport, me.segments.allocated_bytes());
  if (me.path.signals) tally.add(&MemoryUse::transport, sizeof(CongestionState));
  if (response_pace(me.path.signals) != nullptr) tally.add(&MemoryUse::transport, sizeof(ResponsePace));
  if (me.losses.judge) tally.add(&MemoryUse::recovery, me.losses.judge->allocated_bytes());
  if (me.path.several) tally.add(&MemoryUse::transport, me.path.several->allocated_bytes());
  if (const ReceivePaths* const several = me.response_receiver.paths())
    tally.add(&MemoryUse::transport, several->allocated_bytes());
  return tally.use();
}

}  // namespace

MemoryUse Responder::memory() const {
  const Impl& me = *impl_;
  Tally tally{sizeof me};
  tally.take(&MemoryUse::windows, me.window, me.window.allocated_bytes());
  const ReceivePaths* const several = me.tolerance.paths();
  tally.take(&MemoryUse::windows, several, several != nullptr ? several->allocated_bytes() : 0);
  if (me.responses.paths) tally.add(&MemoryUse::transport, me.responses.paths->allocated_bytes());
  if (me.responses.log) tally.add(&MemoryUse::transport, me.responses.log->allocated_bytes());
  tally.take(&MemoryUse::recovery, me.tolerance.single(), me.tolerance.single().allocated_bytes());
  tally.take(&MemoryUse::recovery, me.out_of_order);
  if (me.out_of_order) {
    const OutOfOrderState& out_of_order = *me.out_of_order;
    tally.add(&MemoryUse::windows, sizeof out_of_order.early + out_of_order.early.allocated_bytes());
    tally.add(&MemoryUse::recovery,
              sizeof out_of_order - sizeof out_of_order.early + out_of_order.gaps.allocated_bytes());
  }
  tally.take_bytes(&MemoryUse::recovery, GapFeedback::kRecoveryBytes);
  tally.take(&MemoryUse::queues, me.receives, me.receives.allocated_bytes());
  tally.take(&MemoryUse::queues, me.responses.resources, me.responses.resources.allocated_bytes());
  tally.add(&MemoryUse::transport, me.operations.allocated_bytes());
  return tally.use();
}

MemoryUse memory_use(const QueuePair& pair) {
  MemoryUse use{.transport = sizeof pair};
  if (pair.unreliable() != nullptr) return use += pair.unreliable()->memory();
  use += of_requester(pair.requester().impl());
  use += pair.responder().memory();
  if (pair.identity().local != nullptr) use.transport += sizeof(LocalPath);
  return use;
}

}  // namespace brdma::qp
