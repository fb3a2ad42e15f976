// qp/loss/refusals.h - private: what a requester does when the peer refuses a packet: an RNR NAK (IBTA 9.7.5.2.8), a
// sequence NAK, or one that ends the work request. The packets before it are acknowledged already.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "bitmaprdma/types.h"
#include "qp/loss/loss_recovery.h"
#include "qp/loss/sent_packets.h"
#include "qp/send/local_references.h"
#include "qp/timers/receiver_not_ready.h"
#include "recovery/rtt_estimator.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class Refusals {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const Scoreboard& scoreboard;
    const recovery::RttEstimator& rtt;
    PooledLossRecovery& loss;
    ReceiverNotReady& rnr;
    SentPackets packets;
    LocalReferences references;
  };
  explicit Refusals(const Parts& parts) : parts_(parts) {}

  enum class Rnr : std::uint8_t {
    kRepeated,  // of the RNR NAK whose wait is not over: nothing changes
    kWaits,     // the wait has begun
    kTooMany,   // more often in a row than the queue pair allows: the work request fails
  };
  [[nodiscard]] Rnr on_not_ready(std::uint8_t syndrome, Sequence at, Instant now) const;
  // A standard receiver drops everything behind a missing packet: that and all behind it leave again. A repeated NAK
  // only after a round trip.
  void on_sequence_nak(Sequence at, Instant now) const;
  // The status that the work request at `at` ends with.
  [[nodiscard]] CompletionStatus status(std::uint8_t syndrome, Sequence at) const;
  // A NAK for a packet that counts as executed: READ responses have begun to come, but the peer cannot continue, as its
  // memory is gone.
  [[nodiscard]] bool refuses_rest(std::uint8_t syndrome, Sequence at) const;

 private:
  Parts parts_;
};

}  // namespace brdma::qp
