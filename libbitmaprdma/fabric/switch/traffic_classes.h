// fabric/switch/traffic_classes.h - scheduling of a port's packets: up to eight classes of traffic, chosen by DSCP (the
// last is the default). Strict classes first, in their order; the others share the rest by weight (deficit round robin:
// Shreedhar and Varghese 1995), in bytes, for any packet sizes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace brdma::fabric {

inline constexpr std::size_t kClassesMax = 8;
inline constexpr std::uint32_t kClassWeightMax = 64;

struct TrafficClasses {
  std::uint32_t count = 1;
  std::array<std::uint32_t, kClassesMax> weights{1, 1, 1, 1, 1, 1, 1, 1};  // 0: strict
  std::array<std::uint8_t, 64> of_dscp = all_in_the_last();
  [[nodiscard]] std::uint8_t class_of(std::uint8_t dscp) const {
    return static_cast<std::uint8_t>(std::min<std::uint32_t>(of_dscp[dscp & 63], count - 1));
  }
  friend bool operator==(const TrafficClasses&, const TrafficClasses&) = default;

  static constexpr std::uint8_t kLast = 0xFF;
  [[nodiscard]] static constexpr std::array<std::uint8_t, 64> all_in_the_last() {
    std::array<std::uint8_t, 64> classes{};
    for (auto& each : classes) each = kLast;
    return classes;
  }
};

class ClassScheduler {
 public:
  // Quantum of a class of weight 1 a round: near the longest packet, so that few rounds find one.
  static constexpr std::uint32_t kQuantum = 4096;

  void configure(const TrafficClasses& classes) {
    classes_ = classes;
    left_ = {};
    turn_ = 0;
    begun_ = false;
  }

  // The class whose oldest packet leaves; `heads`: those packets' sizes, 0: none waits. At least one waits.
  [[nodiscard]] std::size_t next(const std::array<std::uint32_t, kClassesMax>& heads) {
    bool any = false;
    for (std::size_t i = 0; i < classes_.count; ++i) {
      if (heads[i] == 0) continue;
      if (classes_.weights[i] == 0) return i;
      any = true;
    }
    BRDMA_CHECK(any);
    while (!affords(heads[turn_])) {  // each round gives every class that waits a quantum: it ends
      turn_ = (turn_ + 1) % classes_.count;
      begun_ = false;
    }
    left_[turn_] -= heads[turn_];
    return turn_;
  }

 private:
  // The current class, with its quantum of this round, may send a packet of `head` bytes; 0: it has none.
  [[nodiscard]] bool affords(std::uint32_t head) {
    if (head == 0 || classes_.weights[turn_] == 0) {
      left_[turn_] = 0;  // an empty class saves no deficit
      return false;
    }
    if (!begun_) left_[turn_] += classes_.weights[turn_] * kQuantum;
    begun_ = true;
    return left_[turn_] >= head;
  }

  TrafficClasses classes_;
  std::array<std::uint64_t, kClassesMax> left_{};  // deficit: bytes that a class may still send
  std::size_t turn_ = 0;
  bool begun_ = false;  // the current class has got its quantum
};

}  // namespace brdma::fabric
