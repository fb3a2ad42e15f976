// Queue pairs of the extended verb: the same ones, with ibv_wr_* functions on request.
#include <algorithm>
#include <cerrno>

#include "verbs/objects.h"
#include "verbs/verbs.h"
#include "verbs/xrc.h"
#include "work_requests/wr_functions.h"

namespace brdma::provider::verbs {
namespace {

constexpr std::uint32_t kAtomicWriteBytes = 8;

// It has the domain that its type needs: of an XRC target an XRC domain, of others a protection domain.
bool has_domain(ibv_context* context, const ibv_qp_init_attr_ex& wanted) {
  if (xrc_role(wanted.qp_type) == XrcRole::kTarget)
    return (wanted.comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 && wanted.xrcd != nullptr;
  return (wanted.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 && (wanted.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 &&
         wanted.pd != nullptr && wanted.pd->context == context;
}

// 0, or the reason against making it. libibverbs knows bits of unsupported features: creation flags, TSO headers,
// receive tables and hashing.
int check(ibv_context* context, const ibv_qp_init_attr_ex& wanted) {
  constexpr std::uint32_t kKnown =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if ((wanted.comp_mask & ~kKnown) != 0) return EOPNOTSUPP;
  if ((wanted.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && wanted.create_flags != 0) return EOPNOTSUPP;
  if (!has_domain(context, wanted)) return EINVAL;
  const bool extended = (wanted.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  const XrcRole xrc = xrc_role(wanted.qp_type);
  if (extended && xrc == XrcRole::kTarget) return EINVAL;
  const QpType type = xrc == XrcRole::kNone ? static_cast<QpType>(wanted.qp_type) : QpType::kRc;
  const std::uint64_t operations = wr_operations(type, device_of(context).layout());
  if (extended && (wanted.send_ops_flags & ~operations) != 0) return EOPNOTSUPP;
  return 0;
}

}  // namespace

extern "C" {

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* wanted) {
  if (const int error = check(context, *wanted); error != 0) return fail<ibv_qp>(error);
  ibv_qp_init_attr plain{.qp_context = wanted->qp_context,
                         .send_cq = wanted->send_cq,
                         .recv_cq = wanted->recv_cq,
                         .srq = wanted->srq,
                         .cap = wanted->cap,
                         .qp_type = wanted->qp_type,
                         .sq_sig_all = wanted->sq_sig_all};
  // An ATOMIC WRITE's data is copied at post, as inline data is.
  const bool extended = (wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if (extended && (wanted->send_ops_flags & abi::kQpExWithAtomicWrite) != 0)
    plain.cap.max_inline_data = std::max(plain.cap.max_inline_data, kAtomicWriteBytes);
  const bool target = xrc_role(wanted->qp_type) == XrcRole::kTarget;
  ibv_qp* qp = make_queue_pair(context, target ? nullptr : wanted->pd, plain, target ? wanted->xrcd : nullptr);
  if (qp == nullptr) return nullptr;
  // It has no use for one, but librdmacm takes it from there for the shared receive queue.
  if (target && (wanted->comp_mask & IBV_QP_INIT_ATTR_PD) != 0) qp->pd = wanted->pd;
  wanted->cap = plain.cap;
  if (extended) {
    Context::Session session(*object_of(qp).context);
    add_wr_functions(object_of(qp), device_of(context).layout(), session.engine().qp_capabilities(object_of(qp).engine),
                     wanted->send_ops_flags);
  }
  return qp;
}

}  // extern "C"

}  // namespace brdma::provider::verbs
