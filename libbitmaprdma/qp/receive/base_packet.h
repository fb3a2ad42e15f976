// qp/receive/base_packet.h - private: the packet at the base of a responder's window, while it cannot be executed: it
// has not come, or there is no receive for it. What was said to the peer about it, and what it waits for.
//
//   named    a sequence NAK names it: once, until it comes (IBTA 9.7.5.1.3; standard peers)
//   refused  an RNR NAK was sent for it: later packets are dropped until it comes again, and no gap is judged
//   blocked  it is held here and waits for a receive, or for room for its response; a posted receive retries it
#pragma once

#include <utility>

namespace brdma::qp {

class BasePacket {
 public:
  // It was executed, and the next one is at the base.
  void advance() { named_ = refused_ = false; }
  // The queue pair has ended: nothing is executed any more.
  void forget_waiting() { blocked_ = retry_due_ = false; }

  // True: it is to be named now.
  [[nodiscard]] bool name() { return !std::exchange(named_, true); }
  void name_again() { named_ = false; }

  void refuse() { refused_ = true; }
  [[nodiscard]] bool is_refused() const { return refused_; }

  void block() { blocked_ = true; }
  void unblock() { blocked_ = false; }
  [[nodiscard]] bool is_blocked() const { return blocked_; }
  void on_receive_posted() { retry_due_ = retry_due_ || blocked_; }
  [[nodiscard]] bool retry_due() const { return retry_due_; }
  // It is about to be executed once more.
  void retry() { retry_due_ = refused_ = false; }

 private:
  bool named_ = false;
  bool refused_ = false;
  bool blocked_ = false;
  bool retry_due_ = false;
};

}  // namespace brdma::qp
