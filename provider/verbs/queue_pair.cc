// Queue pairs: making and destroying them.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>

#include "qp/state/limits.h"
#include "verbs/objects.h"
#include "verbs/placed.h"
#include "verbs/use_record.h"
#include "verbs/verbs.h"
#include "verbs/xrc.h"

namespace brdma::provider::verbs {
namespace {

// 0, or the reason against making it.
int check(const ibv_context* context, const ibv_qp_init_attr& wanted, const ibv_xrcd* xrcd) {
  const XrcRole xrc = xrc_role(wanted.qp_type);
  const bool plain = wanted.qp_type == IBV_QPT_RC || wanted.qp_type == IBV_QPT_UC || wanted.qp_type == IBV_QPT_UD;
  if (!plain && xrc == XrcRole::kNone) return EOPNOTSUPP;
  if ((xrc == XrcRole::kTarget) != (xrcd != nullptr)) return EINVAL;
  if (xrcd != nullptr) return xrcd->context == context ? 0 : EINVAL;
  if (wanted.send_cq == nullptr || wanted.send_cq->context != context) return EINVAL;
  if (xrc != XrcRole::kNone) return 0;  // no receives: its other members have no meaning
  if (wanted.srq != nullptr && wanted.srq->context != context) return EINVAL;
  return wanted.recv_cq != nullptr && wanted.recv_cq->context == context ? 0 : EINVAL;
}

// An XRC target has none of these, an initiator only what it sends with.
void leave_unused_out(ibv_qp_init_attr& wanted) {
  const XrcRole xrc = xrc_role(wanted.qp_type);
  if (xrc == XrcRole::kNone) return;
  wanted.recv_cq = nullptr;
  wanted.srq = nullptr;
  if (xrc == XrcRole::kInitiator) return;
  wanted.send_cq = nullptr;
  wanted.cap = {};
}

// The queue pair's part of a completion queue, in its shard. Null where it has none.
Result<CompletionQueue*, Status> part_of(ibv_cq* cq, OpenDevice& device, std::size_t shard) {
  if (cq == nullptr) return static_cast<CompletionQueue*>(nullptr);
  return ring_in(object_of(cq), device, shard);
}

QpType engine_type(ibv_qp_type type) {
  return xrc_role(type) == XrcRole::kNone ? static_cast<QpType>(type) : QpType::kRc;
}

static_assert(static_cast<int>(QpType::kRc) == IBV_QPT_RC && static_cast<int>(QpType::kUc) == IBV_QPT_UC);
static_assert(static_cast<int>(QpType::kUd) == IBV_QPT_UD);

// Inline data has at least the room of the scatter list, as with Soft-RoCE and others: rdma_xclient requests none and
// uses 16 bytes. Allocated at first use.
std::uint32_t inline_room(const ibv_qp_cap& cap) {
  constexpr auto kPerSge = static_cast<std::uint32_t>(sizeof(ibv_sge));
  return std::max(cap.max_inline_data, std::min(cap.max_send_sge, qp::kSgesMax) * kPerSge);
}

QpCapabilities capabilities_of(const ibv_qp_cap& cap) {
  return {.send_wr_max = cap.max_send_wr,
          .receive_wr_max = cap.max_recv_wr,
          .send_sge_max = cap.max_send_sge,
          .receive_sge_max = cap.max_recv_sge,
          .inline_bytes_max = inline_room(cap)};
}

// The shard of its shared receive queue, which is in one only; else of the program's thread domain; else of its
// completion queues, so that a poll reads one shard; else the one with the fewest.
std::size_t shard_for(ibv_pd* pd, const ibv_qp_init_attr& wanted, ibv_xrcd* xrcd, OpenDevice& device) {
  if (device.shards().size() == 1) return 0;
  if (xrcd != nullptr) return object_of(xrcd).domain->shard;
  if (wanted.srq != nullptr) return object_of(wanted.srq).shard;
  if (const auto named = shard_of(object_of(pd))) return *named;
  if (const auto home = object_of(wanted.send_cq).rings.home()) return *home;
  if (wanted.recv_cq == nullptr) return device.least_used_shard();
  if (const auto home = object_of(wanted.recv_cq).rings.home()) return *home;
  return device.least_used_shard();
}

// libibverbs initialises nothing of an ibv_qp, its mutex and condition variable included.
void fill_core(ibv_qp& core, ibv_context* context, ibv_pd* pd, const ibv_qp_init_attr& wanted) {
  core.context = context;
  core.qp_context = wanted.qp_context;
  core.pd = pd;
  core.send_cq = wanted.send_cq;
  core.recv_cq = wanted.recv_cq;
  core.srq = wanted.srq;
  core.state = IBV_QPS_RESET;
  core.qp_type = wanted.qp_type;
  pthread_mutex_init(&core.mutex, nullptr);
  pthread_cond_init(&core.cond, nullptr);
}

}  // namespace

ibv_qp* make_queue_pair(ibv_context* context, ibv_pd* pd, ibv_qp_init_attr& wanted, ibv_xrcd* xrcd) {
  if (const int error = check(context, wanted, xrcd); error != 0) return fail<ibv_qp>(error);
  leave_unused_out(wanted);
  OpenDevice& device = device_of(context);
  auto qp = make_object<QueuePairObject>(pd == nullptr ? nullptr : &object_of(pd));
  if (qp == nullptr) return nullptr;
  qp->signal_all = wanted.sq_sig_all != 0;
  const PathMtu active_mtu = device.info().active_mtu;
  const std::lock_guard held(device.objects());
  if (const Status claimed = device.claim(); !claimed.ok()) return fail<ibv_qp>(claimed.error());
  const std::size_t shard = shard_for(pd, wanted, xrcd, device);
  qp->shard = static_cast<std::uint8_t>(shard);
  qp->context = &device.shards()[shard];
  if (const ContextError refused = qp->context->prepare_queue_pair(); refused.error != 0) {
    complain("no number for a queue pair: " + refused.message);
    return fail<ibv_qp>(ENOMEM);
  }
  const auto send_cq = part_of(wanted.send_cq, device, shard);
  if (!send_cq) return fail<ibv_qp>(send_cq.reason().error());
  const auto receive_cq = part_of(wanted.recv_cq, device, shard);
  if (!receive_cq) return fail<ibv_qp>(receive_cq.reason().error());
  Context::Session session(*qp->context);
  QpCreate request{.type = engine_type(wanted.qp_type),
                   .pd = pd == nullptr ? nullptr : object_of(pd).engine[shard],
                   .send_cq = send_cq.value(),
                   .receive_cq = receive_cq.value(),
                   .srq = wanted.srq == nullptr ? nullptr : object_of(wanted.srq).engine,
                   .xrc = xrc_role(wanted.qp_type),
                   .xrc_domain = xrcd == nullptr ? std::uint16_t{0} : object_of(xrcd).domain->number,
                   .capabilities = capabilities_of(wanted.cap),
                   .signal_all = qp->signal_all,
                   .path_mtu = active_mtu,
                   .user = qp.get(),
                   .user_bytes = sizeof(QueuePairObject)};
  auto created = session.engine().create_qp(request);
  if (!created) return fail<ibv_qp>(created.reason().error());
  qp->engine = created.value();
  device.put_into(shard);
  qp->send_sges_max = static_cast<std::uint8_t>(request.capabilities.send_sge_max);
  qp->receive_sges_max = static_cast<std::uint8_t>(request.capabilities.receive_sge_max);
  if (xrcd != nullptr) {
    qp->xrcd = &object_of(xrcd);
    ++qp->xrcd->users;
  }
  wanted.cap = {.max_send_wr = request.capabilities.send_wr_max,
                .max_recv_wr = request.capabilities.receive_wr_max,
                .max_send_sge = request.capabilities.send_sge_max,
                .max_recv_sge = request.capabilities.receive_sge_max,
                .max_inline_data = request.capabilities.inline_bytes_max};
  fill_core(qp->core.qp, context, pd, wanted);
  qp->core.qp.handle = device.next_handle();
  qp->core.qp.qp_num = session.engine().qp_num(qp->engine);
  device.undestroyed().queue_pairs.insert(qp.get());
  record_queue_pair();
  return &qp.release()->core.qp;
}

extern "C" {

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
  return make_queue_pair(pd->context, pd, *wanted, /*xrcd=*/nullptr);
}

int destroy_qp(ibv_qp* ibv) {
  QueuePairObject& qp = object_of(ibv);
  OpenDevice& device = device_of(ibv->context);
  qp.context->send_final_acks(qp.engine);
  {
    const std::lock_guard held(device.objects());
    const Status status = Context::Session(*qp.context).engine().destroy_qp(qp.engine);
    if (!status.ok()) return status.error();
    device.taken_from(qp.shard);
    if (qp.xrcd != nullptr) --qp.xrcd->users;
    device.undestroyed().queue_pairs.erase(&qp);
  }
  {
    const std::lock_guard held(device.events());
    if (qp.async_events_written != 0) qp.async_events_written -= device.purge_async_events(ibv);
  }
  wait_for_acknowledgements(ibv->mutex, ibv->cond, ibv->events_completed, qp.async_events_written);
  pthread_mutex_destroy(&ibv->mutex);
  pthread_cond_destroy(&ibv->cond);
  delete_object(&qp);
  return 0;
}

}  // extern "C"

}  // namespace brdma::provider::verbs
