// qp/loss/scoreboard.h - private: what the requester has sent, and what became of it. The scoreboard knows which
// packets are in flight, arrived, executed or to be retransmitted, and how many bytes that is; it decides nothing.
//
// Sequences (message_table.h) order everything here:
//   base() <= cumulative() <= next()
// All requests before cumulative() were executed by the peer; between base() and cumulative() only responses to READs
// and atomics are missing. A work request is complete when the base has passed its last packet, and never earlier: bits
// of a BitmapAck beyond cumulative() mean "arrived", not "executed", and may be taken back.
//
// Data packets have one entry each, and count in flight one by one. A READ request has an entry for each of its
// responses, and counts in flight as one packet without bytes until its request is known to have arrived.
#pragma once

#include <cstdint>
#include <optional>

#include "base/psn.h"
#include "base/units.h"
#include "bitmap/send_window.h"
#include "qp/queues/message_table.h"

namespace brdma::qp {

// Data in flight to the peer.
struct Flight {
  std::uint32_t packets = 0;  // sent, not acknowledged: under the peer's credit
  std::uint64_t bytes = 0;    // their payload
  std::uint64_t pipe = 0;     // of those bytes, not judged lost: under the congestion window
  bool operator==(const Flight&) const = default;
};

class Scoreboard {
 public:
  // `pool` outlives it.
  Scoreboard(const bitmap::WindowShape& shape, bitmap::SegmentPool& pool) : window_(Psn{}, shape, pool) {}

  // Nothing is in flight, and the next packet has PSN `first` and sequence 0.
  void begin_from(Psn first);
  // Nothing is in flight any more. The next packet has the same PSN as before, and the base's sequence.
  void forget_flight();

  // --- numbers ---
  [[nodiscard]] Sequence base() const { return base_; }  // oldest entry
  [[nodiscard]] Sequence cumulative() const { return cumulative_; }
  [[nodiscard]] Sequence next() const { return base_ + window_.in_window(); }  // first never sent
  [[nodiscard]] Sequence arrived_end() const { return arrived_end_; }  // one past the newest known to have arrived
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
  [[nodiscard]] std::uint32_t pending() const { return window_.pending(); }     // to be retransmitted
  [[nodiscard]] std::uint32_t retransmitted() const { return retransmitted_; }  // and not acknowledged yet
  [[nodiscard]] const bitmap::SendEntry& entry(Sequence sequence) const { return window_.entry(psn_of(sequence)); }
  [[nodiscard]] bitmap::EntryState state(Sequence sequence) const { return entry(sequence).state; }
  [[nodiscard]] bool is_acked(Sequence sequence) const { return state(sequence) == bitmap::EntryState::kAcked; }
  // When it was sent last, rounded. Precondition: less than 274 s ago.
  [[nodiscard]] Instant sent_at(Sequence sequence, Instant now) const { return window_.sent_at(psn_of(sequence), now); }
  // The time of a transmission, as sent_at() gives it.
  [[nodiscard]] static Instant rounded(Instant at) { return bitmap::SendWindow::rounded(at); }
  // First pending entry at or after `from`; next() if there is none.
  [[nodiscard]] Sequence next_pending(Sequence from) const;
  // Is a packet missing before one that has arrived?
  [[nodiscard]] bool has_holes() const { return arrived_end_ > cumulative_; }
  // All entries are in flight for the first time, and no later one is known to have arrived.
  [[nodiscard]] bool is_in_order() const {
    return base_ == cumulative_ && !has_holes() && window_.unacked() == window_.in_window() && retransmitted_ == 0 &&
           window_.pending() == 0;
  }

  // --- in flight ---
  [[nodiscard]] const Flight& flight() const { return flight_; }
  // Packets in the network as FACK counts them: those missing before one that has arrived are mostly no longer there.
  [[nodiscard]] std::uint64_t packets_behind_arrived() const { return next() - arrived_end_ + retransmitted_; }

  // --- sent ---
  // The next packet, of a message whose packets carry data. `payload` in bytes.
  void sent(std::uint32_t payload, std::uint8_t path, Instant now) {
    note_begun(now);
    window_.sent(path, now);
    count_sent(1, payload);
  }
  // The next `packets` packets with `payload` bytes together.
  void sent_run(std::uint32_t packets, std::uint64_t payload, std::uint8_t path, Instant now) {
    note_begun(now);
    window_.sent_run(packets, path, now);
    count_sent(packets, payload);
  }
  // As sent(), where the scoreboard is empty.
  void sent_single(std::uint32_t payload, std::uint8_t path, Instant now) {
    cumulative_moved_ = now;
    window_.sent_single(path, now);
    flight_ = {.packets = 1, .bytes = payload, .pipe = payload};
  }
  // A request with `responses` responses.
  void sent_request(std::uint32_t responses, std::uint8_t path, Instant now) {
    note_begun(now);
    window_.sent_run(responses, path, now);
    ++flight_.packets;
  }

  // --- lost, retransmitted. `payload`: bytes of the data packet, 0 of a response ---
  void suspect(Sequence sequence) { window_.suspect(psn_of(sequence)); }  // kSentUnacked -> kSuspectedLost
  // To be retransmitted; false (nothing done) if it is acknowledged or pending already.
  bool request_retransmission(Sequence sequence, std::uint32_t payload);
  void left_again(Sequence sequence, std::uint32_t payload, std::uint8_t path, Instant now);

  // --- acknowledged ---
  // A data packet with `payload` bytes, or a response has arrived. False (nothing done): it was acknowledged before.
  bool acknowledge(Sequence sequence, std::uint32_t payload);
  bool acknowledge_response(Sequence sequence);
  void request_arrived() { --flight_.packets; }  // of a message with responses
  // Data packets in [from, to) with `payload` bytes together. Precondition: is_in_order().
  void acknowledge_run(Sequence from, Sequence to, std::uint64_t payload);
  // Everything in flight has been executed and leaves. Precondition: is_in_order(), only data is in flight.
  void pass_all(Instant now);
  // The response at the base, sent once, has arrived and leaves.
  void pass_response(Instant now);
  // The peer has executed all requests before `boundary`; their entries are acknowledged.
  void set_cumulative(Sequence boundary, Instant now) {
    cumulative_ = boundary;
    cumulative_moved_ = now;
  }
  // Moves the base over acknowledged entries before cumulative(); returns how many.
  std::uint32_t advance(Instant now);
  // The peer did not keep a packet after all: an acknowledged entry counts as in flight again.
  void reopen(Sequence sequence, std::uint32_t payload);
  void reopen_response(Sequence sequence) { window_.unacknowledge(psn_of(sequence)); }

  // --- reported beyond the base ---
  void note_arrived(Sequence end) { arrived_end_ = end > arrived_end_ ? end : arrived_end_; }
  void note_reported(Sequence sequence) { window_.note_reported(psn_of(sequence)); }
  void forget_reported(Sequence sequence) { window_.forget_reported(psn_of(sequence)); }
  // Of 64 packets from `sequence` on; bit 0 is `sequence`.
  [[nodiscard]] std::uint64_t reported(Sequence sequence) const { return window_.reported(psn_of(sequence)); }
  // First packet in [from, to), the base or later, that the peer has not reported; `to` if there is none.
  [[nodiscard]] Sequence first_unreported(Sequence from, Sequence to) const;

  // --- stalls ---
  [[nodiscard]] Instant base_moved() const { return base_moved_; }
  [[nodiscard]] Instant cumulative_moved() const { return cumulative_moved_; }  // or first awaited
  void restart_stall(Instant now) { cumulative_moved_ = now; }

  // --- cost, memory ---
  // Entries and words of 64 bits that acknowledgements have looked at: for tests; wraps.
  [[nodiscard]] std::uint32_t looked_at() const { return looked_at_; }
  void look_at(std::uint32_t count) const { looked_at_ += count; }
  [[nodiscard]] bitmap::LengthChange take_length_change() { return window_.take_length_change(); }
  [[nodiscard]] bitmap::WindowUse use() const { return window_.use(); }
  [[nodiscard]] std::size_t allocated_bytes() const { return window_.allocated_bytes(); }

 private:
  void note_begun(Instant now) {
    if (window_.in_window() == 0) cumulative_moved_ = now;
  }
  void count_sent(std::uint32_t packets, std::uint64_t payload) {
    flight_.packets += packets;
    flight_.bytes += payload;
    flight_.pipe += payload;
  }

  bitmap::SendWindow window_;
  Sequence base_ = 0, cumulative_ = 0, arrived_end_ = 0;
  Flight flight_;
  std::uint32_t retransmitted_ = 0;  // entries in kRetransmittedUnacked
  mutable std::uint32_t looked_at_ = 0;
  Instant base_moved_, cumulative_moved_;
};

inline bool Scoreboard::acknowledge_response(Sequence sequence) {
  const Psn psn = psn_of(sequence);
  const bitmap::EntryState before = window_.entry(psn).state;
  ++looked_at_;
  if (!window_.acknowledge(psn)) return false;
  if (before == bitmap::EntryState::kRetransmittedUnacked) --retransmitted_;
  return true;
}

inline bool Scoreboard::acknowledge(Sequence sequence, std::uint32_t payload) {
  const bool counted_lost = state(sequence) == bitmap::EntryState::kRetransmitPending;
  if (!acknowledge_response(sequence)) return false;
  --flight_.packets;
  flight_.bytes -= payload;
  if (!counted_lost) flight_.pipe -= payload;
  return true;
}

inline void Scoreboard::pass_all(Instant now) {
  looked_at_ += window_.in_window();
  base_ = cumulative_ = next();
  window_.pass_all();
  flight_ = Flight{};
  cumulative_moved_ = base_moved_ = now;
}

inline void Scoreboard::pass_response(Instant now) {
  window_.pass_first();
  looked_at_ += 2;  // acknowledged, and skipped
  ++base_;
  base_moved_ = now;
}

}  // namespace brdma::qp
