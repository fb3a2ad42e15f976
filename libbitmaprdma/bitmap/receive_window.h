// bitmap/receive_window.h - the receive bitmap RBM (spec 1: windows and mapping): which PSNs from the base on have
// arrived. Bits live in a power-of-two ring of 64-bit words that starts small and grows up to the window's size (spec
// 1: variable length), so an idle queue pair costs little. Granularity G is 1 here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/psn.h"

namespace brdma::bitmap {

enum class Arrival : std::uint8_t { kNew, kDuplicate, kBeforeBase, kBeyondWindow };

class ReceiveWindow {
 public:
  ReceiveWindow(Psn base, std::uint32_t window_packets);

  [[nodiscard]] Psn base() const { return base_; }
  [[nodiscard]] std::uint32_t window() const { return window_; }
  // Highest PSN received; base() - 1 where nothing lies at or beyond the base.
  [[nodiscard]] Psn highest() const { return highest_; }
  // How `psn` stands, without changing anything.
  [[nodiscard]] Arrival classify(Psn psn) const;
  // classify(); when kNew the bit is set and highest() moves.
  Arrival receive(Psn psn);
  [[nodiscard]] bool has(Psn psn) const;
  // Base has arrived: step over one PSN / over the whole run of set bits. Cleared bits are reused.
  void advance_one();
  std::uint32_t advance();
  // First unset PSN at or after `from`, and the length of that run of unset bits, both up to highest(); length 0: none.
  struct Hole {
    Psn start;
    std::uint32_t length = 0;
  };
  [[nodiscard]] Hole next_hole(Psn from) const;
  // Bits base .. base + count - 1 as big-endian 32-bit words, lowest PSN first in the most significant bit
  // (wire::BitmapAck::bits). `out` holds ceil(count / 32) * 4 bytes.
  void export_bits(std::uint32_t count, std::byte* out) const;
  [[nodiscard]] std::size_t allocated_bytes() const;

 private:
  Psn base_;
  Psn highest_;
  std::uint32_t window_;
  std::uint32_t capacity_ = 0;  // bits in the ring now
  std::unique_ptr<std::uint64_t[]> words_;
};

}  // namespace brdma::bitmap
