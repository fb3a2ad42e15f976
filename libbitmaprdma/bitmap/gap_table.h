// bitmap/gap_table.h - records of the gaps between base and highest PSN (design BR-10), in PSN order, disjoint. Their
// number is bounded (gaps_max()): beyond it the newest gaps stay unrecorded until older ones close; refill() finds them
// again in the receive window. Costs: opening, closing and finding a gap take a binary search, and no more where gaps
// close about in the order in which they opened.
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
  Instant base_stuck_since;         // when the base last moved, if that may count as the beginning of a stall
  Instant last_feedback;            // when the last FFM named it
  std::uint32_t later_packets = 0;  // packets received beyond it since it was seen
  std::uint16_t feedbacks = 0;      // FFMs that named it: repeat count
  std::uint8_t path = 0;            // path of the packet that revealed it; its own path where known
  bool path_known = false;          // learnt from a later packet on its path
  std::uint8_t cause = 0;           // why it was promoted (recovery::LossCause); 0 while it waits
  GapState state = GapState::kWaiting;
  bool path_passed = false;  // its own path has delivered packets beyond it
  std::uint16_t later_paths =
      0;  // READ responses: bit k, path k brought a response requested after this one's re-request

  [[nodiscard]] bool covers(Psn psn) const {
    const std::int32_t offset = distance(psn, start);
    return offset >= 0 && offset < static_cast<std::int32_t>(length);
  }
};

// Of a window. A loss of 1 % makes 300 gaps a round trip where the path holds 30,000 packets, and each stays open for
// one or two. A slow start that fills the path's queue loses every other packet of a round trip. Unrecorded gaps wait
// until others close: such a start took sixteen round trips with 4096 records, and takes two.
inline constexpr std::size_t kGapsMax = 256, kGapsMaxLong = 65536;
inline constexpr std::uint32_t kWindowOfFewGaps = 4096;  // up to such a window, and for READ responses
[[nodiscard]] constexpr std::size_t gaps_max(std::uint32_t window) {
  return window <= kWindowOfFewGaps ? kGapsMax : std::min<std::size_t>(window / 4, kGapsMaxLong);
}
// Of READ responses, which are looked at one by one.
[[nodiscard]] constexpr std::size_t response_gaps_max(std::uint32_t window) {
  return std::clamp<std::size_t>(window / 16, kGapsMax, 4096);
}

class GapTable {
 public:
  // Sets the capacity, in records. Precondition: empty.
  void begin(std::size_t records_max) { records_max_ = records_max; }
  // Packet `psn` arrived beyond `previous_highest`: [previous_highest + 1, psn) is a new gap (if not empty).
  // False: table full, gap not recorded; incomplete() until refill() has found it.
  bool open(Psn previous_highest, Psn psn, std::uint8_t path, Instant now, Instant base_stuck_since);
  // `psn` arrived inside a gap: shrinks, splits or closes it. Returns the record before the arrival; its state shows a
  // misjudgement.
  struct Filled {
    bool found = false;
    bool closed = false;  // the record is gone
    GapState state = GapState::kWaiting;
    Instant first_seen, last_feedback;
    std::uint16_t feedbacks = 0;
    Psn start;
    Instant base_stuck_since;
  };
  Filled fill(Psn psn);
  // An arrived packet was dropped: `psn`, part of no gap, is missing again. False: no room, nothing done.
  bool reopen(Psn psn, Instant now);
  // [first, first + count) was sent on `path`: splits waiting gaps so that the parts in that range are records that
  // know their path. True: there are some.
  bool attribute(Psn first, std::uint32_t count, std::uint8_t path);
  // Forgets gaps before the base.
  void drop_before(Psn base);
  // Gaps exist that are not recorded. refill() records as many of them as there is room for, as seen now; returns how
  // many.
  [[nodiscard]] bool incomplete() const { return incomplete_; }
  std::size_t refill(const ReceiveWindow& window, Instant now, Instant base_stuck_since);
  void clear();
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const { return gaps_.size() - head_; }
  [[nodiscard]] std::uint32_t missing() const;  // packets, of all records
  [[nodiscard]] std::size_t allocated_bytes() const { return vector_bytes(gaps_); }
  [[nodiscard]] GapRecord& operator[](std::size_t i) { return gaps_[head_ + i]; }
  [[nodiscard]] const GapRecord& operator[](std::size_t i) const { return gaps_[head_ + i]; }
  // Index of the first record that ends after `psn`; size() if none. Binary search.
  [[nodiscard]] std::size_t find(Psn psn) const;
  // The record in which `psn` is missing; null if none.
  [[nodiscard]] const GapRecord* covering(Psn psn) const;
  // Index of the first record that waits; size() if none. Promoted records before it are passed over once, not each
  // time: on a long path they are nearly all.
  [[nodiscard]] std::size_t first_waiting() const;
  // Records visited by first_waiting() since clear(): a measure of its cost, for tests.
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
  // Records close mostly at the front, in the order in which they opened. The room before the first is free, so that no
  // later record has to move.
  std::vector<GapRecord> gaps_;
  std::size_t head_ = 0;
  mutable Psn waiting_low_;  // no record before it waits (meaningful while there are records)
  mutable std::uint64_t visited_ = 0;
};

}  // namespace brdma::bitmap
