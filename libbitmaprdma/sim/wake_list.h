// sim/wake_list.h - when each of many numbered items wants to be called next: a binary heap that knows each item's
// place, so that a change costs O(log n). At one instant lower numbers come first.
//
//   set(item, time) after every change of the item's time; next(): the earliest
//   begin_pass(now), then next_due() until it returns nothing: the items that are due, each once, by rising numbers.
//   An item that becomes due during a pass is part of it if its number is above the present one; else the next pass has
//   it. So a pass does what a walk over all items would do.
// No allocation once the heap has grown to the number of items.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"

namespace brdma::sim {

class WakeList {
 public:
  // `at` in the past counts as `now`. None: it waits for nothing.
  void set(std::uint32_t item, std::optional<Instant> at, Instant now) {
    if (item >= places_.size()) places_.resize(item + 1, kNowhere);
    if (!at) return remove(item);
    const Instant when = std::max(*at, now);
    if (passing_ && when <= pass_now_ && item > present_) join_pass(item);
    const std::size_t place = places_[item];
    if (place == kNowhere) {
      places_[item] = heap_.size();
      heap_.push_back({when, item});
      rise(heap_.size() - 1);
      return;
    }
    const bool earlier = when < heap_[place].when;
    heap_[place].when = when;
    if (earlier) {
      rise(place);
    } else {
      sink(place);
    }
  }
  [[nodiscard]] std::optional<Instant> next() const {
    return heap_.empty() ? std::nullopt : std::optional{heap_.front().when};
  }

  void begin_pass(Instant now) {
    due_.clear();
    taken_ = 0;
    while (!heap_.empty() && heap_.front().when <= now) {
      due_.push_back(heap_.front().item);
      remove(heap_.front().item);
    }
    std::sort(due_.begin(), due_.end());
    pass_now_ = now;
    present_ = 0;
    passing_ = !due_.empty();
  }
  // Its time is to be set again after the call.
  [[nodiscard]] std::optional<std::uint32_t> next_due() {
    if (taken_ == due_.size()) {
      passing_ = false;
      return std::nullopt;
    }
    present_ = due_[taken_++];
    return present_;
  }

 private:
  struct Wake {
    Instant when;
    std::uint32_t item = 0;
  };
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  [[nodiscard]] static bool before(const Wake& a, const Wake& b) {
    return a.when != b.when ? a.when < b.when : a.item < b.item;
  }
  void join_pass(std::uint32_t item) {
    const auto rest = due_.begin() + static_cast<std::ptrdiff_t>(taken_);
    const auto place = std::lower_bound(rest, due_.end(), item);
    if (place == due_.end() || *place != item) due_.insert(place, item);
  }
  void remove(std::uint32_t item) {
    const std::size_t place = places_[item];
    if (place == kNowhere) return;
    places_[item] = kNowhere;
    const Wake last = heap_.back();
    heap_.pop_back();
    if (place == heap_.size()) return;
    heap_[place] = last;
    places_[last.item] = place;
    rise(place);
    sink(places_[last.item]);
  }
  void rise(std::size_t place) {
    while (place > 0 && before(heap_[place], heap_[(place - 1) / 2])) {
      exchange(place, (place - 1) / 2);
      place = (place - 1) / 2;
    }
  }
  void sink(std::size_t place) {
    for (;;) {
      std::size_t least = place;
      for (const std::size_t child : {2 * place + 1, 2 * place + 2}) {
        if (child < heap_.size() && before(heap_[child], heap_[least])) least = child;
      }
      if (least == place) return;
      exchange(place, least);
      place = least;
    }
  }
  void exchange(std::size_t a, std::size_t b) {
    std::swap(heap_[a], heap_[b]);
    places_[heap_[a].item] = a;
    places_[heap_[b].item] = b;
  }

  std::vector<Wake> heap_;
  std::vector<std::size_t> places_;  // of each item
  std::vector<std::uint32_t> due_;   // of the present pass
  std::size_t taken_ = 0;            // of these
  std::uint32_t present_ = 0;
  Instant pass_now_;
  bool passing_ = false;
};

}  // namespace brdma::sim
