// Queue pair attributes, both ways between libibverbs' form and the engine's. A GID index becomes its address; the
// engine checks states, masks and ranges.
#include <cerrno>
#include <cstring>

#include "verbs/address_handle.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider::verbs {
namespace {

static_assert(static_cast<int>(QpState::kErr) == IBV_QPS_ERR && static_cast<int>(QpState::kSqe) == IBV_QPS_SQE);
static_assert(kQpAttrState == IBV_QP_STATE && kQpAttrCurrentState == IBV_QP_CUR_STATE);
static_assert(kQpAttrAccess == IBV_QP_ACCESS_FLAGS && kQpAttrPkeyIndex == IBV_QP_PKEY_INDEX);
static_assert(kQpAttrPort == IBV_QP_PORT && kQpAttrQkey == IBV_QP_QKEY && kQpAttrAv == IBV_QP_AV);
static_assert(kQpAttrPathMtu == IBV_QP_PATH_MTU && kQpAttrTimeout == IBV_QP_TIMEOUT);
static_assert(kQpAttrRetryCount == IBV_QP_RETRY_CNT && kQpAttrRnrRetry == IBV_QP_RNR_RETRY);
static_assert(kQpAttrRqPsn == IBV_QP_RQ_PSN && kQpAttrSqPsn == IBV_QP_SQ_PSN);
static_assert(kQpAttrMaxRdAtomic == IBV_QP_MAX_QP_RD_ATOMIC && kQpAttrMinRnrTimer == IBV_QP_MIN_RNR_TIMER);
static_assert(kQpAttrMaxDestRdAtomic == IBV_QP_MAX_DEST_RD_ATOMIC && kQpAttrCapabilities == IBV_QP_CAP);
static_assert(kQpAttrDestQpn == IBV_QP_DEST_QPN);

constexpr std::uint32_t kQpnMask = 0xFFFFFF;
// Path migration and rates are unsupported; a program that requests them gets an error.
constexpr int kUnsupported = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_RATE_LIMIT;

Status fill_path(const DeviceInfo& device, const ibv_ah_attr& path, QpAttributes& out) {
  const auto address = path_of(device, path);
  if (!address) return address.reason();
  out.local_address = address.value().local;
  out.peer_address = address.value().peer;
  out.sgid_index = address.value().sgid_index;
  out.traffic_class = address.value().traffic_class;
  out.hop_limit = address.value().hop_limit;
  out.flow_label = address.value().flow_label;
  return Status::success();
}

Status check(const DeviceInfo& device, const ibv_qp_attr& in, int mask) {
  if ((mask & kUnsupported) != 0) return Status(EOPNOTSUPP);
  if ((mask & IBV_QP_PORT) != 0 && in.port_num != 1) return Status(EINVAL);
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && in.pkey_index != 0) return Status(EINVAL);
  if ((mask & IBV_QP_PATH_MTU) != 0 &&
      (in.path_mtu < IBV_MTU_256 || static_cast<unsigned>(in.path_mtu) > static_cast<unsigned>(device.active_mtu)))
    return Status(EINVAL);
  return Status::success();
}

// True for a change that loses unacknowledged state. Received packets whose acknowledgement is missing or lost would be
// flushed at the peer although the application here has them: rdma_disconnect moves to ERR before it notifies. And
// acknowledged requests would be flushed here if nobody polled since.
bool forgets_the_peer(const ibv_qp_attr& in, int mask) {
  return (mask & IBV_QP_STATE) != 0 && (in.qp_state == IBV_QPS_ERR || in.qp_state == IBV_QPS_RESET);
}

// Programs (librdmacm) leave members outside the mask uninitialised: an enumeration may have no valid value.
QpAttributes translate(const ibv_qp_attr& in, int mask) {
  QpAttributes out;
  if ((mask & IBV_QP_STATE) != 0) out.state = static_cast<QpState>(in.qp_state);
  if ((mask & IBV_QP_CUR_STATE) != 0) out.current_state = static_cast<QpState>(in.cur_qp_state);
  if ((mask & IBV_QP_PATH_MTU) != 0) out.path_mtu = static_cast<PathMtu>(in.path_mtu);
  out.access = static_cast<std::uint32_t>(in.qp_access_flags) & ~static_cast<std::uint32_t>(kAccessHints);
  out.destination_qpn = in.dest_qp_num & kQpnMask;
  out.receive_psn = Psn(in.rq_psn & kQpnMask);
  out.send_psn = Psn(in.sq_psn & kQpnMask);
  out.timeout = in.timeout;
  out.retry_count = in.retry_cnt;
  out.rnr_retry = in.rnr_retry;
  out.min_rnr_timer = in.min_rnr_timer;
  out.max_rd_atomic = in.max_rd_atomic;
  out.max_dest_rd_atomic = in.max_dest_rd_atomic;
  out.port = in.port_num;
  out.pkey_index = in.pkey_index;
  out.qkey = in.qkey;
  return out;
}

void translate(const QpAttributes& in, ibv_qp_attr& out) {
  out.qp_state = static_cast<ibv_qp_state>(in.state);
  out.cur_qp_state = static_cast<ibv_qp_state>(in.state);
  out.path_mtu = static_cast<ibv_mtu>(in.path_mtu);
  out.path_mig_state = IBV_MIG_MIGRATED;
  out.qkey = in.qkey;
  out.rq_psn = in.receive_psn.value();
  out.sq_psn = in.send_psn.value();
  out.dest_qp_num = in.destination_qpn;
  out.qp_access_flags = in.access;
  out.ah_attr.is_global = 1;
  out.ah_attr.port_num = in.port;
  std::memcpy(out.ah_attr.grh.dgid.raw, in.peer_address.bytes.data(), in.peer_address.bytes.size());
  out.ah_attr.grh.sgid_index = in.sgid_index;
  out.ah_attr.grh.traffic_class = in.traffic_class;
  out.ah_attr.grh.hop_limit = in.hop_limit;
  out.ah_attr.grh.flow_label = in.flow_label;
  out.pkey_index = in.pkey_index;
  out.max_rd_atomic = in.max_rd_atomic;
  out.max_dest_rd_atomic = in.max_dest_rd_atomic;
  out.min_rnr_timer = in.min_rnr_timer;
  out.port_num = in.port;
  out.timeout = in.timeout;
  out.retry_cnt = in.retry_count;
  out.rnr_retry = in.rnr_retry;
}

}  // namespace

extern "C" {

int modify_qp(ibv_qp* ibv, ibv_qp_attr* attributes, int mask) {
  QueuePairObject& qp = object_of(ibv);
  const DeviceInfo device = device_of(ibv->context).info();
  if (const Status status = check(device, *attributes, mask); !status.ok()) return status.error();
  QpAttributes wanted = translate(*attributes, mask);
  if ((mask & IBV_QP_AV) != 0) {
    if (const Status status = fill_path(device, attributes->ah_attr, wanted); !status.ok()) return status.error();
  }
  if (forgets_the_peer(*attributes, mask)) qp.context->send_final_acks(qp.engine);
  Context::Session session(*qp.context);
  return session.engine()
      .modify_qp(qp.engine, wanted, static_cast<std::uint32_t>(mask), Instant::from_ns(session.now_ns()))
      .error();
}

// Fills in everything for any mask: UCX reads the capabilities without requesting them.
int query_qp(ibv_qp* ibv, ibv_qp_attr* attributes, int, ibv_qp_init_attr* init_attributes) {
  QueuePairObject& qp = object_of(ibv);
  Context::Session session(*qp.context);
  *attributes = {};
  translate(session.engine().query_qp(qp.engine), *attributes);
  attributes->sq_draining = session.engine().sq_draining(qp.engine) ? 1 : 0;
  const QpCapabilities granted = session.engine().qp_capabilities(qp.engine);
  attributes->cap = {.max_send_wr = granted.send_wr_max,
                     .max_recv_wr = granted.receive_wr_max,
                     .max_send_sge = granted.send_sge_max,
                     .max_recv_sge = granted.receive_sge_max,
                     .max_inline_data = granted.inline_bytes_max};
  *init_attributes = {};
  init_attributes->qp_context = ibv->qp_context;
  init_attributes->send_cq = ibv->send_cq;
  init_attributes->recv_cq = ibv->recv_cq;
  init_attributes->srq = ibv->srq;
  init_attributes->cap = attributes->cap;
  init_attributes->qp_type = ibv->qp_type;
  init_attributes->sq_sig_all = qp.signal_all ? 1 : 0;
  return 0;
}

}  // extern "C"

}  // namespace brdma::provider::verbs
