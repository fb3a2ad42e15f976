// qp/queues/shared_receive_queue.h - receives that many queue pairs take from (IBTA 10.2.9, shared receive queues).
//
// When a queue pair takes one: when the first packet of a message that needs it is executed in order, or when a packet
// of such a message is kept early. An early message takes the receives of the messages before it too, so that each
// queue pair consumes in the order of its own messages whatever came first; which of the posted receives that is
// depends on what other queue pairs take, as the specification has it. A taken receive belongs to its queue pair until
// it completes. When the queue pair goes to ERR, the one whose message has begun completes as flushed; those taken
// ahead come back to the head of the queue, as all of them do on RESET and when the queue pair is destroyed.
//
// A receive never waits in one queue pair for another's: the packet that a queue pair waits for has its receive before
// any later one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/ring.h"
#include "bitmaprdma/types.h"
#include "qp/queues/receive_queue.h"

namespace brdma {

class QueuePair;

class SharedReceiveQueue {
 public:
  // `low`: where it enters itself, once each time it is armed, when it holds fewer than its limit.
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
  bool give_to(qp::ReceiveQueue& taker);       // the oldest; false: there is none
  void take_back(qp::ReceiveQueue& returner);  // all of them, order kept, to the head

  // A queue pair holds a packet whose receive was not here: the engine lets it try again when one is posted.
  void note_waiting() { somebody_waits_ = true; }
  [[nodiscard]] bool take_waiting() {
    const bool waits = somebody_waits_;
    somebody_waits_ = false;
    return waits;
  }

  // The engine's bookkeeping.
  std::vector<QueuePair*> queue_pairs;  // that use it: destroy answers EBUSY while there are some
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
