// models/rdma/receiver.h - the destination of a RoCE flow.
// GoBackNReceiver (IBTA C9-110; the ns-3 RDMA forks):
//   in order: an ACK per `ack_every` packets; ahead: discarded, one NACK per expected byte, again only after the NACK
//   interval; behind: an ACK again, or nothing
// SelectiveReceiver (IRN section 3.1): keeps packets out of order.
//   in order, repeated: an ACK; ahead: a NACK each, with the cumulative ACK and the packet that caused it
// CNP: marked packets cause a CNP frame, at most one per interval, or set `ece` of the answer.
#pragma once

#include "models/parts/reassembly.h"
#include "models/rdma/settings.h"

namespace brdma::models::rdma {

// When a marked packet causes a CNP frame.
class CnpSource {
 public:
  explicit CnpSource(const Settings& settings)
      : interval_(settings.receiver.cnp_interval), bytes_(settings.sizes.answer) {}
  // Appends the CNP of `frame` to `out`, if one is due.
  void on_data(const Frame& frame, Instant now, std::vector<Frame>& out);
  [[nodiscard]] bool uses_answers() const { return !interval_; }

 private:
  std::optional<Duration> interval_;
  std::uint32_t bytes_;
  std::optional<Instant> last_;
};

class GoBackNReceiver final : public Receiver {
 public:
  GoBackNReceiver(FlowId flow, const Settings& settings) : flow_(flow), settings_(settings), cnp_(settings) {}

  void on_frame(const Frame& frame, Instant now, std::vector<Frame>& out) override;
  [[nodiscard]] bool complete() const override { return bytes_ && expected_ == *bytes_; }
  [[nodiscard]] std::uint64_t in_order() const override { return expected_; }
  [[nodiscard]] std::uint64_t discarded() const override { return discarded_; }

 private:
  [[nodiscard]] std::optional<FrameKind> answer_to(const Frame& frame, Instant now);

  FlowId flow_;
  Settings settings_;
  CnpSource cnp_;
  std::uint64_t expected_ = 0;
  std::optional<std::uint64_t> bytes_;  // of the flow, once its last packet arrived
  std::uint64_t discarded_ = 0;
  std::uint32_t unacknowledged_ = 0;     // packets
  std::optional<std::uint64_t> nacked_;  // the expected byte of the last NACK
  Instant nack_again_at_;
};

class SelectiveReceiver final : public Receiver {
 public:
  SelectiveReceiver(FlowId flow, const Settings& settings) : flow_(flow), settings_(settings), cnp_(settings) {}

  void on_frame(const Frame& frame, Instant now, std::vector<Frame>& out) override;
  [[nodiscard]] bool complete() const override { return bytes_ && received_.in_order() == *bytes_; }
  [[nodiscard]] std::uint64_t in_order() const override { return received_.in_order(); }
  [[nodiscard]] std::uint64_t discarded() const override { return discarded_; }

 private:
  FlowId flow_;
  Settings settings_;
  CnpSource cnp_;
  Reassembly received_;
  std::optional<std::uint64_t> bytes_;
  std::uint64_t discarded_ = 0;
};

}  // namespace brdma::models::rdma
