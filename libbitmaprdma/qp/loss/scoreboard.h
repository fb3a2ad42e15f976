// qp/loss/scoreboard.h - private: what became of the packets that the requester has sent. The scoreboard knows which of
// them are in flight, arrived, executed or to be retransmitted, and how many bytes that is; it decides nothing. The
// packets themselves, by sequence, are those of the sent window (sent_window.h).
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

#include "base/psn.h"
#include "base/units.h"
#include "bitmap/send_window.h"
#include "qp/loss/sent_window.h"
#include "qp/queues/message_table.h"

namespace brdma::qp {

// Data in flight to the peer.
struct Flight {
  std::uint32_t packets = 0;  // sent, not acknowledged: under the peer's credit
  std::uint64_t bytes = 0;    // their payload
  std::uint64_t pipe = 0;     // of those bytes, not judged lost: under the congestion window
  bool operator==(const Flight&) const = default;
};

class Scoreboard : public SentWindow {
 public:
  // `pool` outlives it.
  Scoreboard(const bitmap::WindowShape& shape, bitmap::SegmentPool& pool) : SentWindow(shape, pool) {}

  // Nothing is in flight, and the next packet has PSN `first` and sequence 0.
  void begin_from(Psn first);
  // Nothing is in flight any more. The next packet has the same PSN as before, and the base's sequence.
  void forget_flight();

  [[nodiscard]] Sequence cumulative() const { return cumulative_; }
  [[nodiscard]] Sequence arrived_end() const { return arrived_end_; }  // one past the newest known to have arrived
  // Retransmitted, and not acknowledged yet.
  [[nodiscard]] std::uint32_t retransmitted() const { return retransmitted_; }
  // Is a packet missing before one that has arrived?
  [[nodiscard]] bool has_holes() const { return arrived_end_ > cumulative_; }
  // All entries are in flight for the first time, and no later one is known to have arrived.
  [[nodiscard]] bool is_in_order() const {
    return base() == cumulative_ && !has_holes() && unacked() == entries() && retransmitted_ == 0 && pending() == 0;
  }
  [[nodiscard]] const Flight& flight() const { return flight_; }
  // Packets in the network as FACK counts them: those missing before one that has arrived are mostly no longer there.
  [[nodiscard]] std::uint64_t packets_behind_arrived() const { return next() - arrived_end_ + retransmitted_; }

  // --- sent ---
  // The next packet, of a message whose packets carry data. `payload` in bytes.
  void sent(std::uint32_t payload, std::uint8_t path, Instant now) {
    note_begun(now);
    window().sent(path, now);
    count_sent(1, payload);
  }
  // The next `packets` packets with `payload` bytes together.
  void sent_run(std::uint32_t packets, std::uint64_t payload, std::uint8_t path, Instant now) {
    note_begun(now);
    window().sent_run(packets, path, now);
    count_sent(packets, payload);
  }
  // As sent(), where the scoreboard is empty.
  void sent_single(std::uint32_t payload, std::uint8_t path, Instant now) {
    cumulative_moved_ = now;
    window().sent_single(path, now);
    flight_ = {.packets = 1, .bytes = payload, .pipe = payload};
  }
  // A request with `responses` responses.
  void sent_request(std::uint32_t responses, std::uint8_t path, Instant now) {
    note_begun(now);
    window().sent_run(responses, path, now);
    ++flight_.packets;
  }

  // --- lost, retransmitted. `payload`: bytes of the data packet, 0 of a response ---
  void suspect(Sequence sequence) { window().suspect(psn_of(sequence)); }  // kSentUnacked -> kSuspectedLost
  // To be retransmitted; false (nothing done) if it is acknowledged or pending already.
  bool request_retransmission(Sequence sequence, std::uint32_t payload);
  // An acknowledged packet is to leave once more, to ask the peer something. It stays acknowledged: nothing in flight
  // changes. False (nothing done): it is pending already.
  bool request_repeat(Sequence sequence) { return window().request_repeat(psn_of(sequence)); }
  void left_again(Sequence sequence, std::uint32_t payload, std::uint8_t path, Instant now);

  // --- acknowledged ---
  // A data packet with `payload` bytes, or a response has arrived. False (nothing done): it was acknowledged before.
  bool acknowledge(Sequence sequence, std::uint32_t payload);
  bool acknowledge_response(Sequence sequence);
  void request_arrived() { --flight_.packets; }  // of a message with responses
  // Data packets in [from, to) with `payload` bytes together. Precondition: is_in_order().
  void acknowledge_run(Sequence from, Sequence to, std::uint64_t payload);
  // Everything in flight has been executed and leaves. Precondition: is_in_order(), only data is in flight.
  [[gnu::always_inline]] void pass_all(Instant now);
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
  void reopen_response(Sequence sequence) { window().unacknowledge(psn_of(sequence)); }
  void note_arrived(Sequence end) { arrived_end_ = end > arrived_end_ ? end : arrived_end_; }

  // --- stalls ---
  [[nodiscard]] Instant base_moved() const { return base_moved_; }
  [[nodiscard]] Instant cumulative_moved() const { return cumulative_moved_; }  // or first awaited
  void restart_stall(Instant now) { cumulative_moved_ = now; }

 private:
  void note_begun(Instant now) {
    if (empty()) cumulative_moved_ = now;
  }
  void count_sent(std::uint32_t packets, std::uint64_t payload) {
    flight_.packets += packets;
    flight_.bytes += payload;
    flight_.pipe += payload;
  }

  std::uint32_t retransmitted_ = 0;  // entries in kRetransmittedUnacked; first, in the padding of SentWindow
  Sequence cumulative_ = 0, arrived_end_ = 0;
  Flight flight_;
  Instant base_moved_, cumulative_moved_;
};

inline bool Scoreboard::acknowledge_response(Sequence sequence) {
  const Psn psn = psn_of(sequence);
  const bitmap::EntryState before = window().entry(psn).state;
  look_at(1);
  if (!window().acknowledge(psn)) return false;
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
  pass_all_entries();
  cumulative_ = base();
  flight_ = Flight{};
  cumulative_moved_ = base_moved_ = now;
}

inline void Scoreboard::pass_response(Instant now) {
  pass_first_entry();
  base_moved_ = now;
}

}  // namespace brdma::qp
