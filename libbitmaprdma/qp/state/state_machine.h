// qp/state/state_machine.h - private: the states of a queue pair (IBTA 10.3.1), the moves between them, and what each
// move starts and ends.
#pragma once

#include "qp/state/queue_pair.h"

namespace brdma {

// A view of the queue pair, made where it is needed.
class QueuePair::StateMachine {
 public:
  explicit StateMachine(QueuePair& pair) : pair_(pair) {}

  Status modify(const QpAttributes& attributes, std::uint32_t mask, Instant now) const;
  void carry_out(const qp::Outcome& outcome, Instant now) const;
  // All requests of a half complete as flushed.
  void fail_sends(Instant now) const;
  void fail_receives(Instant now) const;

 private:
  void apply(const QpAttributes& attributes, std::uint32_t mask) const;
  void enter(QpState state, std::uint32_t mask, Instant now) const;
  void enter_error(Instant now) const;
  void enter_send_error(Instant now) const;
  void enter_reset() const;
  void start_receiving() const;
  void start_sending() const;
  void set_state(QpState state, Instant now) const;
  void note_drained() const;

  QueuePair& pair_;
};

}  // namespace brdma
