// bitmap/gap_table.h - records of the gaps between base and highest PSN (spec 1: gaps), in PSN order, disjoint.
// A bounded number (gaps_max()): beyond it the newest gaps stay unrecorded until older ones close; refill() finds them
// again in the receive window.
// Costs: opening and closing a gap, and finding one, do not depend on how many there are but for a binary search, where
// they close about in the order in which they opened.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/psn.h"
#include "base/units.h"
#include "base/vector_bytes.h"
#include "bitmap/receive_window.h"

namespace brdma::bitmap {

enum class GapState : std::uint8_t { kWaiting, kPromoted };

struct GapRecord {
  Psn start;
  std::uint32_t length = 0;
  Instant first_seen;
  Instant base_stuck_since;         // when the base last moved, where that may count as the beginning of a stall
  Instant last_feedback;            // of the last FFM that named it
  std::uint32_t later_packets = 0;  // packets received beyond it since it was seen
  std::uint16_t feedbacks = 0;      // FFMs that named it: repeat count
  std::uint8_t path = 0;            // of the packet that revealed it; its own where that is known
  bool path_known = false;          // a packet behind it on its path said so
  std::uint8_t cause = 0;           // why it was promoted (recovery::LossCause); 0 while it waits
  GapState state = GapState::kWaiting;
  bool path_passed = false;  // its own path has delivered packets beyond it
  std::uint16_t later_paths =
      0;  // answers: bit k, path k brought one that was asked for after this was asked for again
};

// Of a window. A loss of 1 % makes 300 a round trip where the path holds 30,000 packets, and each stays for one or two;
// but a start that finds the end of the path's queue loses every other packet of a round trip. What has no record waits
// until others close, so that such a start took sixteen round trips with 4096 records, and takes two.
inline constexpr std::size_t kGapsMax = 256, kGapsMaxLong = 65536;
inline constexpr std::uint32_t kWindowOfFewGaps = 4096;  // up to such a window, and for answers
[[nodiscard]] constexpr std::size_t gaps_max(std::uint32_t window) {
  return window <= kWindowOfFewGaps ? kGapsMax : std::min<std::size_t>(window / 4, kGapsMaxLong);
}
// Of answers to READs, which are looked at one by one.
[[nodiscard]] constexpr std::size_t response_gaps_max(std::uint32_t window) {
  return std::clamp<std::size_t>(window / 16, kGapsMax, 4096);
}

class GapTable {
 public:
  // From now on for so many records. Precondition: empty.
  void begin(std::size_t records_max) { records_max_ = records_max; }
  // Packet `psn` arrived beyond `previous_highest`: [previous_highest + 1, psn) is a new gap (if not empty).
  // False: table full, gap not recorded; incomplete() until refill() has found it.
  bool open(Psn previous_highest, Psn psn, std::uint8_t path, Instant now, Instant base_stuck_since);
  // `psn` arrived inside a gap: shrinks, splits or closes it. What it was before the arrival; state tells a
  // misjudgement.
  struct Filled {
    bool found = false;
    bool closed = false;  // that record is gone
    GapState state = GapState::kWaiting;
    Instant first_seen, last_feedback;
    std::uint16_t feedbacks = 0;
    Psn start;
    Instant base_stuck_since;
  };
  Filled fill(Psn psn);
  // A packet that had arrived was thrown away: `psn`, part of no gap, is missing again. False: no room, nothing done.
  bool reopen(Psn psn, Instant now);
  // [first, first + count) was sent on `path`: what of waiting gaps lies in there becomes records of its own, which
  // know their path. True: there are some.
  bool attribute(Psn first, std::uint32_t count, std::uint8_t path);
  // Forgets what lies before the base.
  void drop_before(Psn base);
  // Gaps exist that are not recorded. refill() records as many of them as there is room for, as seen now; how many.
  [[nodiscard]] bool incomplete() const { return incomplete_; }
  std::size_t refill(const ReceiveWindow& window, Instant now, Instant base_stuck_since);
  void clear();
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const { return gaps_.size() - head_; }
  [[nodiscard]] std::uint32_t missing() const;  // packets, of all records
  [[nodiscard]] std::size_t allocated_bytes() const { return vector_bytes(gaps_); }
  [[nodiscard]] GapRecord& operator[](std::size_t i) { return gaps_[head_ + i]; }
  [[nodiscard]] const GapRecord& operator[](std::size_t i) const { return gaps_[head_ + i]; }
  // Index of the first record that ends after `psn`; size() where none. Half of the records at each step.
  [[nodiscard]] std::size_t find(Psn psn) const;
  // The record that `psn` is missing in; null where none.
  [[nodiscard]] const GapRecord* covering(Psn psn) const;
  // Index of the first record that waits; size() where none. Those before it, promoted, are passed over once and not
  // each time: on a long path they are nearly all.
  [[nodiscard]] std::size_t first_waiting() const;
  // Records looked at by first_waiting() since clear(): a measure of its cost, for tests.
  [[nodiscard]] std::uint64_t visited() const { return visited_; }

 private:
  bool insert(const GapRecord& gap);
  bool cut(std::size_t i, Psn at);
  void leave_out(Psn start);
  void insert_at(std::size_t at, const GapRecord& gap);
  void erase_at(std::size_t at);
  void forget_front();
  void clear_records();

  bool incomplete_ = false;
  Psn unrecorded_;  // no gap before it is missing here (meaningful while incomplete_)
  std::size_t records_max_ = kGapsMax;
  // Records close mostly at the front, in the order in which they opened: what is in front of the first is free room,
  // so that nothing behind has to move.
  std::vector<GapRecord> gaps_;
  std::size_t head_ = 0;
  mutable Psn waiting_low_;  // no record before it waits (meaningful while there are records)
  mutable std::uint64_t visited_ = 0;
};

}  // namespace brdma::bitmap
