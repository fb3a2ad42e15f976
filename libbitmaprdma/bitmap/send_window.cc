#include "bitmap/send_window.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "bitmap/receive_window.h"

namespace brdma::bitmap {
namespace {

std::uint32_t to_ticks(Instant at) { return static_cast<std::uint32_t>(at.ns() >> 6); }

}  // namespace

SendWindow::SendWindow(Psn base, std::uint32_t window_packets) : base_(base), window_(window_packets) {
  BRDMA_CHECK(window_packets >= 1 && window_packets <= kWindowMax);
}

Instant SendWindow::sent_at(Psn psn, Instant now) const {
  const std::uint32_t ago = to_ticks(now) - entry(psn).sent_at_64ns;  // wraps with the clock's low bits
  return Instant::from_ns(((now.ns() >> 6) - std::int64_t{ago}) * 64);
}

void SendWindow::sent(std::uint8_t path, Instant now) { sent_run(1, path, now); }

void SendWindow::sent_run(std::uint32_t count, std::uint8_t path, Instant now) {
  BRDMA_CHECK(count <= room());
  for (std::uint32_t i = 0; i < count; ++i) {
    entries_.push_back(SendEntry{to_ticks(now), EntryState::kSentUnacked, path, 1});
  }
  unacked_ += count;
}

bool SendWindow::request_retransmission(Psn psn) {
  SendEntry& entry = at(psn);
  if (entry.state == EntryState::kAcked || entry.state == EntryState::kRetransmitPending) return false;
  entry.state = EntryState::kRetransmitPending;
  pending_bits_.grow(in_window(), base_);
  pending_bits_.set(psn);
  if (pending_++ == 0 || distance(psn, pending_low_) < 0) pending_low_ = psn;
  return true;
}

void SendWindow::suspect(Psn psn) {
  SendEntry& entry = at(psn);
  BRDMA_CHECK(entry.state == EntryState::kSentUnacked);
  entry.state = EntryState::kSuspectedLost;
}

void SendWindow::retransmitted(Psn psn, std::uint8_t path, Instant now) {
  SendEntry& entry = at(psn);
  BRDMA_CHECK(entry.state == EntryState::kRetransmitPending);
  entry.state = EntryState::kRetransmittedUnacked;
  entry.sent_at_64ns = to_ticks(now);
  entry.path = path;
  if (entry.transmissions != std::numeric_limits<std::uint16_t>::max()) ++entry.transmissions;
  unset_pending(psn);
}

Psn SendWindow::next_pending(Psn from) const {
  if (pending_ == 0) return next();
  if (distance(from, pending_low_) < 0) from = pending_low_;
  // Entries sent since the last request may lie beyond what the ring holds: none of them is pending.
  const std::uint32_t held = std::min(in_window(), pending_bits_.capacity());
  const std::int32_t left = distance(base_ + held, from);
  if (left <= 0) return next();
  const std::uint32_t offset = pending_bits_.find_set(from, static_cast<std::uint32_t>(left));
  if (offset == static_cast<std::uint32_t>(left)) return next();
  const Psn found = from + offset;
  if (from == pending_low_) pending_low_ = found;  // nothing is pending before it: never looked at again
  return found;
}

bool SendWindow::acknowledge(Psn psn) {
  SendEntry& entry = at(psn);
  if (entry.state == EntryState::kAcked) return false;
  if (entry.state == EntryState::kRetransmitPending) unset_pending(psn);
  entry.state = EntryState::kAcked;
  --unacked_;
  return true;
}

std::uint32_t SendWindow::acknowledge_before(Psn boundary) {
  const std::int32_t offset = distance(boundary, base_);
  BRDMA_CHECK(offset <= static_cast<std::int32_t>(in_window()));
  std::uint32_t fresh = 0;
  while (acked_prefix_ < offset) fresh += acknowledge(base_ + static_cast<std::uint32_t>(acked_prefix_++)) ? 1 : 0;
  return fresh;
}

std::uint32_t SendWindow::advance(Psn limit) {
  const std::int32_t most = distance(limit, base_);
  std::int32_t dropped = 0;
  while (dropped < most && !entries_.empty() && entries_.front().state == EntryState::kAcked) {
    entries_.pop_front();
    ++dropped;
  }
  base_ = base_ + static_cast<std::uint32_t>(dropped);
  acked_prefix_ = std::max(0, acked_prefix_ - dropped);
  return static_cast<std::uint32_t>(dropped);
}

void SendWindow::unacknowledge(Psn psn) {
  SendEntry& entry = at(psn);
  BRDMA_CHECK(entry.state == EntryState::kAcked);
  entry.state = EntryState::kSuspectedLost;
  ++unacked_;
  acked_prefix_ = std::min(acked_prefix_, distance(psn, base_));
}

void SendWindow::reset(Psn base) {
  entries_.clear();
  pending_bits_.clear_all();
  base_ = base;
  unacked_ = 0;
  pending_ = 0;
  acked_prefix_ = 0;
}

SendEntry& SendWindow::at(Psn psn) {
  BRDMA_CHECK(contains(psn));
  return entries_[static_cast<std::uint32_t>(distance(psn, base_))];
}

void SendWindow::unset_pending(Psn psn) {
  pending_bits_.clear(psn);
  --pending_;
}

}  // namespace brdma::bitmap
