#include "recovery/retransmit_request.h"

namespace brdma::recovery {

using bitmap::EntryState;

RequestVerdict judge_request(const RequestedEntry& entry, Duration quiet, bool overtaken) {
  if (entry.state == EntryState::kAcked) return RequestVerdict::kAcknowledged;
  if (entry.state == EntryState::kRetransmitPending) return RequestVerdict::kPending;
  if (entry.sent_again && overtaken) return RequestVerdict::kOutdated;
  if (entry.sent_again && entry.since_sent < quiet) return RequestVerdict::kRecent;
  return RequestVerdict::kResend;
}

FeedbackOrder::Kind FeedbackOrder::take(std::uint32_t serial) {
  const auto ahead = static_cast<std::int32_t>(serial - newest_);
  const std::uint64_t seen = std::uint64_t{seen_.high} << 32 | seen_.low;
  const auto remember = [this](std::uint64_t bits) {
    seen_ = {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
  };
  if (seen == 0 || ahead > 0) {
    const bool far = seen == 0 || static_cast<std::uint32_t>(ahead) >= kRemembered;
    remember((far ? 0 : seen << ahead) | 1);
    newest_ = serial;
    return Kind::kNew;
  }
  const std::uint32_t behind = newest_ - serial;
  if (behind >= kRemembered) return Kind::kStale;
  const std::uint64_t bit = std::uint64_t{1} << behind;
  if ((seen & bit) != 0) return Kind::kDuplicate;
  remember(seen | bit);
  return Kind::kOvertaken;
}

}  // namespace brdma::recovery
