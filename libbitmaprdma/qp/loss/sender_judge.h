// qp/loss/sender_judge.h - state of a sender that judges losses by itself: RecoveryMode::kSelective, kWan and
// kWanFeedback. Absent in any other mode.
#pragma once

#include <optional>
#include <variant>

#include "base/config.h"
#include "base/units.h"
#include "recovery/delay_judge.h"
#include "recovery/selective_judge.h"

namespace brdma::qp {

// The second baseline, IRN (timer_actions.h): timeouts for few packets in flight, and for more.
struct IrnTimeouts {
  Duration low, high;
};

struct Selective {
  recovery::SelectiveJudge judge{};
  std::optional<Instant> judge_at{};
  std::optional<IrnTimeouts> irn{};  // else RACK, and our own timeouts
};

class SenderJudge {
 public:
  [[nodiscard]] static bool is_wanted(RecoveryMode mode) {
    return mode == RecoveryMode::kSelective || waits_for_delays(mode);
  }
  explicit SenderJudge(const RecoveryConfig& config) {
    if (waits_for_delays(config.mode)) judge_.emplace<recovery::DelayJudge>(config.wan.delay_samples);
  }
  [[nodiscard]] Selective* selective() { return std::get_if<Selective>(&judge_); }
  [[nodiscard]] recovery::DelayJudge* delays() { return std::get_if<recovery::DelayJudge>(&judge_); }
  // Precondition: RecoveryMode::kSelective.
  void follow_irn(const IrnTimeouts& timeouts) {
    judge_ = Selective{.judge = recovery::SelectiveJudge{recovery::SelectiveJudge::Rule::kIrn}, .irn = timeouts};
  }
  // Packet `sequence` has left, in bitmap mode.
  void on_sent(std::uint64_t sequence, Instant now) {
    if (recovery::DelayJudge* const log = delays()) log->sent(sequence, now);
  }
  // When the next packet may count as lost without an acknowledgement. `silent_wait`: a probe's timeout.
  [[nodiscard]] std::optional<Instant> judged_at(Duration walk_interval, Duration silent_wait) const {
    if (const auto* delays = std::get_if<recovery::DelayJudge>(&judge_))
      return delays->walk_at({.interval = walk_interval, .silent_wait = silent_wait});
    return std::get<Selective>(judge_).judge_at;
  }
  [[nodiscard]] const std::optional<IrnTimeouts>& irn() const {
    static constexpr std::optional<IrnTimeouts> kNo;
    const auto* selective = std::get_if<Selective>(&judge_);
    return selective != nullptr ? selective->irn : kNo;
  }
  [[nodiscard]] std::size_t allocated_bytes() const {
    const auto* delays = std::get_if<recovery::DelayJudge>(&judge_);
    return sizeof *this + (delays != nullptr ? delays->allocated_bytes() : 0);
  }

 private:
  std::variant<Selective, recovery::DelayJudge> judge_;
};

}  // namespace brdma::qp
