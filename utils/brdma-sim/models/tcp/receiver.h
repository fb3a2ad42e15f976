// models/tcp/receiver.h - the destination of a TCP flow. Sources: RFC 5681 section 4.2, RFC 2018, RFC 2883.
//   in order: an ACK per `ack_every` segments or after `ack_delay`; at once while there is a hole or one closes
//   out of order or repeated: an ACK at once, with SACK ranges (the newest first) and DSACK
#pragma once

#include "models/parts/reassembly.h"
#include "models/tcp/settings.h"

namespace brdma::models::tcp {

class TcpReceiver final : public Receiver {
 public:
  TcpReceiver(FlowId flow, const Settings& settings) : flow_(flow), settings_(settings) {}

  void on_frame(const Frame& frame, Instant now, std::vector<Frame>& out) override;
  [[nodiscard]] std::optional<Instant> next_deadline() const override { return ack_at_; }
  void on_deadline(Instant now, std::vector<Frame>& out) override;
  [[nodiscard]] bool complete() const override { return bytes_ && received_.in_order() == *bytes_; }
  [[nodiscard]] std::uint64_t in_order() const override { return received_.in_order(); }
  [[nodiscard]] std::uint64_t discarded() const override { return discarded_; }

 private:
  [[nodiscard]] Frame make_ack(Instant echo, Instant now);

  FlowId flow_;
  Settings settings_;
  Reassembly received_;
  std::optional<std::uint64_t> bytes_;  // of the flow, once its last segment arrived
  std::uint64_t discarded_ = 0;
  std::uint32_t unacknowledged_ = 0;  // segments in order
  Instant echo_;                      // of the first of these (RFC 7323 section 4.3)
  std::optional<Instant> ack_at_;
};

}  // namespace brdma::models::tcp
