// models/rdma/go_back_n.h - what RoCE adapters do: the destination keeps nothing out of order.
//   NACK, timeout: the next byte is the oldest unacknowledged one. Source: IBTA C9-110 to 141; the ns-3 RDMA forks.
//   EDN: the next byte is the dropped one. A NACK or notification is ignored if the packet that it names was sent again
//   since: it is about an earlier copy.
#pragma once

#include <deque>

#include "models/rdma/recovery.h"

namespace brdma::models::rdma {

class GoBackN final : public LossRecovery {
 public:
  explicit GoBackN(const Settings& settings) : LossRecovery(settings), edn_(settings.edn) {}

  Answered on_answer(const Frame& frame) override;
  bool on_notice(const Frame& frame) override;
  void on_timeout() override;
  [[nodiscard]] std::optional<Plan> plan(std::uint64_t limit) const override;
  void on_sent(const Plan& plan, Instant now) override;
  [[nodiscard]] std::uint64_t una() const override { return una_; }
  [[nodiscard]] std::uint64_t next() const override { return next_; }

 private:
  void go_back(std::uint64_t to, Cause cause);
  [[nodiscard]] Instant sent_at(std::uint64_t byte) const { return sent_at_[(byte - sent_from_) / payload()]; }

  bool edn_;
  std::uint64_t una_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t highest_ = 0;  // sent once, exclusive
  Cause cause_ = Cause::kFeedback;
  std::deque<Instant> sent_at_;  // EDN: of the last copies, from the packet at `sent_from_`
  std::uint64_t sent_from_ = 0;
};

}  // namespace brdma::models::rdma
