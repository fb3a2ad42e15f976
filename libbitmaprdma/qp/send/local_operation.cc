#include "qp/send/local_operation.h"

namespace brdma::qp {

bool LocalOperations::execute(Instant now) const {
  const Identity& id = parts_.id;
  memory::MemoryTable& memory = parts_.env.memory;
  SendQueue& queue = parts_.queue;
  const std::uint64_t number = queue.next();
  const SendWqe& wqe = queue[number];
  if (wqe.opcode == WorkOpcode::kLocalInvalidate) {
    if (!memory.invalidate(id.accessor(), wqe.immediate_be)) {
      parts_.fault.set(number, CompletionStatus::kLocalQpOperationError);
      return false;
    }
  } else if (!memory.bind(id.accessor(), {.key = wqe.rkey,
                                          .lkey = wqe.immediate_be,
                                          .address = wqe.remote_address,
                                          .length = wqe.compare_or_add,
                                          .access = static_cast<std::uint32_t>(wqe.swap)})) {
    parts_.fault.set(number, CompletionStatus::kWindowBindError);
    return false;
  }
  queue.begin_next();
  if (queue.head() == number)
    WorkCompleter{parts_.env, id, queue, parts_.fault}.complete(CompletionStatus::kSuccess, now);
  return true;
}

}  // namespace brdma::qp
