// recovery/send_log.h - transmissions in order of time, for a sender that looks for packets whose acknowledgement is
// overdue (design WT-5). The oldest is at the front, so a walk looks at the overdue ones and one more: its
// cost does not depend on the window. Neighbours that leave in one batch are one entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/ring.h"
#include "base/units.h"

namespace brdma::recovery {

class SendLog {
 public:
  // `now` never goes back. A retransmitted packet is logged again; its older entry is skipped then.
  void sent(std::uint64_t sequence, Instant now) {
    if (!runs_.empty()) {
      Run& newest = runs_.back();
      if (newest.at == now && newest.first + newest.count == sequence) {
        ++newest.count;
        return;
      }
    }
    runs_.push_back({sequence, now, 1});
  }

  // Removes finished entries at the front: not open(sequence, sent), which means acknowledged or retransmitted since.
  // Each transmission is removed once.
  template <class Open>
  void trim(const Open& open) {
    while (!runs_.empty()) {
      Run& oldest = runs_.front();
      while (oldest.count > 0 && !open(oldest.first, oldest.at)) {
        ++oldest.first;
        --oldest.count;
      }
      if (oldest.count > 0) return;
      runs_.pop_front();
    }
  }

  // Calls overdue(sequence, sent) for each open packet, oldest first, as long as is_due(sent). Each transmission is
  // named once. If overdue() returns false, it and all later ones stay.
  template <class IsDue, class Open, class Overdue>
  void walk(const IsDue& is_due, const Open& open, const Overdue& overdue) {
    while (!runs_.empty() && is_due(runs_.front().at)) {
      Run& oldest = runs_.front();
      for (; oldest.count > 0; ++oldest.first, --oldest.count) {
        if (open(oldest.first, oldest.at) && !overdue(oldest.first, oldest.at)) return;
      }
      runs_.pop_front();
    }
  }

  // Send time of the oldest; behind trim() it is open.
  [[nodiscard]] std::optional<Instant> oldest() const {
    return runs_.empty() ? std::nullopt : std::optional{runs_.front().at};
  }
  [[nodiscard]] std::size_t runs() const { return runs_.size(); }
  void clear() { runs_.clear(); }
  [[nodiscard]] std::size_t allocated_bytes() const { return runs_.allocated_bytes(); }

 private:
  struct Run {
    std::uint64_t first = 0;
    Instant at;
    std::uint32_t count = 0;
  };
  Ring<Run> runs_;
};

}  // namespace brdma::recovery
