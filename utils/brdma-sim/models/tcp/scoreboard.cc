#include "models/tcp/scoreboard.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::models::tcp {

std::optional<SegmentIndex> Scoreboard::first_lost() const {
  if (lost_ == 0) return std::nullopt;
  lost_from_ = std::max(lost_from_, base_);
  while (!at(lost_from_).lost) ++lost_from_;
  return lost_from_;
}

std::optional<SegmentIndex> Scoreboard::first_doubtful() const {
  if (highest_[0] <= base_) return std::nullopt;
  for (SegmentIndex index = base_; index + 1 < highest_[0]; ++index) {
    const Segment& each = at(index);
    if (!each.sacked && !each.lost && !each.resent_since_mark) return index;
  }
  return std::nullopt;
}

std::optional<SegmentIndex> Scoreboard::last_in_flight() const {
  for (SegmentIndex index = next(); index > base_; --index) {
    if (at(index - 1).copies > 0) return index - 1;
  }
  return std::nullopt;
}

void Scoreboard::append_sent(SegmentIndex index, Instant now) {
  Segment& sent = segment(index);
  sent.sent_at = now;
  sent.earlier = latest_;
  sent.later = kNoSegment;
  (latest_ == kNoSegment ? earliest_ : segment(latest_).later) = index;
  latest_ = index;
}

void Scoreboard::remove_sent(SegmentIndex index) {
  const Segment& gone = segment(index);
  (gone.earlier == kNoSegment ? earliest_ : segment(gone.earlier).later) = gone.later;
  (gone.later == kNoSegment ? latest_ : segment(gone.later).earlier) = gone.earlier;
}

void Scoreboard::send_new(Instant now) {
  BRDMA_CHECK(has_new());
  const SegmentIndex index = next();
  segments_.emplace_back();
  segment(index).copies = 1;
  pipe_ += size_of(index);
  append_sent(index, now);
}

void Scoreboard::send_again(SegmentIndex index, Instant now) {
  Segment& sent = segment(index);
  BRDMA_CHECK(!sent.sacked);
  if (sent.copies > 0) remove_sent(index);
  if (sent.lost) --lost_;
  sent.lost = false;
  sent.resent = true;
  sent.resent_since_mark = true;
  ++sent.copies;
  pipe_ += size_of(index);
  append_sent(index, now);
}

// Out of pipe and of the order of transmission; the caller removes it or marks it SACKed.
void Scoreboard::deliver(SegmentIndex index) {
  Segment& arrived = segment(index);
  if (arrived.copies > 0) remove_sent(index);
  pipe_ -= std::uint64_t{arrived.copies} * size_of(index);
  arrived.copies = 0;
  if (arrived.lost) --lost_;
  arrived.lost = false;
  delivered_.push_back({index, arrived.sent_at, arrived.resent});
}

void Scoreboard::note_sacked(SegmentIndex index) {
  SegmentIndex value = index + 1;
  for (SegmentIndex& each : highest_) {
    if (value > each) std::swap(value, each);
  }
}

const std::vector<Delivered>& Scoreboard::acknowledge(const Frame& frame) {
  delivered_.clear();
  while (!segments_.empty() && begin_of(base_ + 1) <= frame.ack) {
    if (segments_.front().sacked) {
      --sacked_;
    } else {
      deliver(base_);
    }
    segments_.pop_front();
    ++base_;
  }
  for (const ByteRange& range : frame.sacked()) {
    const SegmentIndex first = std::max((range.first + segment_bytes_ - 1) / segment_bytes_, base_);
    for (SegmentIndex index = first; index < next() && begin_of(index + 1) <= range.end; ++index) {
      if (segment(index).sacked) continue;
      deliver(index);
      segment(index).sacked = true;
      ++sacked_;
      note_sacked(index);
    }
  }
  // SACK blocks stand in the order of arrival. RACK wants that of the sequence: one ACK is no reordering.
  std::sort(delivered_.begin(), delivered_.end(),
            [](const Delivered& a, const Delivered& b) { return a.index < b.index; });
  return delivered_;
}

bool Scoreboard::mark_lost(SegmentIndex index, Cause cause) {
  if (index < base_ || index >= next()) return false;
  Segment& gone = segment(index);
  if (gone.sacked || gone.lost) return false;
  remove_sent(index);
  pipe_ -= std::uint64_t{gone.copies} * size_of(index);
  gone.copies = 0;
  gone.lost = true;
  gone.cause = cause;
  ++lost_;
  lost_from_ = std::min(lost_from_, index);
  return true;
}

bool Scoreboard::mark_lost_by_sack() {
  const SegmentIndex third = highest_[kDupThresh - 1];  // index + 1: all below the third highest are lost
  bool any = false;
  marked_below_ = std::max(marked_below_, base_);
  for (; marked_below_ + 1 < third; ++marked_below_) {
    if (!at(marked_below_).resent_since_mark) any |= mark_lost(marked_below_, Cause::kFeedback);
  }
  return any;
}

void Scoreboard::mark_all_lost(Cause cause) {
  for (SegmentIndex index = base_; index < next(); ++index) mark_lost(index, cause);
}

void Scoreboard::begin_recovery() {
  for (Segment& each : segments_) each.resent_since_mark = false;
}

}  // namespace brdma::models::tcp
