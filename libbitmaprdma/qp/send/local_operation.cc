// Local work requests: a memory window is bound or invalidated, in order. All earlier posts have begun by then (and
// with a fence, our READs and atomics are answered); no later one begins earlier. So a SEND that passes a window to the
// peer finds it bound. It completes after all earlier posts.
#include "qp/send/requester_impl.h"

namespace brdma::qp {

// Precondition: ready_to_send_new(), and a local operation is next.
bool Requester::Impl::execute_local(Instant now) {
  const std::uint64_t number = queue.next();
  const SendWqe& wqe = queue[number];
  if (wqe.opcode == WorkOpcode::kLocalInvalidate) {
    if (!env.memory.invalidate(id.accessor(), wqe.immediate_be)) {
      fault.set(number, CompletionStatus::kLocalQpOperationError);
      return false;
    }
  } else if (!env.memory.bind(id.accessor(), {.key = wqe.rkey,
                                              .lkey = wqe.immediate_be,
                                              .address = wqe.remote_address,
                                              .length = wqe.compare_or_add,
                                              .access = static_cast<std::uint32_t>(wqe.swap)})) {
    fault.set(number, CompletionStatus::kWindowBindError);
    return false;
  }
  queue.begin_next();
  if (queue.head() == number) completer().complete(CompletionStatus::kSuccess, now);
  return true;
}

}  // namespace brdma::qp
