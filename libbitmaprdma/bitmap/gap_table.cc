#include "bitmap/gap_table.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::bitmap {
namespace {

Psn end_of(const GapRecord& gap) { return gap.start + gap.length; }

}  // namespace

bool GapTable::open(Psn previous_highest, Psn psn, std::uint8_t path, Instant now, Instant base_stuck_since) {
  const std::int32_t length = distance(psn, previous_highest) - 1;
  if (length <= 0) return true;
  GapRecord gap;
  gap.start = previous_highest + 1;
  gap.length = static_cast<std::uint32_t>(length);
  gap.first_seen = now;
  gap.base_stuck_since = base_stuck_since;
  gap.path = path;
  return insert(gap);
}

bool GapTable::insert(const GapRecord& gap) {
  // New gaps lie behind all others, except those that had no room in the table and that refill() finds again.
  const bool newest = empty() || distance(gap.start, end_of(gaps_.back())) >= 0;
  const std::size_t at = newest ? size() : find(gap.start);
  BRDMA_CHECK(at == size() || distance((*this)[at].start, end_of(gap)) >= 0);
  if (size() == records_max_) {
    leave_out(newest ? gap.start : gaps_.back().start);
    if (newest) return false;
    gaps_.pop_back();
  }
  insert_at(at, gap);
  return true;
}

// Moves the records on the side nearer to its end.
void GapTable::insert_at(std::size_t at, const GapRecord& gap) {
  if (empty() || distance(gap.start, waiting_low_) < 0) waiting_low_ = gap.start;
  if (head_ > 0 && at < size() / 2) {
    const auto front = gaps_.begin() + static_cast<std::ptrdiff_t>(head_);
    std::move(front, front + static_cast<std::ptrdiff_t>(at), front - 1);
    --head_;
    (*this)[at] = gap;
    return;
  }
  if (gaps_.size() == gaps_.capacity() && head_ * 2 >= gaps_.size()) forget_front();
  gaps_.insert(gaps_.begin() + static_cast<std::ptrdiff_t>(head_ + at), gap);
}

void GapTable::erase_at(std::size_t at) {
  const auto front = gaps_.begin() + static_cast<std::ptrdiff_t>(head_);
  const auto gone = front + static_cast<std::ptrdiff_t>(at);
  if (at >= size() / 2 && at > 0) {
    gaps_.erase(gone);
    return;
  }
  std::move_backward(front, gone, gone + 1);
  ++head_;
  if (empty()) clear_records();
}

// The free room in front becomes room behind.
void GapTable::forget_front() {
  gaps_.erase(gaps_.begin(), gaps_.begin() + static_cast<std::ptrdiff_t>(head_));
  head_ = 0;
}

void GapTable::leave_out(Psn start) {
  if (!incomplete_ || distance(start, unrecorded_) < 0) unrecorded_ = start;
  incomplete_ = true;
}

std::size_t GapTable::find(Psn psn) const {
  const auto ends_after = [](Psn wanted, const GapRecord& gap) { return distance(end_of(gap), wanted) > 0; };
  const auto front = gaps_.begin() + static_cast<std::ptrdiff_t>(head_);
  return static_cast<std::size_t>(std::upper_bound(front, gaps_.end(), psn, ends_after) - front);
}

const GapRecord* GapTable::covering(Psn psn) const {
  const std::size_t at = find(psn);
  return at == size() || distance(psn, (*this)[at].start) < 0 ? nullptr : &(*this)[at];
}

std::size_t GapTable::first_waiting() const {
  if (empty()) return 0;
  std::size_t at = find(waiting_low_);
  for (; at < size() && (*this)[at].state != GapState::kWaiting; ++at) ++visited_;
  waiting_low_ = at < size() ? (*this)[at].start : end_of(gaps_.back());
  return at;
}

GapTable::Filled GapTable::fill(Psn psn) {
  const std::size_t at = find(psn);
  if (at == size() || distance(psn, (*this)[at].start) < 0) return {};
  GapRecord& gap = (*this)[at];
  const Filled filled{.found = true,
                      .closed = gap.length == 1,
                      .state = gap.state,
                      .first_seen = gap.first_seen,
                      .last_feedback = gap.last_feedback,
                      .feedbacks = gap.feedbacks,
                      .start = gap.start,
                      .base_stuck_since = gap.base_stuck_since};
  if (gap.length == 1) {
    erase_at(at);
  } else if (psn == gap.start) {
    ++gap.start;
    --gap.length;
  } else if (psn == end_of(gap) - 1) {
    --gap.length;
  } else {
    cut(at, psn + 1);
    --(*this)[at].length;
  }
  return filled;
}

bool GapTable::reopen(Psn psn, Instant now) {
  if (incomplete_) return false;  // refill() must not find it and an unrecorded neighbour as one
  const std::size_t at = find(psn);
  BRDMA_CHECK(at == size() || distance((*this)[at].start, psn) > 0);
  const bool joins = at > 0 && end_of((*this)[at - 1]) == psn && (*this)[at - 1].first_seen == now &&
                     (*this)[at - 1].state == GapState::kWaiting;
  if (joins) {
    ++(*this)[at - 1].length;
    return true;
  }
  if (size() == records_max_) return false;
  GapRecord gap;
  gap.start = psn;
  gap.length = 1;
  gap.first_seen = gap.base_stuck_since = now;
  insert_at(at, gap);
  return true;
}

bool GapTable::attribute(Psn first, std::uint32_t count, std::uint8_t path) {
  bool any = false;
  const Psn end = first + count;
  for (std::size_t i = find(first); i < size() && distance((*this)[i].start, end) < 0; ++i) {
    if ((*this)[i].state != GapState::kWaiting || (*this)[i].path_known) continue;
    if (distance(first, (*this)[i].start) > 0) {
      if (!cut(i, first)) break;
      ++i;
    }
    if (distance(end_of((*this)[i]), end) > 0) cut(i, end);
    (*this)[i].path = path;
    (*this)[i].path_known = any = true;
  }
  return any;
}

// Splits record i at `at`; both keep its history. False: no room for the second; it has to be found again.
bool GapTable::cut(std::size_t i, Psn at) {
  GapRecord behind = (*this)[i];
  behind.start = at;
  behind.length = static_cast<std::uint32_t>(distance(end_of((*this)[i]), at));
  (*this)[i].length -= behind.length;
  insert(behind);
  return i + 1 < size();
}

void GapTable::drop_before(Psn base) {
  head_ += find(base);
  if (empty()) return clear_records();
  if (distance(base, waiting_low_) > 0) waiting_low_ = base;
  GapRecord& oldest = (*this)[0];
  if (distance(base, oldest.start) <= 0) return;
  oldest.length = static_cast<std::uint32_t>(distance(end_of(oldest), base));
  oldest.start = base;
}

std::size_t GapTable::refill(const ReceiveWindow& window, Instant now, Instant base_stuck_since) {
  std::size_t found = 0;
  while (incomplete_ && size() < records_max_) {
    const auto hole = window.next_hole(unrecorded_);
    if (hole.length == 0) {
      incomplete_ = false;
      break;
    }
    unrecorded_ = hole.start + hole.length;
    const std::size_t at = find(hole.start);
    if (at < size() && distance((*this)[at].start, hole.start) <= 0) continue;  // recorded since
    found += open(hole.start - 1, hole.start + hole.length, 0, now, base_stuck_since) ? 1 : 0;
  }
  return found;
}

void GapTable::clear() {
  clear_records();
  incomplete_ = false;
  visited_ = 0;
}

void GapTable::clear_records() {
  gaps_.clear();
  head_ = 0;
}

std::uint32_t GapTable::missing() const {
  std::uint32_t packets = 0;
  for (std::size_t i = 0; i < size(); ++i) packets += (*this)[i].length;
  return packets;
}

}  // namespace brdma::bitmap
