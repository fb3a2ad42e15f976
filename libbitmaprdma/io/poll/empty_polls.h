// io/poll/empty_polls.h - a program's empty polls in a row: after many it should yield its core now and then, because
// the peer's process may be waiting for one. Pure.
#pragma once

#include <cstdint>

namespace brdma::io {

class EmptyPolls {
 public:
  // `looks`: number of checks in the poll.
  void on_poll(unsigned looks) {
    const std::uint64_t before = looks_;
    looks_ += looks;
    yield_due_ = looks_ >= kBeforeYield && before / kPerYield != looks_ / kPerYield;
  }
  void reset() {
    looks_ = 0;
    yield_due_ = false;
  }
  // Polls have been empty for some 100 us.
  [[nodiscard]] bool should_yield() const { return yield_due_; }
  [[nodiscard]] bool many() const { return looks_ >= kBeforeYield; }  // likewise

 private:
  static constexpr std::uint64_t kBeforeYield = 256, kPerYield = 16;  // looks
  std::uint64_t looks_ = 0;
  bool yield_due_ = false;
};

}  // namespace brdma::io
