// models/rdma/irn_ns3.h - IRN as a common ns-3 code does it, which is not the paper's rule. Source: the ConWeave
// simulator (rdma-hw.cc, rdma-queue-pair.cc), described in this project's words.
//   first NACK or a timeout: back to the oldest unacknowledged byte; from there all bytes are sent in order that are
//   not SACKed when their turn comes, those that are still in the network included SACK ranges are forgotten once
//   passed: a second return (timeout) sends received bytes again recovery ends at the highest byte sent at its begin,
//   or with the first ACK (an answer without holes)
// The receiver answers with NACKs while it has holes (ReceiverSettings::nacks_while_holes).
// EDN does not belong to it: notifications are ignored.
#pragma once

#include <vector>

#include "models/rdma/recovery.h"

namespace brdma::models::rdma {

class IrnNs3 final : public LossRecovery {
 public:
  explicit IrnNs3(const Settings& settings) : LossRecovery(settings) {}

  Answered on_answer(const Frame& frame) override;
  bool on_notice(const Frame& /*frame*/) override { return false; }
  void on_timeout() override;
  [[nodiscard]] std::optional<Plan> plan(std::uint64_t limit) const override;
  void on_sent(const Plan& plan, Instant now) override;
  [[nodiscard]] std::uint64_t una() const override { return una_; }
  [[nodiscard]] std::uint64_t next() const override { return next_; }

 private:
  void add(ByteRange range);
  void discard_below(std::uint64_t byte);
  void go_back(Cause cause);

  std::uint64_t una_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t highest_ = 0;      // sent once, exclusive
  std::vector<ByteRange> sacked_;  // ascending, apart from each other
  bool in_recovery_ = false;
  std::uint64_t recovery_end_ = 0;
  Cause cause_ = Cause::kFeedback;
};

}  // namespace brdma::models::rdma
