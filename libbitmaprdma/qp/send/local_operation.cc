// Work requests that we carry out ourselves: a memory window is bound, or invalidated. In its turn: before it, all that
// was posted earlier has begun (and with a fence, what we ask the peer for is here); behind it, nothing begins earlier.
// So a SEND that tells the peer of a window finds it bound. It completes behind what was posted before it.
#include "qp/send/requester_impl.h"

namespace brdma::qp {

bool Requester::Impl::only_local_behind() const {
  std::uint64_t next = queue.next();
  while (next != queue.tail() && is_local(queue[next].opcode)) ++next;
  return next == queue.tail();
}

// Precondition: ready_to_send_new(), and a local operation is next.
bool Requester::Impl::execute_local(Instant now) {
  const std::uint64_t number = queue.next();
  const SendWqe& wqe = queue[number];
  if (wqe.opcode == WorkOpcode::kLocalInvalidate) {
    if (!env.memory.invalidate(id.accessor(), wqe.immediate_be)) {
      break_locally(number, CompletionStatus::kLocalQpOperationError);
      return false;
    }
  } else if (!env.memory.bind(id.accessor(), {.key = wqe.rkey,
                                              .lkey = wqe.immediate_be,
                                              .address = wqe.remote_address,
                                              .length = wqe.compare_or_add,
                                              .access = static_cast<std::uint32_t>(wqe.swap)})) {
    break_locally(number, CompletionStatus::kWindowBindError);
    return false;
  }
  queue.begin_next();
  if (queue.head() == number) complete_head(CompletionStatus::kSuccess, now);
  return true;
}

}  // namespace brdma::qp
