// qp/unreliable/unreliable_send.h - the sending half of a UC or UD queue pair: work requests become packets, once.
//
// Nothing is acknowledged. A work request completes when all its packets have been handed over to the driver. The
// memory of a batch is read until the engine is asked for the next one, so those of the last batch complete then. A
// work request that cannot be sent (IBTA 10.3.1.5: SQ error) completes with its error, those behind it are flushed, and
// the queue pair goes on receiving.
#pragma once

#include <cstdint>
#include <span>

#include "base/ring.h"
#include "base/transmit_interest.h"
#include "bitmaprdma/types.h"
#include "qp/queues/payload_cursor.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/transmit_batch.h"
#include "qp/queues/work_completer.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"

namespace brdma::qp {

class UnreliableSender {
 public:
  UnreliableSender(Environment& environment, const Identity& identity);

  Status post(const SendRequest& request);                                      // EINVAL, ENOMEM
  [[nodiscard]] Status check_all(std::span<const SendRequest> requests) const;  // would post() take all of them?
  void start(Psn first);                                                        // RTR -> RTS
  void reset();
  void flush(Instant now);  // all completes as kFlushed, in order
  // The next packets of one destination. True: at least one was added.
  bool poll(TransmitBatch& batch, Instant now);
  // The packets of poll() have been sent: their work requests complete.
  void handed_over(Instant now);
  // They have not, and will not be: memory of some is gone. That work request fails, those before it complete.
  void withdraw(Instant now);
  // Errors found by those two, on which only the queue pair may act.
  [[nodiscard]] Outcome take_outcome();
  [[nodiscard]] bool has_output() const;
  [[nodiscard]] TransmitInterest interest() const {
    return has_output() ? TransmitInterest::kNewData : TransmitInterest::kNone;
  }
  [[nodiscard]] bool idle() const { return queue_.head() == queue_.next() && offset_ == 0; }  // SQ drained
  [[nodiscard]] Psn next_psn() const { return psn_; }
  [[nodiscard]] std::uint64_t work_requests() const { return queue_.tail() - queue_.head(); }
  [[nodiscard]] std::size_t allocated_bytes() const;

 private:
  // Of each work request of a UD queue pair.
  struct Destination {
    AddressHandle address;
    std::uint32_t qpn = 0, qkey = 0;
  };
  [[nodiscard]] Status check(const SendRequest& request, std::uint32_t& length) const;
  [[nodiscard]] const Destination& destination() const { return destinations_[queue_.next() - queue_.head()]; }
  void begin(TransmitBatch& batch);
  [[nodiscard]] bool same_destination(const Destination& first) const;
  bool add_packet(TransmitBatch& batch, PayloadCursor& cursor, Instant now);
  void build(wire::Packet& packet, bool last) const;
  void complete_head(CompletionStatus status, Instant now);
  void fail(CompletionStatus status, Instant now);

  Environment& env_;
  const Identity& id_;
  SendQueue queue_;  // [head, next): handed out, not yet sent for certain
  SendFault fault_;
  Ring<Destination> destinations_;
  Psn psn_;
  std::uint32_t offset_ = 0;      // bytes sent of the work request at next()
  wire::AddressedIcrcFlow flow_;  // of the last batch
  Outcome outcome_;
};

}  // namespace brdma::qp
