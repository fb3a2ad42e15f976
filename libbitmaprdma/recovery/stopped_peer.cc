#include "recovery/stopped_peer.h"

#include <algorithm>

namespace brdma::recovery {
namespace {

constexpr std::int64_t kFirstPart = 4, kIntervalPart = 8;  // of the retry count's time
constexpr Duration kIntervalMin = 1_ms, kIntervalMax = 1_s;

}  // namespace

std::optional<Instant> StoppedPeer::query_at(Instant since, const StoppedPeerLimits& limits) const {
  if (limits.stopped_max == Duration{} || is_due(since)) return std::nullopt;
  Instant next = since + limits.retries / kFirstPart;
  if (since_ == since && asked_ > 0) {
    next = asked_at_ + std::clamp(limits.retries / kIntervalPart, kIntervalMin, kIntervalMax);
  }
  return next < since + limits.stopped_max ? std::optional{next} : std::nullopt;
}

void StoppedPeer::query_falls_due(Instant since) {
  if (since_ != since) {
    since_ = since;
    asked_ = replied_ = 0;
  }
  due_ = true;
}

std::uint64_t StoppedPeer::asked(std::uint64_t first_nonce, Instant now) {
  if (asked_ == 0) first_nonce_ = first_nonce;
  due_ = false;
  asked_at_ = now;
  return first_nonce_ + asked_++;
}

StoppedPeer::Verdict StoppedPeer::replied(std::uint64_t nonce, Instant since, const StoppedPeerLimits& limits,
                                          Instant now) {
  const std::uint64_t number = nonce - first_nonce_;
  if (since_ != since || number < replied_ || number >= asked_) return Verdict::kUnasked;
  if (now >= since + limits.stopped_max) return Verdict::kTooLate;
  const bool first = replied_ == 0;
  replied_ = number + 1;
  replied_at_ = now;
  return first ? Verdict::kFirstTaken : Verdict::kTaken;
}

}  // namespace brdma::recovery
