#include "qp/respond/response_log.h"

#include <algorithm>

namespace brdma::qp {
namespace {

using recovery::RequestVerdict;

// The packets of a reported range after the first left within so long of it (recovery/drop_notice.h).
constexpr Duration kRangeTime = 20_us;

bool lies_in(Psn psn, Psn first, std::uint32_t count) {
  const std::int32_t place = distance(psn, first);
  return place >= 0 && static_cast<std::uint32_t>(place) < count;
}

// Newest first.
template <class T>
const T& by_age(const std::vector<T>& ring, std::size_t newest, std::size_t age) {
  return ring[(newest + ring.size() - age) % ring.size()];
}

// The response was sent again at `again`.
RequestVerdict judge_resent(const DroppedResponse& dropped, Instant again, Duration quiet, Instant now) {
  // A queue that stays full does not get the same forever: the requester re-requests, a round trip later.
  if (dropped.full) return RequestVerdict::kRecent;
  if (!dropped.transmitted) return now - again < quiet ? RequestVerdict::kRecent : RequestVerdict::kResend;
  const Instant latest = dropped.first ? *dropped.transmitted : *dropped.transmitted + kRangeTime;
  return again >= *dropped.transmitted && again <= latest ? RequestVerdict::kResend : RequestVerdict::kOutdated;
}

}  // namespace

ResponseLog::ResponseLog(std::uint32_t responses_max) : responses_max_(std::max<std::size_t>(responses_max, 1)) {
  responses_.reserve(responses_max_);
}

void ResponseLog::answered(const SentResponse& response) {
  if (responses_.size() < responses_max_) {
    newest_response_ = responses_.size();
    responses_.push_back(response);
    return;
  }
  newest_response_ = (newest_response_ + 1) % responses_max_;
  responses_[newest_response_] = response;
}

const SentResponse* ResponseLog::find(Psn psn) const {
  for (std::size_t age = 0; age < responses_.size(); ++age) {
    const SentResponse& response = by_age(responses_, newest_response_, age);
    if (lies_in(psn, response.first, response.packets)) return &response;
  }
  return nullptr;
}

void ResponseLog::sent_again(Psn psn, bool unasked, Instant now) {
  if (!resends_.empty()) {
    Resend& last = resends_[newest_resend_];
    if (last.at == now && last.first + last.packets == psn && (last.unasked != 0) == unasked) {
      ++last.packets;
      return;
    }
  }
  if (resends_.capacity() == 0) resends_.reserve(kResendsKept);
  if (resends_.size() < kResendsKept) {
    newest_resend_ = resends_.size();
    resends_.emplace_back();
  } else {
    newest_resend_ = (newest_resend_ + 1) % kResendsKept;
    forgotten_ = resends_[newest_resend_].at;
  }
  resends_[newest_resend_] = {.first = psn, .packets = 1, .unasked = unasked ? 1u : 0u, .at = now};
}

const ResponseLog::Resend* ResponseLog::find_resend(Psn psn) const {
  for (std::size_t age = 0; age < resends_.size(); ++age) {
    const Resend& resend = by_age(resends_, newest_resend_, age);
    if (lies_in(psn, resend.first, resend.packets)) return &resend;
  }
  return nullptr;
}

RequestVerdict ResponseLog::judge(const DroppedResponse& dropped, Instant answered_since, Duration quiet,
                                  Instant now) const {
  const Resend* const again = find_resend(dropped.psn);
  if (again != nullptr && again->at >= answered_since) return judge_resent(dropped, again->at, quiet, now);
  if (dropped.transmitted && dropped.first && *dropped.transmitted < answered_since) return RequestVerdict::kOutdated;
  // It may have been resent since, in a forgotten record.
  if (resends_.size() == kResendsKept && dropped.transmitted.value_or(answered_since) <= forgotten_)
    return RequestVerdict::kOutdated;
  return RequestVerdict::kResend;
}

bool ResponseLog::resent_unasked(Psn first, std::uint32_t count, Instant since) const {
  for (std::uint32_t done = 0; done < count;) {
    const Resend* const again = find_resend(first + done);
    if (again == nullptr || again->unasked == 0 || again->at < since) return false;
    done += again->packets - static_cast<std::uint32_t>(distance(first + done, again->first));
  }
  return true;
}

}  // namespace brdma::qp
