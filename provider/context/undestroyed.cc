#include "context/undestroyed.h"

#include <utility>

#include "base/check.h"
#include "events/event_channels.h"
#include "verbs/objects.h"
#include "write_events/write_channel.h"

namespace brdma::provider {
namespace {

void destroy(QueuePairObject& qp) {
  for (const IpAddress& group : qp.groups) (void)qp.context->detach_multicast(qp.engine, group);
  qp.context->send_final_acks(qp.engine);
  BRDMA_CHECK(Context::Session(*qp.context).engine().destroy_qp(qp.engine).ok());
}

void destroy(CompletionQueueObject& cq) {
  for (std::size_t i = 0; i < cq.rings.size(); ++i) {
    const CompletionRings::Ring& ring = cq.rings[i];
    BRDMA_CHECK(Context::Session(*ring.context).engine().destroy_cq(ring.engine).ok());
  }
  if (cq.channel == nullptr) return;
  event_channel_left(*cq.channel, &cq.core.cq);
  cq.channel.reset();
}

void destroy(SharedReceiveQueueObject& srq) {
  BRDMA_CHECK(Context::Session(*srq.context).engine().destroy_srq(srq.engine).ok());
}

void destroy(MemoryWindowObject& mw, Shards& shards) {
  BRDMA_CHECK(Context::Session(shards.first()).engine().dealloc_window(mw.engine).ok());
}

void destroy(MemoryRegionObject& mr, Shards& shards) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    BRDMA_CHECK(Context::Session(shards[i]).engine().deregister_memory(mr.engine[i]).ok());
  }
  mr.mapping.reset();
}

void destroy(ProtectionDomainObject& pd, Shards& shards) {
  if (pd.base != nullptr) return;  // a parent domain is another name of one
  for (std::size_t i = 0; i < shards.size(); ++i) {
    BRDMA_CHECK(Context::Session(shards[i]).engine().dealloc_pd(pd.engine[i]).ok());
  }
}

}  // namespace

// Users before what they use.
void Undestroyed::destroy_all(Shards& shards, WriteWatches& watches) {
  for (WriteChannelObject* channel : std::exchange(write_channels, {})) leave_write_channel(*channel, watches);
  for (QueuePairObject* qp : std::exchange(queue_pairs, {})) {
    destroy(*qp);
    --shards.use()[qp->shard];
  }
  for (MemoryWindowObject* mw : std::exchange(windows, {})) destroy(*mw, shards);
  for (SharedReceiveQueueObject* srq : std::exchange(shared_receive_queues, {})) {
    destroy(*srq);
    --shards.use()[srq->shard];
  }
  for (CompletionQueueObject* cq : std::exchange(completion_queues, {})) destroy(*cq);
  for (MemoryRegionObject* mr : std::exchange(regions, {})) destroy(*mr, shards);
  for (const auto& dm : std::exchange(device_memories, {})) {
    dm->mapping.reset();
    dm->pages.reset();
  }
  for (ProtectionDomainObject* pd : std::exchange(domains, {})) destroy(*pd, shards);
  for (ThreadDomainObject* td : std::exchange(thread_domains, {})) --shards.use()[td->shard];
}

}  // namespace brdma::provider
