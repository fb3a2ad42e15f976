// fabric/processor.h - a switch's own processing (design WT-8): packets of all its ports pass one after the other, each
// takes 1/rate; one that finds kWaitingMax before it is dropped. Without a rate they pass at once. Exact times, with
// fractions of a nanosecond carried over. No clock and no events: the owner polls at next_timeout().
//
//   passes_at_once() -> forward it;  else accept() -> poll() at its time
//
// A change of the rate holds for packets that come later; those that wait keep their times, and their order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/ring.h"
#include "base/units.h"
#include "fabric/switch/departure_time.h"

namespace brdma::fabric {

struct ProcessorCounters {
  std::uint64_t processed = 0;  // packets that waited for it, or do so now
  std::uint64_t dropped = 0;    // found no room
  std::uint64_t longest = 0;    // waited at the same time, ever
};

template <class Item>
class Processor {
 public:
  static constexpr std::size_t kWaitingMax = 1024;  // packets, the one in work included

  struct Done {
    Item item;
    Instant at;
  };

  // Packets a second, at least 1; none: not bounded.
  void configure(std::optional<std::uint64_t> rate) {
    if (rate == rate_) return;
    rate_ = rate;
    end_.forget_fraction();
  }
  [[nodiscard]] std::optional<std::uint64_t> rate() const { return rate_; }
  [[nodiscard]] bool passes_at_once() const { return !rate_ && waiting_.empty(); }

  // False: no room; the item is the caller's still.
  [[nodiscard]] bool accept(Item& item, Instant now) {
    if (waiting_.size() >= kWaitingMax) {
      ++counters_.dropped;
      return false;
    }
    if (rate_) {
      end_.extend(1, Bandwidth::from_bps(*rate_ * 8), now);
    } else {
      end_.start_at(now);
    }
    ++counters_.processed;
    waiting_.push_back(Done{std::move(item), end_.at()});
    counters_.longest = std::max<std::uint64_t>(counters_.longest, waiting_.size());
    return true;
  }
  // The next packet that is done by `now`.
  [[nodiscard]] std::optional<Done> poll(Instant now) {
    if (waiting_.empty() || waiting_.front().at > now) return std::nullopt;
    Done done = std::move(waiting_.front());
    waiting_.pop_front();
    return done;
  }
  [[nodiscard]] std::optional<Instant> next_timeout() const {
    if (waiting_.empty()) return std::nullopt;
    return waiting_.front().at;
  }
  // Until all that wait are done.
  [[nodiscard]] Duration drain(Instant now) const { return std::max(end_.at() - now, Duration{}); }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  [[nodiscard]] const ProcessorCounters& counters() const { return counters_; }

  template <class Discard>
  void clear(const Discard& discard) {
    for (; !waiting_.empty(); waiting_.pop_front()) discard(std::move(waiting_.front().item));
  }

 private:
  std::optional<std::uint64_t> rate_;
  DepartureTime end_;  // of the last packet's work
  Ring<Done> waiting_;
  ProcessorCounters counters_;
};

}  // namespace brdma::fabric
