// qp/loss/sent_window.h - private: the send window by sequence (message_table.h). It knows which packets have left and
// are not done, in which state each of them is, when it left last, and whether the peer has reported it. It converts
// sequences to PSNs and moves its base. The scoreboard (scoreboard.h) decides when, and counts bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/psn.h"
#include "base/units.h"
#include "bitmap/send_window.h"
#include "qp/queues/message_table.h"

namespace brdma::qp {

class SentWindow {
 public:
  // --- numbers ---
  [[nodiscard]] Sequence base() const { return base_; }                        // oldest entry
  [[nodiscard]] Sequence next() const { return base_ + window_.in_window(); }  // first never sent
  [[nodiscard]] Psn base_psn() const { return window_.base(); }
  [[nodiscard]] Psn next_psn() const { return window_.next(); }
  [[nodiscard]] Psn psn_of(Sequence sequence) const {
    return window_.base() + static_cast<std::uint32_t>((sequence - base_) & Psn::kMask);
  }
  // Of a PSN that a peer named, if it lies in [base, next).
  [[nodiscard]] std::optional<Sequence> sequence_of(Psn psn) const;

  // --- entries ---
  [[nodiscard]] bool empty() const { return window_.in_window() == 0; }
  [[nodiscard]] std::uint32_t entries() const { return window_.in_window(); }
  [[nodiscard]] std::uint32_t entries_max() const { return window_.window(); }
  [[nodiscard]] std::uint32_t room() const { return window_.room(); }
  [[nodiscard]] std::uint32_t unacked() const { return window_.unacked(); }
  [[nodiscard]] std::uint32_t pending() const { return window_.pending(); }  // to be retransmitted, or repeated
  [[nodiscard]] const bitmap::SendEntry& entry(Sequence sequence) const { return window_.entry(psn_of(sequence)); }
  [[nodiscard]] bitmap::EntryState state(Sequence sequence) const { return entry(sequence).state; }
  [[nodiscard]] bool is_acked(Sequence sequence) const { return state(sequence) == bitmap::EntryState::kAcked; }
  // When it was sent last, rounded. Precondition: less than 274 s ago.
  [[nodiscard]] Instant sent_at(Sequence sequence, Instant now) const { return window_.sent_at(psn_of(sequence), now); }
  // The time of a transmission, as sent_at() gives it.
  [[nodiscard]] static Instant rounded(Instant at) { return bitmap::SendWindow::rounded(at); }
  // First pending entry at or after `from`; next() if there is none.
  [[nodiscard]] Sequence next_pending(Sequence from) const;

  // --- reported beyond the base ---
  void note_reported(Sequence sequence) { window_.note_reported(psn_of(sequence)); }
  void forget_reported(Sequence sequence) { window_.forget_reported(psn_of(sequence)); }
  // Of 64 packets from `sequence` on; bit 0 is `sequence`.
  [[nodiscard]] std::uint64_t reported(Sequence sequence) const { return window_.reported(psn_of(sequence)); }
  // First packet in [from, to), the base or later, that the peer has not reported; `to` if there is none.
  [[nodiscard]] Sequence first_unreported(Sequence from, Sequence to) const;

  // --- cost, memory ---
  // Entries and words of 64 bits that acknowledgements have looked at: for tests; wraps.
  [[nodiscard]] std::uint32_t looked_at() const { return looked_at_; }
  void look_at(std::uint32_t count) const { looked_at_ += count; }
  [[nodiscard]] bitmap::LengthChange take_length_change() { return window_.take_length_change(); }
  [[nodiscard]] bitmap::WindowUse use() const { return window_.use(); }
  [[nodiscard]] std::size_t allocated_bytes() const { return window_.allocated_bytes(); }

 protected:
  // `pool` outlives it.
  SentWindow(const bitmap::WindowShape& shape, bitmap::SegmentPool& pool) : window_(Psn{}, shape, pool) {}

  // The entries, by PSN: for changes that leave the base where it is.
  [[nodiscard]] bitmap::SendWindow& window() { return window_; }
  // No entries; the next packet has PSN `first` and sequence 0.
  void restart(Psn first);
  // No entries. The next packet has the same PSN as before, and the base's sequence.
  void forget_entries() { window_.reset(window_.next()); }

  // The base moves: over acknowledged entries before `limit`; over all entries, none of which is acknowledged; over the
  // first, unacknowledged and sent once. The first returns how many.
  std::uint32_t pass_acknowledged(Sequence limit);
  [[gnu::always_inline]] void pass_all_entries() {
    looked_at_ += window_.in_window();
    base_ = next();
    window_.pass_all();
  }
  void pass_first_entry() {
    window_.pass_first();
    looked_at_ += 2;  // acknowledged, and skipped
    ++base_;
  }

 private:
  bitmap::SendWindow window_;
  Sequence base_ = 0;
  mutable std::uint32_t looked_at_ = 0;
};

}  // namespace brdma::qp
