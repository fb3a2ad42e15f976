#include "qp/queues/work_completer.h"

namespace brdma::qp {

Outcome WorkCompleter::fail(std::uint64_t wqe, CompletionStatus status, Instant now) const {
  while (queue.head() < wqe) complete(CompletionStatus::kFlushed, now);
  complete(status, now);
  return Outcome{.to_error = true};
}

Outcome WorkCompleter::outcome(Instant now) const {
  if (const auto status = fault.due(queue.head())) return fail(queue.head(), *status, now);
  if (fault.lost()) return {.to_error = true, .async_event = kEventQpFatal};
  return {};
}

}  // namespace brdma::qp
