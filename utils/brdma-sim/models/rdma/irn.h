// models/rdma/irn.h - IRN's selective retransmission. Source: "Revisiting Network Support for RDMA" (SIGCOMM 2018)
// section 3.1.
//   recovery begins with a NACK or a timeout: the packet at the cumulative ACK is sent first
//   then each packet that is not SACKed while one above it is; each once a recovery
//   then new packets, as far as the cap (BDP-FC) allows; there is no threshold of duplicates
//   recovery ends when the cumulative ACK passes the highest packet sent at its begin
//   A lost retransmission waits for the timeout.
// EDN: named packets are sent at once. A packet then is lost by SACK only if one that was sent later arrived.
#pragma once

#include <deque>

#include "models/rdma/recovery.h"

namespace brdma::models::rdma {

class Irn final : public LossRecovery {
 public:
  explicit Irn(const Settings& settings) : LossRecovery(settings), edn_(settings.edn) {}

  Answered on_answer(const Frame& frame) override;
  bool on_notice(const Frame& frame) override;
  void on_timeout() override;
  [[nodiscard]] std::optional<Plan> plan(std::uint64_t limit) const override;
  void on_sent(const Plan& plan, Instant now) override;
  [[nodiscard]] std::uint64_t una() const override { return std::min(base_ * payload(), bytes()); }
  [[nodiscard]] std::uint64_t next() const override { return std::min(end() * payload(), bytes()); }
  [[nodiscard]] bool in_recovery() const { return in_recovery_; }

 private:
  struct Packet {
    Instant sent_at;
    bool sacked = false;
    bool named = false;  // by EDN, and not sent again since
  };
  [[nodiscard]] std::uint64_t end() const { return base_ + packets_.size(); }
  [[nodiscard]] const Packet& at(std::uint64_t index) const { return packets_[index - base_]; }
  [[nodiscard]] bool is_late(const Packet& packet) const { return !edn_ || packet.sent_at < newest_delivered_; }
  [[nodiscard]] std::optional<std::uint64_t> first_named() const;
  [[nodiscard]] std::optional<std::uint64_t> first_lost() const;
  [[nodiscard]] Plan again(std::uint64_t index, Cause cause) const;
  std::uint64_t deliver(std::uint64_t index);
  void begin(Cause cause, bool first_due);

  bool edn_;
  std::deque<Packet> packets_;        // from `base_`, sent
  std::uint64_t base_ = 0;            // packets, as all below
  std::uint64_t highest_sacked_ = 0;  // exclusive
  std::size_t named_ = 0;
  Instant newest_delivered_;  // when the newest packet that arrived was sent
  bool in_recovery_ = false;
  bool first_due_ = false;  // the packet at base_ is to be sent, whatever is SACKed
  Cause cause_ = Cause::kFeedback;
  std::uint64_t recovery_end_ = 0;
  mutable std::uint64_t cursor_ = 0;  // all below were sent in this recovery, or are SACKed
};

}  // namespace brdma::models::rdma
