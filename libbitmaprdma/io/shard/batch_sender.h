// io/shard/batch_sender.h - gives batches to the system, and keeps the one that it does not take now. That one goes
// first next time: no output of the engine is lost without a count.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/datagram.h"
#include "io/shard/outlet.h"
#include "trace/counters.h"

namespace brdma::io {

class BatchSender {
 public:
  // `statistics` outlives this.
  BatchSender(Outlet outlet, Statistics& statistics) : statistics_(statistics), outlet_(std::move(outlet)) {}

  enum class Sent : std::uint8_t {
    kYes,            // it left, or its refused packets are counted
    kBlocked,        // it is pending
    kMemoryMissing,  // it has not left, and cannot: Engine::withdraw()
  };
  // Precondition: nothing is pending. `transmit`: from poll_transmit() with buffer().
  Sent send(const Transmit& transmit);
  Sent send_pending();  // precondition: pending()
  // Waits a moment for the system to take the pending batch, whose memory may go away; else its packets are lost, and
  // counted. Precondition: pending().
  Sent finish_pending();

  [[nodiscard]] bool pending() const { return pending_.has_value(); }
  // The descriptor that is writable when the pending batch can continue; -1: nothing pending.
  [[nodiscard]] int blocked_fd() const { return pending_ ? outlet_.blocked_fd(*pending_) : -1; }
  [[nodiscard]] const Outlet& outlet() const { return outlet_; }
  [[nodiscard]] TransmitBuffer& buffer() { return buffer_; }

 private:
  [[nodiscard]] Sent missing(const Transmit& transmit, std::uint32_t unsent);

  Statistics& statistics_;
  Outlet outlet_;
  std::optional<Transmit> pending_;
  TransmitBuffer buffer_;  // of the last batch
};

}  // namespace brdma::io
