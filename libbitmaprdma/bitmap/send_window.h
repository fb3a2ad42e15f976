// bitmap/send_window.h - the send bitmap (design BR-6): state, time and path of each packet sent and not done. Only the
// legal moves between states happen; an illegal one, or a PSN outside [base, next), is our bug (check): callers ask
// contains() about a PSN that a peer named. Variable length and segmented (window_shape.h): its memory follows the
// packets in flight. The pending entries are also a bitmap (pending_entries.h). So are the entries reported as received
// beyond the base (SACK scoreboard): each acknowledgement repeats them, and a known one costs a bit of a word. Entry
// times are kept in units of 64 ns, wrapping after 274 s: only differences count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/check.h"
#include "base/psn.h"
#include "base/units.h"
#include "bitmap/pending_entries.h"
#include "bitmap/segmented_array.h"
#include "bitmap/segmented_bits.h"

namespace brdma::bitmap {

enum class EntryState : std::uint8_t {
  kSentUnacked,
  kSuspectedLost,
  kRetransmitPending,
  kRetransmittedUnacked,
  kAcked
};

struct SendEntry {
  std::uint32_t sent_at_64ns = 0;  // of the last transmission
  EntryState state = EntryState::kSentUnacked;
  std::uint8_t path = 0;
  std::uint16_t transmissions = 1;  // saturating
};
static_assert(sizeof(SendEntry) == 8);

class SendWindow {
 public:
  // 1 <= shape.window <= kWindowMax. `pool` outlives the window.
  SendWindow(Psn base, const WindowShape& shape, SegmentPool& pool);
  [[nodiscard]] Psn base() const { return base_; }           // oldest not done
  [[nodiscard]] Psn next() const { return base_ + count_; }  // first never sent
  [[nodiscard]] std::uint32_t in_window() const { return count_; }
  [[nodiscard]] std::uint32_t window() const { return shape_.window; }
  [[nodiscard]] std::uint32_t room() const { return shape_.window - lag() - count_; }
  [[nodiscard]] bool contains(Psn psn) const {  // base <= psn < next
    const std::int32_t offset = distance(psn, base_);
    return offset >= 0 && offset < static_cast<std::int32_t>(in_window());
  }
  [[nodiscard]] const SendEntry& entry(Psn psn) const {
    BRDMA_CHECK(contains(psn));
    return entries_[psn.value()];
  }
  // Times are kept in units of 64 ns.
  [[nodiscard]] static Instant rounded(Instant at) { return Instant::from_ns(at.ns() >> 6 << 6); }
  // When it was sent last, rounded. Precondition: less than 274 s ago.
  [[nodiscard]] Instant sent_at(Psn psn, Instant now) const;
  [[nodiscard]] std::uint32_t unacked() const { return unacked_; }          // entries not kAcked
  [[nodiscard]] std::uint32_t pending() const { return pending_.count(); }  // in kRetransmitPending, or to be repeated

  void sent(std::uint8_t path, Instant now);  // next() goes out for the first time
  // The same, where the window is empty.
  void sent_single(std::uint8_t path, Instant now) {
    BRDMA_CHECK(count_ == 0);
    entries_.begin_at(base_.value()) = {to_ticks(now), EntryState::kSentUnacked, path, 1};
    unacked_ = count_ = 1;
  }
  // The next `count` PSNs at once: a READ request occupies those of its responses.
  void sent_run(std::uint32_t count, std::uint8_t path, Instant now);
  // Moves to kRetransmitPending from kSentUnacked, kSuspectedLost or kRetransmittedUnacked; false (nothing done) if it
  // is acked or pending already.
  bool request_retransmission(Psn psn);
  void suspect(Psn psn);                                        // kSentUnacked -> kSuspectedLost
  void retransmitted(Psn psn, std::uint8_t path, Instant now);  // kRetransmitPending -> kRetransmittedUnacked
  // An acked packet is to leave once more, to ask the peer something: it is pending, and remains acked when it leaves
  // (retransmitted()). False (nothing done) if it is pending already.
  bool request_repeat(Psn psn);
  // First pending PSN at or after `from`; next() where none.
  [[nodiscard]] Psn next_pending(Psn from) const { return pending_.next(slid(), from, next()); }
  // True: newly acked. The base moves by advance(), so that the caller can look at the entries first.
  bool acknowledge(Psn psn);
  // `count` PSNs from `first` on; none of them is acked or pending yet.
  void acknowledge_run(Psn first, std::uint32_t count);
  // Drops acked entries from the base on, at most up to `limit` (executed by the peer, not only received); returns how
  // many.
  std::uint32_t advance(Psn limit);
  std::uint32_t advance() { return advance(next()); }
  // Acknowledges and drops the entry at the base, which is unacknowledged and was sent once. As acknowledge() and
  // advance(), where the next entry is not acked.
  void pass_first();
  // Acknowledges and drops all entries, each of which is unacknowledged. As acknowledge_run() and advance(), at once.
  [[gnu::always_inline]] void pass_all() {
    BRDMA_CHECK(unacked_ == count_ && pending_.count() == 0);
    if (reported_held_ > 0) [[unlikely]]
      drop_reported(count_);
    const Psn first = slid();
    const std::uint32_t stretch = count_ + lag();
    base_ = anchor_ = next();
    count_ = unacked_ = 0;
    entries_.release(first.value(), stretch);
    pending_.release(first, stretch);
  }
  // The peer dropped a packet that it had reported as received (no receive was posted): kAcked -> kSuspectedLost.
  void unacknowledge(Psn psn);

  // The peer has reported this packet (acknowledged, or a request that only waits for its responses): until the base
  // has passed it, or forget_reported().
  void note_reported(Psn psn);
  void forget_reported(Psn psn);
  // Of 64 packets from `psn` on, bit 0 being `psn`. Precondition: psn >= base().
  [[nodiscard]] std::uint64_t reported(Psn psn) const;
  // Offset of the first packet in [psn, psn + count) that was not reported; `count` if none. Looks at 64 at a time.
  [[nodiscard]] std::uint32_t find_unreported(Psn psn, std::uint32_t count) const;
  void reset(Psn base);  // forget everything (QP to reset, error)

  [[nodiscard]] LengthChange take_length_change() { return entries_.take_length_change(); }
  [[nodiscard]] WindowUse use() const;  // of the entries; its bytes with those of the bits
  // The same, with memory that is not the pool's.
  [[nodiscard]] std::size_t allocated_bytes() const {
    return use().bytes + (reported_bits_ ? sizeof *reported_bits_ : 0);
  }

 private:
  [[nodiscard]] static std::uint32_t to_ticks(Instant at) { return static_cast<std::uint32_t>(at.ns() >> 6); }
  [[nodiscard]] SendEntry& at(Psn psn);
  void drop_front(std::uint32_t dropped);
  void drop_reported(std::uint32_t dropped);
  // How far the base is ahead of the point the window has slid to (WindowShape::slide_step).
  [[nodiscard]] std::uint32_t lag() const { return (base_.value() - anchor_.value()) & (shape_.slide_step - 1); }
  [[nodiscard]] Psn slid() const { return base_ - lag(); }

  Psn base_;
  std::uint32_t count_ = 0;  // entries: [base_, base_ + count_)
  Psn anchor_;               // slides are multiples of the step from here: the base when the window was empty
  WindowShape shape_;
  std::uint32_t unacked_ = 0;
  std::uint32_t reported_held_ = 0;  // see reported_bits_
  PendingEntries pending_;
  // Of [base_, base_ + reported_held_); nothing is kept beyond. Made when first used.
  std::unique_ptr<SegmentedBits> reported_bits_;
  SegmentedArray<SendEntry, NewElements::kUndefined> entries_;  // by PSN: those that have been sent
};

}  // namespace brdma::bitmap
