#include "models/rdma/go_back_n.h"

namespace brdma::models::rdma {

void GoBackN::go_back(std::uint64_t to, Cause cause) {
  next_ = to;
  cause_ = cause;
}

void GoBackN::on_timeout() { go_back(una_, Cause::kTimeout); }

Answered GoBackN::on_answer(const Frame& frame) {
  Answered result;
  if (frame.ack > una_) {
    result.delivered = frame.ack - una_;
    una_ = frame.ack;
    next_ = std::max(next_, una_);
    for (; !sent_at_.empty() && sent_from_ < una_; sent_from_ += payload()) sent_at_.pop_front();
  }
  if (frame.kind != FrameKind::kNack || next_ <= una_) return result;
  if (edn_ && sent_at(una_) > frame.echo) return result;  // left after the packet that caused the NACK
  go_back(una_, Cause::kFeedback);
  result.entered = true;
  return result;
}

bool GoBackN::on_notice(const Frame& frame) {
  if (frame.sequence < una_ || frame.sequence >= next_ || sent_at(frame.sequence) != frame.echo) return false;
  go_back(frame.sequence, Cause::kNotified);
  return true;
}

std::optional<Plan> GoBackN::plan(std::uint64_t limit) const {
  if (next_ >= bytes()) return std::nullopt;
  const std::uint32_t length = length_at(next_);
  if (next_ > una_ && next_ + length - una_ > limit) return std::nullopt;
  return Plan{next_, length, next_ < highest_, cause_};
}

void GoBackN::on_sent(const Plan& plan, Instant now) {
  if (edn_) {
    if (plan.again) {
      sent_at_[(plan.first - sent_from_) / payload()] = now;
    } else {
      sent_at_.push_back(now);
    }
  }
  next_ = plan.first + plan.length;
  highest_ = std::max(highest_, next_);
}

}  // namespace brdma::models::rdma
