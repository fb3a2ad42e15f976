// bitmap/receive_window.h - the receive bitmap RBM (design BR-1 to BR-5): which PSNs from the base on have
// arrived. Variable length and segmented (window_shape.h): its memory follows the range from the base to the highest
// arrived PSN; in-order packets need none. Costs: classify, receive, has: constant. advance, next_hole, export_bits: a
// word of 64 PSNs at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/psn.h"
#include "bitmap/arrival_bits.h"

namespace brdma::bitmap {

enum class Arrival : std::uint8_t { kNew, kDuplicate, kBeforeBase, kBeyondWindow };

class ReceiveWindow {
 public:
  // 1 <= shape.window <= kWindowMax. `pool` outlives the window.
  ReceiveWindow(Psn base, const WindowShape& shape, SegmentPool& pool);

  [[nodiscard]] Psn base() const { return base_; }
  [[nodiscard]] std::uint32_t window() const { return shape_.window; }
  // PSNs accepted from the base on: the window, less the lag of its edge (slide step).
  [[nodiscard]] std::uint32_t open() const { return shape_.window - lag(); }
  // Highest PSN received; base() - 1 where nothing lies at or beyond the base.
  [[nodiscard]] Psn highest() const { return highest_; }
  // Nothing has arrived at or beyond the base.
  [[nodiscard]] bool empty() const { return distance(highest_, base_) < 0; }
  // Classifies `psn` without changing anything.
  [[nodiscard]] Arrival classify(Psn psn) const {
    const std::int32_t offset = distance(psn, base_);
    if (offset < 0) return Arrival::kBeforeBase;
    if (static_cast<std::uint32_t>(offset) >= open()) return Arrival::kBeyondWindow;
    return has(psn) ? Arrival::kDuplicate : Arrival::kNew;
  }
  // False: a bit stands for several PSNs, and too many runs are incomplete to take one of these.
  [[nodiscard]] bool can_receive(Psn psn, std::uint32_t count = 1) const { return bits_.can_set(psn, count); }
  // classify(); when kNew the bit is set and highest() moves. Precondition, as of receive_run(): can_receive().
  Arrival receive(Psn psn);
  // Marks the run [first, first + count) as received: a READ request occupies as many PSNs as it has responses. PSNs
  // before the base or beyond the window are left out. Returns how many PSNs are newly marked.
  std::uint32_t receive_run(Psn first, std::uint32_t count);
  // Takes `psn` back: the packet was dropped before it was acknowledged. Precondition: has(psn), and not the highest.
  void forget(Psn psn);
  // The PSN's bit: false before the base and beyond highest().
  [[nodiscard]] bool has(Psn psn) const {
    const std::int32_t offset = distance(psn, base_);
    return offset >= 0 && offset <= distance(highest_, base_) && bits_.test(psn);
  }
  // Base has arrived: step over one PSN / over the whole run of set bits. Cleared bits are reused.
  void advance_one();
  std::uint32_t advance();
  // Steps over `count` PSNs, bits set or not: an in-order READ longer than the window is done as a whole.
  [[gnu::always_inline]] void advance_over(std::uint32_t count) {
    BRDMA_CHECK(count <= Psn::kMask / 2);
    if (empty()) [[likely]] {
      begin_at(base_ + count);
    } else {
      advance_over_held(count);
    }
  }
  // First unset PSN at or after `from`, and the length of that run of unset bits, both up to highest(); length 0: none.
  struct Hole {
    Psn start;
    std::uint32_t length = 0;
  };
  [[nodiscard]] Hole next_hole(Psn from) const;
  // The same for the next run of set bits.
  [[nodiscard]] Hole next_run(Psn from) const;
  // Bits base .. base + count - 1 as big-endian 32-bit words, lowest PSN first in the most significant bit
  // (wire::BitmapAck::bits). `out` holds ceil(count / 32) * 4 bytes; bits from `count` on are 0.
  void export_bits(std::uint32_t count, std::byte* out) const;
  [[nodiscard]] LengthChange take_length_change() { return bits_.take_length_change(); }
  [[nodiscard]] WindowUse use() const { return bits_.use(shape_); }
  [[nodiscard]] std::size_t allocated_bytes() const { return bits_.allocated_bytes(); }
  [[nodiscard]] std::size_t partial_runs() const { return bits_.partial_runs(); }

 private:
  [[nodiscard]] std::uint32_t held() const { return static_cast<std::uint32_t>(distance(highest_, base_) + 1); }
  void step_over(std::uint32_t count);
  void advance_over_held(std::uint32_t count);
  void begin_at(Psn base) {
    base_ = anchor_ = base;
    highest_ = base_ - 1;
  }
  // How far the base is ahead of the point the window has slid to.
  [[nodiscard]] std::uint32_t lag() const { return (base_.value() - anchor_.value()) & (shape_.slide_step - 1); }

  Psn base_;
  Psn highest_;
  Psn anchor_;  // slides are multiples of the step from here: the base when the window was empty
  WindowShape shape_;
  ArrivalBits bits_;  // of [base_ - lag(), highest_]
};

}  // namespace brdma::bitmap
