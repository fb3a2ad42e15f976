// Shared receive queues of the basic kind, and what XRC's (xrc.cc) have in common with them.
#include <cerrno>
#include <memory>
#include <mutex>

#include "verbs/objects.h"
#include "verbs/placed.h"
#include "verbs/verbs.h"
#include "verbs/xrc.h"

namespace brdma::provider::verbs {

static_assert(kSrqAttrWrMax == IBV_SRQ_MAX_WR && kSrqAttrLimit == IBV_SRQ_LIMIT);

extern "C" {

// libibverbs fills in the ibv_srq's own members after we return; without queue pairs nothing is raised until then.
ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* wanted) {
  OpenDevice& device = device_of(pd->context);
  auto srq = make_object<SharedReceiveQueueObject>(&object_of(pd));
  if (srq == nullptr) return nullptr;
  const std::lock_guard held(device.objects());
  srq->shard = shard_of(object_of(pd)).value_or(device.least_used_shard());
  srq->context = &device.shards()[srq->shard];
  Context::Session session(*srq->context);
  SrqAttributes attributes{.wr_max = wanted->attr.max_wr, .sge_max = wanted->attr.max_sge};
  auto created = session.engine().create_srq(object_of(pd).engine[srq->shard], attributes, srq.get());
  if (!created) return fail<ibv_srq>(created.reason().error());
  srq->engine = created.value();
  device.put_into(srq->shard);
  srq->granted = attributes;
  wanted->attr.max_wr = attributes.wr_max;
  wanted->attr.max_sge = attributes.sge_max;
  srq->core.srq.handle = device.next_handle();
  device.undestroyed().shared_receive_queues.insert(srq.get());
  return &srq.release()->core.srq;
}

int modify_srq(ibv_srq* ibv, ibv_srq_attr* attributes, int mask) {
  SharedReceiveQueueObject& srq = object_of(ibv);
  Context::Session session(*srq.context);
  return session.engine()
      .modify_srq(srq.engine, {.wr_max = attributes->max_wr, .limit = attributes->srq_limit},
                  static_cast<std::uint32_t>(mask))
      .error();
}

int query_srq(ibv_srq* ibv, ibv_srq_attr* attributes) {
  SharedReceiveQueueObject& srq = object_of(ibv);
  Context::Session session(*srq.context);
  const SrqAttributes now = session.engine().query_srq(srq.engine);
  *attributes = {.max_wr = now.wr_max, .max_sge = now.sge_max, .srq_limit = now.limit};
  return 0;
}

int destroy_srq(ibv_srq* ibv) {
  SharedReceiveQueueObject& srq = object_of(ibv);
  OpenDevice& device = device_of(ibv->context);
  {
    const std::lock_guard held(device.objects());
    const Status status = Context::Session(*srq.context).engine().destroy_srq(srq.engine);
    if (!status.ok()) return status.error();
    device.taken_from(srq.shard);
    if (srq.xrcd != nullptr) --srq.xrcd->users;
    device.undestroyed().shared_receive_queues.erase(&srq);
  }
  {
    const std::lock_guard held(device.events());
    if (srq.async_events_written != 0) srq.async_events_written -= device.purge_async_events(ibv);
  }
  wait_for_acknowledgements(ibv->mutex, ibv->cond, ibv->events_completed, srq.async_events_written);
  delete_object(&srq);
  return 0;
}

}  // extern "C"

}  // namespace brdma::provider::verbs
