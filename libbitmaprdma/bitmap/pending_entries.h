// bitmap/pending_entries.h - the entries of a send window that are to leave again, as a bitmap: finding the next one
// looks at 64 PSNs at a time. It knows no base: `first` is where the window's PSNs begin.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/psn.h"
#include "bitmap/segmented_bits.h"
#include "bitmap/window_shape.h"

namespace brdma::bitmap {

class PendingEntries {
 public:
  // `pool` outlives it.
  PendingEntries(const WindowShape& shape, SegmentPool& pool) : bits_(shape, pool) {}

  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] bool contains(Psn first, Psn psn) const {
    return count_ > 0 && static_cast<std::uint32_t>(distance(psn, first)) < bits_.room(first) && bits_.test(psn);
  }
  // The lowest in [from, end), where the window ends at `end`; `end` if there is none.
  [[nodiscard]] Psn next(Psn first, Psn from, Psn end) const { return count_ == 0 ? end : find(first, from, end); }

  void add(Psn first, Psn psn);  // precondition: it is not in
  void remove(Psn psn) {         // precondition: it is in
    bits_.clear(psn);
    --count_;
  }
  void remove_all() {
    bits_.clear_all();
    count_ = 0;
  }

  // The window began at `from`, now it begins at `to` and has `held` PSNs; none before `to` is in.
  void leave(Psn from, Psn to, std::uint32_t held) { bits_.leave(from, to, held); }
  // The window is empty, and so is this; it began at `first` and had `count` PSNs.
  void release(Psn first, std::uint32_t count) { bits_.release(first, count); }
  [[nodiscard]] std::size_t allocated_bytes() const { return bits_.allocated_bytes(); }

 private:
  [[nodiscard]] Psn find(Psn first, Psn from, Psn end) const;

  std::uint32_t count_ = 0;
  mutable Psn low_;  // none before it is in (meaningful while count_ > 0)
  SegmentedBits bits_;
};

inline void PendingEntries::add(Psn first, Psn psn) {
  bits_.set(first, psn);
  if (count_++ == 0 || distance(psn, low_) < 0) low_ = psn;
}

}  // namespace brdma::bitmap
