// Work requests: linked lists become arrays, a batch at a time; scatter lists are passed through unchanged.
#include <cerrno>
#include <span>

#include "qp/state/limits.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider::verbs {
namespace {

static_assert(sizeof(Sge) == sizeof(ibv_sge) && offsetof(Sge, address) == offsetof(ibv_sge, addr));
static_assert(offsetof(Sge, length) == offsetof(ibv_sge, length) && offsetof(Sge, lkey) == offsetof(ibv_sge, lkey));
static_assert(static_cast<int>(WorkOpcode::kRdmaWriteWithImm) == IBV_WR_RDMA_WRITE_WITH_IMM);
static_assert(static_cast<int>(WorkOpcode::kSendWithImm) == IBV_WR_SEND_WITH_IMM);
static_assert(static_cast<int>(WorkOpcode::kRdmaRead) == IBV_WR_RDMA_READ);
static_assert(static_cast<int>(WorkOpcode::kAtomicCmpSwap) == IBV_WR_ATOMIC_CMP_AND_SWP);
static_assert(static_cast<int>(WorkOpcode::kAtomicFetchAdd) == IBV_WR_ATOMIC_FETCH_AND_ADD);
static_assert(static_cast<int>(WorkOpcode::kSendWithInvalidate) == IBV_WR_SEND_WITH_INV);
static_assert(static_cast<unsigned>(WorkOpcode::kAtomicWrite) == abi::kWrAtomicWrite);
static_assert(kSendFence == IBV_SEND_FENCE && kSendSignaled == IBV_SEND_SIGNALED);
static_assert(kSendSolicited == IBV_SEND_SOLICITED && kSendInline == IBV_SEND_INLINE);

constexpr unsigned kFlagsKnown = kSendFence | kSendSignaled | kSendSolicited | kSendInline;

std::span<const Sge> sges_of(const ibv_sge* list, int count) {
  return {reinterpret_cast<const Sge*>(list), static_cast<std::size_t>(count)};
}

// 0, or the reason against posting it; the engine checks the rest.
std::uint32_t remote_srq_of(const QueuePairObject& qp, const ibv_send_wr& in) {
  return qp.core.qp.qp_type == IBV_QPT_XRC_SEND ? in.qp_type.xrc.remote_srqn : 0;
}

int translate(const QueuePairObject& qp, const ibv_send_wr& in, SendRequest& out) {
  if ((in.send_flags & ~kFlagsKnown) != 0) return EINVAL;
  // Inline data is copied at once: its limit is on bytes.
  const std::uint32_t sges_max = (in.send_flags & IBV_SEND_INLINE) != 0 ? qp::kSgesMax : qp.send_sges_max;
  if (in.num_sge < 0 || static_cast<std::uint32_t>(in.num_sge) > sges_max) return EINVAL;
  // FLUSH has no members here in any release: ibv_wr_flush() alone posts it.
  const auto opcode = static_cast<unsigned>(in.opcode);
  if (opcode > IBV_WR_SEND_WITH_INV && opcode != abi::kWrAtomicWrite) return EINVAL;
  if (in.opcode == IBV_WR_BIND_MW && in.bind_mw.mw == nullptr) return EINVAL;
  out = SendRequest{};
  out.wr_id = in.wr_id;
  out.sges = sges_of(in.sg_list, in.num_sge);
  out.opcode = static_cast<WorkOpcode>(in.opcode);
  out.flags = in.send_flags;
  out.immediate_be = in.imm_data;  // one union with invalidate_rkey
  out.remote_qpn = remote_srq_of(qp, in);
  if (qp.core.qp.qp_type == IBV_QPT_UD) {
    if (in.wr.ud.ah == nullptr) return EINVAL;
    out.address = &object_of(in.wr.ud.ah).address;
    out.remote_qpn = in.wr.ud.remote_qpn;
    out.remote_qkey = in.wr.ud.remote_qkey;
  } else if (in.opcode == IBV_WR_BIND_MW) {
    describe_binding(in.bind_mw.rkey, in.bind_mw.bind_info, out);
  } else if (in.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || in.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    out.remote_address = in.wr.atomic.remote_addr;
    out.rkey = in.wr.atomic.rkey;
    out.compare_or_add = in.wr.atomic.compare_add;
    out.swap = in.wr.atomic.swap;
  } else {
    out.remote_address = in.wr.rdma.remote_addr;
    out.rkey = in.wr.rdma.rkey;
  }
  return 0;
}

std::uint32_t sges_max(const QueuePairObject& qp) { return qp.receive_sges_max; }
std::uint32_t sges_max(const SharedReceiveQueueObject& srq) { return srq.granted.sge_max; }

template <class Queue>
int translate(const Queue& queue, const ibv_recv_wr& in, ReceiveRequest& out) {
  if (in.num_sge < 0 || static_cast<std::uint32_t>(in.num_sge) > sges_max(queue)) return EINVAL;
  out = {.wr_id = in.wr_id, .sges = sges_of(in.sg_list, in.num_sge)};
  return 0;
}

Status post(const QueuePairObject& qp, std::span<const SendRequest> requests, std::size_t& posted) {
  return qp.context->post_send(qp.engine, requests, posted);
}
template <class Queue>
Status post(const Queue& queue, std::span<const ReceiveRequest> requests, std::size_t& posted) {
  return queue.context->post_receive(queue.engine, requests, posted);
}
Status post(const QueuePairObject& qp, Context::Take<SendRequest> take, void* list, std::size_t& posted) {
  return qp.context->post_send(qp.engine, take, list, posted);
}
template <class Queue>
Status post(const Queue& queue, Context::Take<ReceiveRequest> take, void* list, std::size_t& posted) {
  return queue.context->post_receive(queue.engine, take, list, posted);
}

// The usual case, without the arrays.
template <class Request, class Queue, class WorkRequest>
int post_one(const Queue& queue, WorkRequest* work, WorkRequest** bad) {
  Request request;
  int error = translate(queue, *work, request);
  std::size_t posted = 0;
  if (error == 0) error = post(queue, std::span<const Request>(&request, 1), posted).error();
  if (error != 0) *bad = work;
  return error;
}

template <class Request, class Queue, class WorkRequest>
struct List {
  const Queue& queue;
  WorkRequest* next;
  int error = 0;  // of *next

  static std::size_t take(void* list, std::span<Request> into) {
    List& self = *static_cast<List*>(list);
    std::size_t count = 0;
    for (; self.next != nullptr && count < into.size(); self.next = self.next->next) {
      self.error = translate(self.queue, *self.next, into[count]);
      if (self.error != 0) break;
      ++count;
    }
    return count;
  }
};

// Requests before a failing one are posted; *bad names the failing one. Their array exceeds some threads' stacks: it is
// the context's.
template <class Request, class Queue, class WorkRequest>
int post_list(const Queue& queue, WorkRequest* first, WorkRequest** bad) {
  if (first != nullptr && first->next == nullptr) return post_one<Request>(queue, first, bad);
  List<Request, Queue, WorkRequest> list{queue, first};
  while (list.next != nullptr) {
    first = list.next;
    std::size_t posted = 0;
    const Status status = post(queue, &decltype(list)::take, &list, posted);
    if (!status.ok()) {
      for (; posted > 0; --posted) first = first->next;
      *bad = first;
      return status.error();
    }
    if (list.error != 0) {
      *bad = list.next;
      return list.error;
    }
  }
  return 0;
}

}  // namespace

void describe_binding(std::uint32_t rkey, const ibv_mw_bind_info& info, SendRequest& out) {
  out.rkey = rkey;
  out.immediate_be = info.mr == nullptr ? 0 : info.mr->lkey;
  out.remote_address = info.addr;
  out.compare_or_add = info.length;
  out.swap = info.mw_access_flags;
}

extern "C" {

int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad_request) {
  return post_list<SendRequest>(object_of(qp), requests, bad_request);
}

int post_recv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad_request) {
  return post_list<ReceiveRequest>(object_of(qp), requests, bad_request);
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* requests, ibv_recv_wr** bad_request) {
  return post_list<ReceiveRequest>(object_of(srq), requests, bad_request);
}

}  // extern "C"

}  // namespace brdma::provider::verbs
