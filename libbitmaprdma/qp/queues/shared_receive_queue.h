// qp/queues/shared_receive_queue.h - receives that many queue pairs take from (IBTA 10.2.9, shared receive queues).
//
// When a queue pair takes one: when the first packet of a message that needs it is executed in order, or when a packet
// of such a message is kept early. An early message takes the receives of the messages before it too. So each queue
// pair consumes in the order of its own messages, whatever came first; which posted receives those are depends on other
// queue pairs, as in the specification. A taken receive belongs to its queue pair until it completes. When the queue
// pair goes to ERR, the receive of a begun message completes as flushed. Those taken ahead return to the head of the
// queue, as all of them do on RESET and when the queue pair is destroyed.
//
// A receive in one queue pair never blocks another: the packet that a queue pair waits for has its receive before any
// later one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/ring.h"
#include "bitmaprdma/types.h"
#include "qp/queues/receive_queue.h"

namespace brdma {

class CompletionQueue;
class QueuePair;

class SharedReceiveQueue {
 public:
  // `low`: list that it enters when it holds fewer than its limit, once each time it is armed.
  SharedReceiveQueue(ProtectionDomain* pd, const SrqAttributes& attributes, void* user, Ring<SharedReceiveQueue*>& low);

  Status post(const ReceiveRequest& request);  // EINVAL: too many elements; ENOMEM: full
  // EINVAL, and nothing changed: fewer entries than posted, a limit beyond the entries. A limit other than 0 arms.
  Status modify(const SrqAttributes& attributes, std::uint32_t mask);
  [[nodiscard]] SrqAttributes attributes() const;
  [[nodiscard]] std::size_t size() const { return receives_.size(); }
  [[nodiscard]] ProtectionDomain* pd() const { return pd_; }
  [[nodiscard]] void* user() const { return user_; }

  // --- qp::ReceiveQueue's ---
  [[nodiscard]] const qp::ReceiveQueue& receives() const { return receives_; }
  bool give_to(qp::ReceiveQueue& taker);       // the oldest; false: none
  void take_back(qp::ReceiveQueue& returner);  // all of them, order kept, to the head

  // A queue pair holds a packet without a receive: the engine lets it try again when one is posted.
  void note_waiting() { somebody_waits_ = true; }
  [[nodiscard]] bool take_waiting() {
    const bool waits = somebody_waits_;
    somebody_waits_ = false;
    return waits;
  }

  // Of an extended reliable connection (qp/shared/xrc_queues.h).
  struct Xrc {
    std::uint32_t number = 0;  // 0: it is of the basic kind
    std::uint16_t domain = 0;
    CompletionQueue* cq = nullptr;  // of all receives
  };
  Xrc xrc;

  // The engine's bookkeeping.
  std::vector<QueuePair*> queue_pairs;  // that use it: destroy returns EBUSY while there are some
  std::size_t place = 0;                // in the engine's list

 private:
  void look_at_limit();

  ProtectionDomain* pd_;
  void* user_;
  qp::ReceiveQueue receives_;
  std::uint32_t sges_max_;
  std::uint32_t limit_ = 0;  // 0: not armed
  bool somebody_waits_ = false;
  Ring<SharedReceiveQueue*>& low_;
};

}  // namespace brdma
