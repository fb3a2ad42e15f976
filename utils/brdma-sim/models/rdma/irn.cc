#include "models/rdma/irn.h"

namespace brdma::models::rdma {

// Bytes that arrived with this packet, none if they did before.
std::uint64_t Irn::deliver(std::uint64_t index) {
  Packet& packet = packets_[index - base_];
  if (packet.named) --named_;
  packet.named = false;
  return packet.sacked ? 0 : length_at(index * payload());
}

void Irn::begin(Cause cause, bool first_due) {
  in_recovery_ = true;
  cause_ = cause;
  first_due_ = first_due;
  recovery_end_ = end();
  cursor_ = base_;
}

Answered Irn::on_answer(const Frame& frame) {
  Answered result;
  newest_delivered_ = std::max(newest_delivered_, frame.echo);
  const std::uint64_t before = base_;
  while (!packets_.empty() && base_ * payload() < frame.ack) {
    result.delivered += deliver(base_);
    packets_.pop_front();
    ++base_;
  }
  for (const ByteRange& range : frame.sacked()) {
    const std::uint64_t index = range.first / payload();
    if (index < base_ || index >= end()) continue;
    result.delivered += deliver(index);
    packets_[index - base_].sacked = true;
    highest_sacked_ = std::max(highest_sacked_, index + 1);
  }
  if (base_ > before) first_due_ = false;
  if (in_recovery_ && base_ >= recovery_end_) in_recovery_ = false;
  if (frame.kind == FrameKind::kNack && !in_recovery_ && !packets_.empty()) {
    begin(Cause::kFeedback, is_late(packets_.front()));
    result.entered = true;
  }
  return result;
}

bool Irn::on_notice(const Frame& frame) {
  const std::uint64_t index = frame.sequence / payload();
  if (index < base_ || index >= end()) return false;
  Packet& packet = packets_[index - base_];
  if (packet.sacked || packet.named || packet.sent_at != frame.echo) return false;
  packet.named = true;
  ++named_;
  return true;
}

void Irn::on_timeout() {
  if (!packets_.empty()) begin(Cause::kTimeout, true);
}

std::optional<std::uint64_t> Irn::first_named() const {
  if (named_ == 0) return std::nullopt;
  std::uint64_t index = base_;
  while (!at(index).named) ++index;
  return index;
}

std::optional<std::uint64_t> Irn::first_lost() const {
  if (!in_recovery_) return std::nullopt;
  if (first_due_ && !packets_.empty() && !packets_.front().sacked) return base_;
  cursor_ = std::max(cursor_, base_);
  const std::uint64_t below = std::min(highest_sacked_, end());
  while (cursor_ < below && at(cursor_).sacked) ++cursor_;
  for (std::uint64_t index = edn_ ? base_ : cursor_; index < below; ++index) {
    if (!at(index).sacked && is_late(at(index))) return index;
  }
  return std::nullopt;
}

Plan Irn::again(std::uint64_t index, Cause cause) const {
  const std::uint64_t first = index * payload();
  return Plan{first, length_at(first), true, cause};
}

std::optional<Plan> Irn::plan(std::uint64_t limit) const {
  if (const auto named = first_named()) return again(*named, Cause::kNotified);
  if (const auto lost = first_lost()) return again(*lost, cause_);
  if (next() >= bytes()) return std::nullopt;
  const std::uint32_t length = length_at(next());
  if (!packets_.empty() && next() + length - una() > limit) return std::nullopt;
  return Plan{next(), length, false, Cause::kFeedback};
}

void Irn::on_sent(const Plan& plan, Instant now) {
  if (!plan.again) {
    packets_.push_back({now});
    return;
  }
  const std::uint64_t index = plan.first / payload();
  Packet& packet = packets_[index - base_];
  packet.sent_at = now;
  if (packet.named) {
    packet.named = false;
    --named_;
  } else {
    cursor_ = std::max(cursor_, index + 1);
  }
  if (index == base_) first_due_ = false;
}

}  // namespace brdma::models::rdma
