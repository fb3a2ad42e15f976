// models/rdma/sender.h - the source of a RoCE flow: a rule of loss recovery, a congestion control, one timer, a pacer.
// Timer: armed by each packet sent and each answer while bytes are outstanding; no back-off; retries are not limited
// (an adapter gives up after 7). Of two timeouts the low one is taken while few packets are outstanding (IRN).
#pragma once

#include <memory>

#include "models/parts/pacer.h"
#include "models/rdma/control.h"
#include "models/rdma/recovery.h"

namespace brdma::models::rdma {

class RdmaSender final : public Sender {
 public:
  RdmaSender(FlowId flow, const Settings& settings);

  void start(std::uint64_t bytes, Instant now) override;
  void on_frame(const Frame& frame, Instant now) override;
  [[nodiscard]] std::optional<Instant> ready_at() const override;
  [[nodiscard]] std::optional<Frame> next_frame(Instant now) override;
  [[nodiscard]] std::optional<Instant> next_deadline() const override { return deadline_; }
  void on_deadline(Instant now) override;
  [[nodiscard]] bool done() const override { return started_at_ && recovery_->una() == recovery_->bytes(); }
  [[nodiscard]] const Counters& counters() const override { return counters_; }
  [[nodiscard]] std::uint64_t window() const override;
  [[nodiscard]] Bandwidth rate() const override { return control_->rate(); }

 private:
  void on_answer(const Frame& frame, Instant now);
  void arm(Instant now);
  void count_reductions() { counters_.reductions = control_->reductions(); }
  [[nodiscard]] std::optional<Plan> plan() const;

  FlowId flow_;
  Settings settings_;
  Counters counters_;
  std::unique_ptr<LossRecovery> recovery_;
  std::unique_ptr<Control> control_;
  Pacer pacer_;
  std::optional<Instant> started_at_;
  std::optional<Instant> deadline_;
};

}  // namespace brdma::models::rdma
