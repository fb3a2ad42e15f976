// models/rdma/recovery.h - which bytes a RoCE source sends next: the rule of loss recovery. One for each RecoveryRule.
// Packets are SMSS-like: packet i is the bytes [i * payload, (i + 1) * payload), the flow's last may be shorter.
// Policies: they decide; RdmaSender acts, has the timer and asks the congestion control.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "models/rdma/settings.h"

namespace brdma::models::rdma {

struct Plan {
  std::uint64_t first = 0;
  std::uint32_t length = 0;
  bool again = false;
  Cause cause = Cause::kFeedback;
};

struct Answered {
  std::uint64_t delivered = 0;  // bytes that this answer acknowledges for the first time, out of order too
  bool entered = false;         // a recovery begins
};

class LossRecovery {
 public:
  explicit LossRecovery(const Settings& settings) : payload_(settings.sizes.payload) {}
  virtual ~LossRecovery() = default;
  void start(std::uint64_t bytes) { bytes_ = bytes; }

  // An ACK or NACK.
  virtual Answered on_answer(const Frame& frame) = 0;
  // EDN; true if bytes are to be sent again for it.
  virtual bool on_notice(const Frame& frame) = 0;
  virtual void on_timeout() = 0;
  // limit: bytes from the first unacknowledged one that may be outstanding; one packet always may.
  [[nodiscard]] virtual std::optional<Plan> plan(std::uint64_t limit) const = 0;
  virtual void on_sent(const Plan& plan, Instant now) = 0;
  [[nodiscard]] virtual std::uint64_t una() const = 0;   // all bytes below are acknowledged
  [[nodiscard]] virtual std::uint64_t next() const = 0;  // the next byte in order
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 protected:
  [[nodiscard]] std::uint32_t length_at(std::uint64_t first) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(payload_, bytes_ - first));
  }
  [[nodiscard]] std::uint64_t payload() const { return payload_; }

 private:
  std::uint64_t payload_;
  std::uint64_t bytes_ = 0;
};

[[nodiscard]] std::unique_ptr<LossRecovery> make_recovery(const Settings& settings);

}  // namespace brdma::models::rdma
