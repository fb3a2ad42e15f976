// values/flows.h - when flows begin and how long they are: from a mix of sizes, one after the other on each queue pair,
// or at random times (Poisson) whatever the network does.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/random.h"
#include "values/samples.h"

namespace brdma::perf {

class Arrivals {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  // `every`: mean time between flows, ns; 0: none comes by itself.
  Arrivals(SizeMix mix, std::int64_t every, std::uint64_t seed)
      : mix_(std::move(mix)), sizes_(seed, "flow sizes"), times_(seed, "flow times"), every_(every) {
    next_ = every_ != 0 ? gap() : kNever;
  }
  [[nodiscard]] std::int64_t next() const { return next_; }  // ns from the run's start
  [[nodiscard]] bool by_time() const { return every_ != 0; }
  void pass() { next_ += gap(); }
  [[nodiscard]] std::uint64_t draw_size() { return mix_.draw(sizes_); }
  [[nodiscard]] const SizeMix& mix() const { return mix_; }

 private:
  [[nodiscard]] std::int64_t gap() {
    const double uniform = (static_cast<double>(times_.next() >> 11) + 0.5) / 9007199254740992.0;  // in (0, 1)
    return static_cast<std::int64_t>(-std::log(uniform) * static_cast<double>(every_)) + 1;
  }
  SizeMix mix_;
  Random sizes_, times_;
  std::int64_t every_, next_;
};

}  // namespace brdma::perf
