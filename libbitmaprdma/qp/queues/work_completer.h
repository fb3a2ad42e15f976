// qp/queues/work_completer.h - private: completions of send work requests, in posting order, each once. Unsignaled ones
// are silent unless they fail.
//
// A local fault (memory that is gone, a bad key) waits its turn: nothing is sent from there on, what was posted earlier
// completes as it would have, and then the work request at fault completes with its error (IBTA 10.8.3: in order).
#pragma once

#include <cstdint>
#include <optional>

#include "base/compact_optional.h"
#include "base/units.h"
#include "bitmaprdma/types.h"
#include "qp/queues/send_queue.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"

namespace brdma::qp {

class SendFault {
 public:
  // `wqe` has a local fault. The earliest one counts.
  void set(std::uint64_t wqe, CompletionStatus status) {
    if (is_set_at(wqe)) return;
    wqe_ = wqe;
    status_ = status;
  }
  void clear() { wqe_.reset(); }
  [[nodiscard]] bool is_set() const { return wqe_.has_value(); }
  // `wqe` or an earlier one has a fault: nothing of it leaves.
  [[nodiscard]] bool is_set_at(std::uint64_t wqe) const { return wqe_ && wqe >= *wqe_; }
  // Its status, if `oldest` is the one at fault.
  [[nodiscard]] std::optional<CompletionStatus> due(std::uint64_t oldest) const {
    return wqe_ && *wqe_ == oldest ? std::optional{status_} : std::nullopt;
  }
  // A completion found its queue full.
  void note_lost() { lost_ = true; }
  void forget_lost() { lost_ = false; }
  [[nodiscard]] bool lost() const { return lost_; }
  [[nodiscard]] bool has_outcome() const { return wqe_ || lost_; }

 private:
  CompactOptional<std::uint64_t> wqe_;  // fails when all earlier ones are complete
  bool lost_ = false;
  CompletionStatus status_ = CompletionStatus::kLocalProtectionError;
};

// Made where it is needed.
struct WorkCompleter {
  Environment& env;
  const Identity& id;
  SendQueue& queue;
  SendFault& fault;

  // The oldest work request is done, and leaves the queue. Local operations behind it have waited for just this.
  void complete(CompletionStatus status, Instant now) const;
  // `wqe` failed at the peer: earlier ones are flushed, it completes with `status`.
  Outcome fail(std::uint64_t wqe, CompletionStatus status, Instant now) const;
  // What the queue pair has to do about a fault.
  [[nodiscard]] Outcome outcome(Instant now) const;

 private:
  [[nodiscard]] static CompletionOpcode completion_opcode(WorkOpcode opcode);
  void make_completion(const SendWqe& wqe, CompletionStatus status, Instant now) const;
};

inline CompletionOpcode WorkCompleter::completion_opcode(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kRdmaWrite:
    case WorkOpcode::kRdmaWriteWithImm:
      return CompletionOpcode::kRdmaWrite;
    case WorkOpcode::kRdmaRead:
      return CompletionOpcode::kRdmaRead;
    case WorkOpcode::kAtomicCmpSwap:
      return CompletionOpcode::kCompSwap;
    case WorkOpcode::kAtomicFetchAdd:
      return CompletionOpcode::kFetchAdd;
    case WorkOpcode::kAtomicWrite:
      return CompletionOpcode::kAtomicWrite;
    case WorkOpcode::kFlush:
      return CompletionOpcode::kFlush;
    case WorkOpcode::kBindMw:
      return CompletionOpcode::kBindMw;
    case WorkOpcode::kLocalInvalidate:
      return CompletionOpcode::kLocalInvalidate;
    default:
      return CompletionOpcode::kSend;
  }
}

// Inlined into what handles an acknowledgement: one of each small message comes through here.
[[gnu::always_inline]] inline void WorkCompleter::complete(CompletionStatus status, Instant now) const {
  const bool good = status == CompletionStatus::kSuccess;
  do {
    const SendWqe& wqe = queue[queue.head()];
    if (!good || id.signal_all || (wqe.flags & kSendSignaled) != 0) make_completion(wqe, status, now);
    queue.pop();
  } while (good && queue.head() < queue.next() && is_local(queue[queue.head()].opcode));
}

[[gnu::always_inline]] inline void WorkCompleter::make_completion(const SendWqe& wqe, CompletionStatus status,
                                                                  Instant now) const {
  const bool good = status == CompletionStatus::kSuccess;
  const auto fill = [&](Completion& completion) {
    completion = {.wr_id = wqe.wr_id,
                  .status = status,
                  .opcode = completion_opcode(wqe.opcode),
                  .byte_length = good ? wqe.length : 0,
                  .qp_num = id.qpn};
  };
  if (good && env.telemetry.sink == nullptr && id.send_cq->is_quiet()) [[likely]]
    return fill(id.send_cq->add());
  Completion completion;
  fill(completion);
  if (!env.complete(*id.send_cq, completion, !good, now)) fault.note_lost();
}

}  // namespace brdma::qp
