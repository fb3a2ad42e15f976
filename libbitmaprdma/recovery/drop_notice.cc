#include "recovery/drop_notice.h"

namespace brdma::recovery {
namespace {

using bitmap::EntryState;

constexpr Duration kRangeTime = 20_us;

}  // namespace

RequestVerdict judge_drop(const DroppedEntry& entry, std::optional<Instant> transmitted, Duration quiet, Instant now) {
  if (entry.state == EntryState::kAcked) return RequestVerdict::kAcknowledged;
  if (entry.state == EntryState::kRetransmitPending) return RequestVerdict::kPending;
  if (!entry.sent_again) return RequestVerdict::kResend;
  if (transmitted) {
    const Instant latest = entry.first ? *transmitted : *transmitted + kRangeTime;
    return entry.sent > latest ? RequestVerdict::kOutdated : RequestVerdict::kResend;
  }
  return now - entry.sent < quiet ? RequestVerdict::kRecent : RequestVerdict::kResend;
}

}  // namespace brdma::recovery
