#include "models/rdma/irn_ns3.h"

namespace brdma::models::rdma {

void IrnNs3::add(ByteRange range) {
  range.first = std::max(range.first, una_);
  if (range.first >= range.end) return;
  auto place = sacked_.begin();
  while (place != sacked_.end() && place->end < range.first) ++place;
  auto last = place;
  for (; last != sacked_.end() && last->first <= range.end; ++last) {
    range = {std::min(range.first, last->first), std::max(range.end, last->end)};
  }
  sacked_.insert(sacked_.erase(place, last), range);
}

void IrnNs3::discard_below(std::uint64_t byte) {
  std::erase_if(sacked_, [byte](const ByteRange& each) { return each.end <= byte; });
}

void IrnNs3::go_back(Cause cause) {
  if (!in_recovery_) recovery_end_ = next_;
  in_recovery_ = true;
  cause_ = cause;
  next_ = una_;
}

Answered IrnNs3::on_answer(const Frame& frame) {
  Answered result;
  const std::uint64_t before = una_;
  una_ = std::max(una_, frame.ack);
  for (const ByteRange& range : frame.sacked()) add(range);
  if (!sacked_.empty() && sacked_.front().first == una_) una_ = sacked_.front().end;
  discard_below(una_);
  next_ = std::max(next_, una_);
  result.delivered = una_ - before;
  if (una_ >= recovery_end_) in_recovery_ = false;
  if (frame.kind == FrameKind::kAck) {
    in_recovery_ = false;
  } else if (!in_recovery_ && next_ > una_) {
    go_back(Cause::kFeedback);
    result.entered = true;
  }
  return result;
}

void IrnNs3::on_timeout() {
  if (next_ > una_) go_back(Cause::kTimeout);
}

std::optional<Plan> IrnNs3::plan(std::uint64_t limit) const {
  std::uint64_t first = next_;
  for (const ByteRange& each : sacked_) {
    if (each.first <= first && first < each.end) first = each.end;
  }
  if (first >= bytes()) return std::nullopt;
  const std::uint32_t length = length_at(first);
  if (first > una_ && first + length - una_ > limit) return std::nullopt;
  return Plan{first, length, first < highest_, cause_};
}

void IrnNs3::on_sent(const Plan& plan, Instant /*now*/) {
  discard_below(plan.first);  // passed
  next_ = plan.first + plan.length;
  highest_ = std::max(highest_, next_);
}

}  // namespace brdma::models::rdma
