// io/shard/spin_permits.h - limits how many of a device's progress threads poll their sockets in a loop at a time. A
// thread takes a permit before spinning, and returns it before it sleeps. Any thread may call.
#pragma once

#include <algorithm>
#include <atomic>

namespace brdma::io {

// Half of the available cores: threads spin while their program sleeps or computes, and computing needs cores as well.
[[nodiscard]] constexpr unsigned spinning_max(unsigned cores) { return std::max(cores / 2, 1u); }

class SpinPermits {
 public:
  explicit SpinPermits(unsigned most) : left_(most) {}

  [[nodiscard]] bool take() {
    unsigned left = left_.load(std::memory_order_relaxed);
    while (left > 0) {
      if (left_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  void give_back() { left_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::atomic<unsigned> left_;
};

}  // namespace brdma::io
