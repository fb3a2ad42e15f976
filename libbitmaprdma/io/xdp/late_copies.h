// io/xdp/late_copies.h - places of a transmit ring whose packets have left by UDP as well: the interface was down. They
// leave a second time, late, or never. Positions are free-running, as the ring's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace brdma::io {

class LateCopies {
 public:
  // [begin, end) are such places. Those before `taken` are forgotten.
  void add(std::uint32_t begin, std::uint32_t end, std::uint32_t taken) {
    std::erase_if(ranges_, [taken](const Range& each) { return static_cast<std::int32_t>(each.end - taken) <= 0; });
    if (begin == end) return;
    if (!ranges_.empty() && ranges_.back().end == begin) {
      ranges_.back().end = end;
    } else {
      ranges_.push_back({begin, end});
    }
  }
  [[nodiscard]] bool contains(std::uint32_t place) const {
    return std::ranges::any_of(ranges_,
                               [place](const Range& each) { return place - each.begin < each.end - each.begin; });
  }

 private:
  struct Range {
    std::uint32_t begin = 0, end = 0;
  };
  std::vector<Range> ranges_;  // the oldest first
};

}  // namespace brdma::io
