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
  // New gaps lie behind all others, but for those that the table had no room for and refill() finds again.
  const bool newest = gaps_.empty() || distance(gap.start, end_of(gaps_.back())) >= 0;
  const std::size_t at = newest ? gaps_.size() : find(gap.start);
  BRDMA_CHECK(at == gaps_.size() || distance(gaps_[at].start, end_of(gap)) >= 0);
  if (gaps_.size() == records_max_) {
    leave_out(newest ? gap.start : gaps_.back().start);
    if (newest) return false;
    gaps_.pop_back();
  }
  gaps_.insert(gaps_.begin() + static_cast<std::ptrdiff_t>(at), gap);
  return true;
}

void GapTable::leave_out(Psn start) {
  if (!incomplete_ || distance(start, unrecorded_) < 0) unrecorded_ = start;
  incomplete_ = true;
}

std::size_t GapTable::find(Psn psn) const {
  const auto ends_after = [](Psn wanted, const GapRecord& gap) { return distance(end_of(gap), wanted) > 0; };
  return static_cast<std::size_t>(std::upper_bound(gaps_.begin(), gaps_.end(), psn, ends_after) - gaps_.begin());
}

GapTable::Filled GapTable::fill(Psn psn) {
  const std::size_t at = find(psn);
  if (at == gaps_.size() || distance(psn, gaps_[at].start) < 0) return {};
  GapRecord& gap = gaps_[at];
  const Filled filled{true, gap.length == 1, gap.state, gap.first_seen};
  if (gap.length == 1) {
    gaps_.erase(gaps_.begin() + static_cast<std::ptrdiff_t>(at));
  } else if (psn == gap.start) {
    ++gap.start;
    --gap.length;
  } else if (psn == end_of(gap) - 1) {
    --gap.length;
  } else {
    cut(at, psn + 1);
    --gaps_[at].length;
  }
  return filled;
}

bool GapTable::reopen(Psn psn, Instant now) {
  if (incomplete_) return false;  // refill() must not find it and an unrecorded neighbour as one
  const std::size_t at = find(psn);
  BRDMA_CHECK(at == gaps_.size() || distance(gaps_[at].start, psn) > 0);
  const bool joins = at > 0 && end_of(gaps_[at - 1]) == psn && gaps_[at - 1].first_seen == now &&
                     gaps_[at - 1].state == GapState::kWaiting;
  if (joins) {
    ++gaps_[at - 1].length;
    return true;
  }
  if (gaps_.size() == records_max_) return false;
  GapRecord gap;
  gap.start = psn;
  gap.length = 1;
  gap.first_seen = gap.base_stuck_since = now;
  gaps_.insert(gaps_.begin() + static_cast<std::ptrdiff_t>(at), gap);
  return true;
}

bool GapTable::attribute(Psn first, std::uint32_t count, std::uint8_t path) {
  bool any = false;
  const Psn end = first + count;
  for (std::size_t i = find(first); i < gaps_.size() && distance(gaps_[i].start, end) < 0; ++i) {
    if (gaps_[i].state != GapState::kWaiting || gaps_[i].path_known) continue;
    if (distance(first, gaps_[i].start) > 0) {
      if (!cut(i, first)) break;
      ++i;
    }
    if (distance(end_of(gaps_[i]), end) > 0) cut(i, end);
    gaps_[i].path = path;
    gaps_[i].path_known = any = true;
  }
  return any;
}

// Record i becomes two, both with its history: the second begins at `at`. False: there was no room for it, and it has
// to be found again.
bool GapTable::cut(std::size_t i, Psn at) {
  GapRecord behind = gaps_[i];
  behind.start = at;
  behind.length = static_cast<std::uint32_t>(distance(end_of(gaps_[i]), at));
  gaps_[i].length -= behind.length;
  insert(behind);
  return i + 1 < gaps_.size();
}

void GapTable::drop_before(Psn base) {
  const std::size_t kept = find(base);
  gaps_.erase(gaps_.begin(), gaps_.begin() + static_cast<std::ptrdiff_t>(kept));
  if (gaps_.empty() || distance(base, gaps_.front().start) <= 0) return;
  gaps_.front().length = static_cast<std::uint32_t>(distance(end_of(gaps_.front()), base));
  gaps_.front().start = base;
}

std::size_t GapTable::refill(const ReceiveWindow& window, Instant now, Instant base_stuck_since) {
  std::size_t found = 0;
  while (incomplete_ && gaps_.size() < records_max_) {
    const auto hole = window.next_hole(unrecorded_);
    if (hole.length == 0) {
      incomplete_ = false;
      break;
    }
    unrecorded_ = hole.start + hole.length;
    const std::size_t at = find(hole.start);
    if (at < gaps_.size() && distance(gaps_[at].start, hole.start) <= 0) continue;  // recorded since
    found += open(hole.start - 1, hole.start + hole.length, 0, now, base_stuck_since) ? 1 : 0;
  }
  return found;
}

void GapTable::clear() {
  gaps_.clear();
  incomplete_ = false;
}

std::uint32_t GapTable::missing() const {
  std::uint32_t packets = 0;
  for (const GapRecord& gap : gaps_) packets += gap.length;
  return packets;
}

}  // namespace brdma::bitmap
