// What a queue pair takes, part by part (qp/memory_use.h). A test holds the sums against the allocator.
#include "qp/memory_use.h"

#include "qp/queue_pair.h"
#include "qp/requester_impl.h"
#include "qp/responder_impl.h"

namespace brdma {
namespace qp {
namespace {

// All of a half counts as transport; what is something else is taken out of that.
class Tally {
 public:
  explicit Tally(std::size_t whole) { use_.transport = whole; }
  template <class Part>
  void take(std::size_t MemoryUse::*kind, const Part& part, std::size_t allocated = 0) {
    use_.transport -= sizeof part;
    (use_.*kind) += sizeof part + allocated;
  }
  void add(std::size_t MemoryUse::*kind, std::size_t allocated) { use_.*kind += allocated; }
  [[nodiscard]] MemoryUse use() const { return use_; }

 private:
  MemoryUse use_;
};

}  // namespace

MemoryUse Requester::memory() const {
  const Impl& me = *impl_;
  Tally tally{sizeof me};
  tally.take(&MemoryUse::windows, me.window, me.window.allocated_bytes());
  tally.take(&MemoryUse::recovery, me.feedback_order);
  tally.take(&MemoryUse::recovery, me.resent_under_way);
  tally.take(&MemoryUse::recovery, me.repairs);
  if (me.repairs != nullptr) tally.add(&MemoryUse::recovery, sizeof(Repairs) + me.repairs->allocated_bytes());
  tally.take(&MemoryUse::queues, me.queue, me.queue.allocated_bytes());
  tally.take(&MemoryUse::queues, me.messages, me.messages.allocated_bytes());
  tally.add(&MemoryUse::transport, me.congestion.allocated_bytes() + me.answer_congestion.allocated_bytes());
  tally.add(&MemoryUse::transport, me.operations.allocated_bytes());
  if (me.signals) tally.add(&MemoryUse::transport, sizeof(CongestionState));
  if (me.answer_pace() != nullptr) tally.add(&MemoryUse::transport, sizeof(AnswerPace));
  if (me.own_judge) tally.add(&MemoryUse::recovery, me.own_judge->allocated_bytes());
  if (me.paths) tally.add(&MemoryUse::transport, me.paths->allocated_bytes());
  if (me.answer_ways) tally.add(&MemoryUse::transport, me.answer_ways->allocated_bytes());
  return tally.use();
}

MemoryUse Responder::memory() const {
  const Impl& me = *impl_;
  Tally tally{sizeof me};
  tally.take(&MemoryUse::windows, me.window, me.window.allocated_bytes());
  tally.take(&MemoryUse::windows, me.paths, me.paths ? me.paths->allocated_bytes() : 0);
  if (me.answer_paths) tally.add(&MemoryUse::transport, me.answer_paths->allocated_bytes());
  if (me.answer_log) tally.add(&MemoryUse::transport, me.answer_log->allocated_bytes());
  tally.take(&MemoryUse::recovery, me.tolerance, me.tolerance.allocated_bytes());
  tally.take(&MemoryUse::recovery, me.disorder);
  if (me.disorder != nullptr) {
    const Disorder& disorder = *me.disorder;
    tally.add(&MemoryUse::windows, sizeof disorder.early + disorder.early.allocated_bytes());
    tally.add(&MemoryUse::recovery, sizeof disorder - sizeof disorder.early + disorder.gaps.allocated_bytes());
  }
  tally.take(&MemoryUse::recovery, me.feedback_rtt);
  tally.take(&MemoryUse::recovery, me.ffm_serial);
  tally.take(&MemoryUse::recovery, me.gaps_promoted);
  tally.take(&MemoryUse::queues, me.receives, me.receives.allocated_bytes());
  tally.take(&MemoryUse::queues, me.resources, me.resources.allocated_bytes());
  tally.add(&MemoryUse::transport, me.operations.allocated_bytes() + me.escape.allocated_bytes());
  return tally.use();
}

}  // namespace qp

qp::MemoryUse QueuePair::memory() const {
  qp::MemoryUse use{.transport = sizeof *this};
  if (unreliable_) return use += unreliable_->memory();
  use += requester_.memory();
  use += responder_.memory();
  if (local_) use.transport += sizeof(qp::LocalPath);
  return use;
}

}  // namespace brdma
