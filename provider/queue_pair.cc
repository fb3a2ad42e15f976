// Queue pairs: making and destroying them.
#include <algorithm>
#include <cerrno>
#include <memory>

#include "objects.h"
#include "qp/limits.h"
#include "verbs.h"

namespace brdma::provider::verbs {
namespace {

// 0, or why this cannot be made.
int check(const ibv_pd* pd, const ibv_qp_init_attr& wanted) {
  if (wanted.qp_type != IBV_QPT_RC && wanted.qp_type != IBV_QPT_UC && wanted.qp_type != IBV_QPT_UD) return EOPNOTSUPP;
  if (wanted.send_cq == nullptr || wanted.recv_cq == nullptr) return EINVAL;
  if (wanted.srq != nullptr && wanted.srq->context != pd->context) return EINVAL;
  if (wanted.send_cq->context != pd->context || wanted.recv_cq->context != pd->context) return EINVAL;
  return 0;
}

static_assert(static_cast<int>(QpType::kRc) == IBV_QPT_RC && static_cast<int>(QpType::kUc) == IBV_QPT_UC);
static_assert(static_cast<int>(QpType::kUd) == IBV_QPT_UD);

// Inline data has at least the room of the scatter list, as behind Soft-RoCE and others: rdma_xclient asks for none and
// uses 16 bytes. It is allocated when first used.
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

}  // namespace

extern "C" {

// libibverbs initialises nothing of an ibv_qp, its mutex and condition variable included.
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
  if (const int error = check(pd, *wanted); error != 0) return fail<ibv_qp>(error);
  OpenDevice& device = device_of(pd->context);
  auto qp = std::make_unique<QueuePairObject>();
  qp->context = &device.engine_context();
  qp->signal_all = wanted->sq_sig_all != 0;
  const PathMtu active_mtu = device.info().active_mtu;
  Context::Session session(*qp->context);
  QpCreate request{.type = static_cast<QpType>(wanted->qp_type),
                   .pd = object_of(pd).engine,
                   .send_cq = object_of(wanted->send_cq).engine,
                   .receive_cq = object_of(wanted->recv_cq).engine,
                   .srq = wanted->srq == nullptr ? nullptr : object_of(wanted->srq).engine,
                   .capabilities = capabilities_of(wanted->cap),
                   .signal_all = qp->signal_all,
                   .path_mtu = active_mtu,
                   .user = qp.get(),
                   .user_bytes = sizeof(QueuePairObject)};
  auto created = session.engine().create_qp(request);
  if (!created) return fail<ibv_qp>(created.reason().error());
  qp->engine = created.value();
  qp->send_sges_max = static_cast<std::uint8_t>(request.capabilities.send_sge_max);
  qp->receive_sges_max = static_cast<std::uint8_t>(request.capabilities.receive_sge_max);
  wanted->cap = {.max_send_wr = request.capabilities.send_wr_max,
                 .max_recv_wr = request.capabilities.receive_wr_max,
                 .max_send_sge = request.capabilities.send_sge_max,
                 .max_recv_sge = request.capabilities.receive_sge_max,
                 .max_inline_data = request.capabilities.inline_bytes_max};
  ibv_qp& core = qp->core.qp;
  core.context = pd->context;
  core.qp_context = wanted->qp_context;
  core.pd = pd;
  core.send_cq = wanted->send_cq;
  core.recv_cq = wanted->recv_cq;
  core.srq = wanted->srq;
  core.handle = device.next_handle();
  core.qp_num = session.engine().qp_num(qp->engine);
  core.state = IBV_QPS_RESET;
  core.qp_type = wanted->qp_type;
  pthread_mutex_init(&core.mutex, nullptr);
  pthread_cond_init(&core.cond, nullptr);
  return &qp.release()->core.qp;
}

int destroy_qp(ibv_qp* ibv) {
  QueuePairObject& qp = object_of(ibv);
  qp.context->take_leave(qp.engine);
  {
    Context::Session session(*qp.context);
    if (const Status status = session.engine().destroy_qp(qp.engine); !status.ok()) return status.error();
  }
  {
    const Context::Session session(*qp.context);
    if (qp.async_events_written != 0) qp.async_events_written -= device_of(ibv->context).purge_async_events(ibv);
  }
  wait_for_acknowledgements(ibv->mutex, ibv->cond, ibv->events_completed, qp.async_events_written);
  pthread_mutex_destroy(&ibv->mutex);
  pthread_cond_destroy(&ibv->cond);
  delete &qp;
  return 0;
}

}  // extern "C"

}  // namespace brdma::provider::verbs
