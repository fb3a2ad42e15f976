#include "bitmap/send_window.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace brdma::bitmap {
namespace {

// Each packet may have to be retransmitted alone: an entry and a bit are of one PSN at any granularity.
WindowShape without_runs(WindowShape shape) {
  shape.granularity = 1;
  return shape;
}

}  // namespace

SendWindow::SendWindow(Psn base, const WindowShape& shape, SegmentPool& pool)
    : base_(base),
      anchor_(base),
      shape_(shape),
      pending_(without_runs(shape), pool),
      entries_({.base = shape.base, .extension = shape.extension, .segment = shape.segment, .index_bits = 24}, pool) {
  BRDMA_CHECK(shape.window >= 1 && shape.window <= kWindowMax);
}

Instant SendWindow::sent_at(Psn psn, Instant now) const {
  const std::uint32_t ago = to_ticks(now) - entry(psn).sent_at_64ns;  // wraps with the clock's low bits
  return Instant::from_ns(((now.ns() >> 6) - std::int64_t{ago}) * 64);
}

void SendWindow::sent(std::uint8_t path, Instant now) {
  BRDMA_CHECK(room() > 0);
  entries_.reach(slid().value(), next().value()) = {to_ticks(now), EntryState::kSentUnacked, path, 1};
  ++unacked_;
  ++count_;
}

void SendWindow::sent_run(std::uint32_t count, std::uint8_t path, Instant now) {
  BRDMA_CHECK(count <= room());
  const SendEntry entry{to_ticks(now), EntryState::kSentUnacked, path, 1};
  const std::uint32_t first = slid().value();
  unacked_ += count;
  if (count == 1) {
    entries_.reach(first, next().value()) = entry;
    ++count_;
    return;
  }
  if (count > 1) entries_.reach(first, (next() + (count - 1)).value());  // as long as all of them need
  while (count > 0) {
    SendEntry* const place = &entries_.reach(first, next().value());
    const std::uint32_t here = entries_.in_block(next().value(), count);
    std::fill_n(place, here, entry);
    count_ += here;
    count -= here;
  }
}

bool SendWindow::request_retransmission(Psn psn) {
  SendEntry& entry = at(psn);
  if (entry.state == EntryState::kAcked || entry.state == EntryState::kRetransmitPending) return false;
  entry.state = EntryState::kRetransmitPending;
  pending_.add(slid(), psn);
  return true;
}

bool SendWindow::request_repeat(Psn psn) {
  BRDMA_CHECK(at(psn).state == EntryState::kAcked);
  if (pending_.contains(slid(), psn)) return false;
  pending_.add(slid(), psn);
  return true;
}

void SendWindow::suspect(Psn psn) {
  SendEntry& entry = at(psn);
  BRDMA_CHECK(entry.state == EntryState::kSentUnacked);
  entry.state = EntryState::kSuspectedLost;
}

void SendWindow::retransmitted(Psn psn, std::uint8_t path, Instant now) {
  SendEntry& entry = at(psn);
  if (entry.state == EntryState::kAcked) {
    BRDMA_CHECK(pending_.contains(slid(), psn));
  } else {
    BRDMA_CHECK(entry.state == EntryState::kRetransmitPending);
    entry.state = EntryState::kRetransmittedUnacked;
  }
  entry.sent_at_64ns = to_ticks(now);
  entry.path = path;
  if (entry.transmissions != std::numeric_limits<std::uint16_t>::max()) ++entry.transmissions;
  pending_.remove(psn);
}

bool SendWindow::acknowledge(Psn psn) {
  SendEntry& entry = at(psn);
  if (entry.state == EntryState::kAcked) return false;
  if (entry.state == EntryState::kRetransmitPending) pending_.remove(psn);
  entry.state = EntryState::kAcked;
  --unacked_;
  return true;
}

void SendWindow::acknowledge_run(Psn first, std::uint32_t count) {
  if (count == 0) return;
  BRDMA_CHECK(contains(first) && contains(first + (count - 1)) && pending_.count() == 0);
  unacked_ -= count;
  while (count > 0) {
    SendEntry* const entries = &entries_[first.value()];
    const std::uint32_t here = entries_.in_block(first.value(), count);
    for (std::uint32_t i = 0; i < here; ++i) {
      BRDMA_CHECK(entries[i].state != EntryState::kAcked);
      entries[i].state = EntryState::kAcked;
    }
    first = first + here;
    count -= here;
  }
}

std::uint32_t SendWindow::advance(Psn limit) {
  const auto most =
      static_cast<std::uint32_t>(std::clamp(distance(limit, base_), 0, static_cast<std::int32_t>(count_)));
  std::uint32_t dropped = 0;
  while (dropped < most && entries_[(base_ + dropped).value()].state == EntryState::kAcked) ++dropped;
  if (dropped == 0) return 0;
  // Those that were to be repeated.
  const Psn end = base_ + dropped;
  for (Psn at = next_pending(base_); distance(at, end) < 0; at = next_pending(at)) pending_.remove(at);
  drop_front(dropped);
  return dropped;
}

void SendWindow::pass_first() {
  BRDMA_CHECK(at(base_).state == EntryState::kSentUnacked);
  --unacked_;
  drop_front(1);
}

void SendWindow::drop_front(std::uint32_t dropped) {
  const Psn before = slid();
  const std::uint32_t stretch = count_ + lag();
  if (reported_held_ > 0) [[unlikely]]
    drop_reported(dropped);
  base_ = base_ + dropped;
  count_ -= dropped;
  if (count_ == 0) {
    entries_.release(before.value(), stretch);
    pending_.release(before, stretch);
    anchor_ = base_;
    return;
  }
  entries_.leave(before.value(), slid().value(), count_);
  pending_.leave(before, slid(), count_);
}

void SendWindow::drop_reported(std::uint32_t dropped) {
  const std::uint32_t passed = std::min(dropped, reported_held_);
  reported_bits_->clear_range(base_, passed);
  if (passed == reported_held_) {
    reported_bits_->release(base_, reported_held_);
  } else {
    reported_bits_->leave(base_, base_ + passed, reported_held_ - passed);
  }
  reported_held_ -= passed;
}

void SendWindow::note_reported(Psn psn) {
  BRDMA_CHECK(contains(psn));
  if (!reported_bits_) reported_bits_ = std::make_unique<SegmentedBits>(without_runs(shape_), entries_.pool());
  reported_bits_->set(base_, psn);
  reported_held_ = std::max(reported_held_, static_cast<std::uint32_t>(distance(psn, base_)) + 1);
}

void SendWindow::forget_reported(Psn psn) {
  const std::int32_t offset = distance(psn, base_);
  if (offset >= 0 && static_cast<std::uint32_t>(offset) < reported_held_) reported_bits_->clear(psn);
}

std::uint64_t SendWindow::reported(Psn psn) const {
  const auto offset = static_cast<std::uint32_t>(distance(psn, base_));
  if (offset >= reported_held_) return 0;
  const std::uint64_t bits = reported_bits_->load(psn);
  const std::uint32_t held = reported_held_ - offset;
  return held >= 64 ? bits : bits & ((std::uint64_t{1} << held) - 1);
}

std::uint32_t SendWindow::find_unreported(Psn psn, std::uint32_t count) const {
  const auto offset = static_cast<std::uint32_t>(distance(psn, base_));
  if (offset >= reported_held_) return 0;
  return reported_bits_->find_unset(psn, std::min(count, reported_held_ - offset));
}

void SendWindow::unacknowledge(Psn psn) {
  SendEntry& entry = at(psn);
  BRDMA_CHECK(entry.state == EntryState::kAcked);
  if (pending_.contains(slid(), psn)) pending_.remove(psn);
  entry.state = EntryState::kSuspectedLost;
  forget_reported(psn);
  ++unacked_;
}

void SendWindow::reset(Psn base) {
  entries_.clear();
  pending_.remove_all();
  if (reported_bits_) reported_bits_->clear_all();
  reported_held_ = 0;
  base_ = anchor_ = base;
  count_ = 0;
  unacked_ = 0;
}

SendEntry& SendWindow::at(Psn psn) {
  BRDMA_CHECK(contains(psn));
  return entries_[psn.value()];
}

WindowUse SendWindow::use() const {
  return {entries_.segmented(), shape_.base + entries_.extensions() * shape_.extension, entries_.segments(),
          entries_.bytes() + pending_.allocated_bytes() + (reported_bits_ ? reported_bits_->allocated_bytes() : 0)};
}

}  // namespace brdma::bitmap
