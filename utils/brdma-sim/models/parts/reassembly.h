// models/parts/reassembly.h - what a receiver that keeps packets out of order has: TCP with SACK, IRN.
// The ranges beyond the first hole stand in the order of their last change, as SACK blocks do (RFC 2018 section 4).
// Packets arrive whole: a range is new, or a repetition of one that arrived. Cost: linear in the number of ranges.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "models/model.h"

namespace brdma::models {

enum class Arrival : std::uint8_t { kInOrder, kAhead, kDuplicate };

class Reassembly {
 public:
  Arrival insert(ByteRange range) {
    if (range.end <= in_order_ || covered(range)) return Arrival::kDuplicate;
    if (range.first > in_order_) {
      join(range);
      return Arrival::kAhead;
    }
    in_order_ = range.end;
    absorb();
    return Arrival::kInOrder;
  }
  [[nodiscard]] std::uint64_t in_order() const { return in_order_; }
  [[nodiscard]] bool has_holes() const { return !ranges_.empty(); }
  // The most recently changed first.
  [[nodiscard]] std::span<const ByteRange> ranges() const { return ranges_; }

 private:
  [[nodiscard]] bool covered(ByteRange range) const {
    return std::any_of(ranges_.begin(), ranges_.end(),
                       [range](const ByteRange& has) { return has.first <= range.first && range.end <= has.end; });
  }
  void join(ByteRange range) {
    std::erase_if(ranges_, [&range](const ByteRange& has) {
      if (has.end < range.first || range.end < has.first) return false;
      range = {std::min(range.first, has.first), std::max(range.end, has.end)};
      return true;
    });
    ranges_.insert(ranges_.begin(), range);
  }
  void absorb() {
    const auto next =
        std::find_if(ranges_.begin(), ranges_.end(), [this](const ByteRange& has) { return has.first <= in_order_; });
    if (next == ranges_.end()) return;  // ranges do not touch: at most one begins here
    in_order_ = std::max(in_order_, next->end);
    ranges_.erase(next);
  }

  std::uint64_t in_order_ = 0;
  std::vector<ByteRange> ranges_;
};

}  // namespace brdma::models
