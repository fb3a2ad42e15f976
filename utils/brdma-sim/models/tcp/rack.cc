#include "models/tcp/rack.h"

#include <algorithm>

namespace brdma::models::tcp {

void Rack::on_delivered(const Delivered& segment, const Frame& frame, Instant now) {
  if (segment.index + 1 > highest_delivered_) {
    highest_delivered_ = segment.index + 1;
  } else if (!segment.resent) {
    reordering_seen_ = true;
  }
  const Duration rtt = now - segment.sent_at;
  if (segment.resent && (frame.echo < segment.sent_at || (min_rtt_ && rtt < *min_rtt_))) return;
  const bool newer = !newest_sent_at_ || segment.sent_at > *newest_sent_at_ ||
                     (segment.sent_at == *newest_sent_at_ && segment.index > newest_);
  if (!newer) return;
  newest_sent_at_ = segment.sent_at;
  newest_ = segment.index;
  rtt_ = rtt;
}

void Rack::on_duplicate(std::uint64_t una_bytes, std::uint64_t next_bytes) {
  if (round_end_ && una_bytes < *round_end_) return;
  round_end_ = next_bytes;
  ++multiplier_;
  persist_ = kPersistMax;
}

void Rack::on_recovery_end() {
  if (persist_ > 0 && --persist_ == 0) multiplier_ = 1;
}

Duration Rack::window(bool in_recovery, std::size_t sacked, std::optional<Duration> srtt) const {
  if (!reordering_seen_ && (in_recovery || sacked >= Scoreboard::kDupThresh)) return Duration{};
  if (!min_rtt_) return Duration{};
  const Duration wide = *min_rtt_ * multiplier_ / 4;
  return srtt ? std::min(wide, *srtt) : wide;
}

bool Rack::is_before_newest(const Segment& segment, SegmentIndex index) const {
  if (!newest_sent_at_) return false;
  return segment.sent_at < *newest_sent_at_ || (segment.sent_at == *newest_sent_at_ && index <= newest_);
}

bool Rack::detect(Scoreboard& board, Duration window, Instant now) {
  deadline_.reset();
  bool any = false;
  for (SegmentIndex index = board.earliest_sent(); index != kNoSegment;) {
    const Segment& segment = board.at(index);
    if (!is_before_newest(segment, index)) break;
    const SegmentIndex later = segment.later;
    const Instant late_at = segment.sent_at + rtt_ + window;
    if (late_at <= now) {
      any |= board.mark_lost(index, Cause::kFeedback);
    } else {
      deadline_ = late_at;
    }
    index = later;
  }
  return any;
}

void Rack::mark_on_timeout(Scoreboard& board, Duration window, Instant now) const {
  board.mark_lost(board.una(), Cause::kTimeout);
  while (board.earliest_sent() != kNoSegment) {
    const SegmentIndex index = board.earliest_sent();
    if (board.at(index).sent_at + rtt_ + window > now) break;
    board.mark_lost(index, Cause::kTimeout);
  }
}

}  // namespace brdma::models::tcp
