#include "bitmap/pending_entries.h"

#include <algorithm>

namespace brdma::bitmap {

Psn PendingEntries::find(Psn first, Psn from, Psn end) const {
  if (distance(from, low_) < 0) from = low_;
  // Entries sent since the last one was added may lie beyond the bitmap's length: none of them is in.
  const std::uint32_t held = std::min(static_cast<std::uint32_t>(distance(end, first)), bits_.room(first));
  const std::int32_t left = distance(first + held, from);
  if (left <= 0) return end;
  const std::uint32_t offset = bits_.find_set(from, static_cast<std::uint32_t>(left));
  if (offset == static_cast<std::uint32_t>(left)) return end;
  const Psn found = from + offset;
  if (from == low_) low_ = found;  // none is before it: never looked at again
  return found;
}

}  // namespace brdma::bitmap
