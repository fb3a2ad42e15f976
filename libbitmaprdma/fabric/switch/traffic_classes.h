// fabric/switch/traffic_classes.h - which packet of a port leaves next: up to eight classes of traffic, chosen by DSCP
// (what is not named takes the last). Strict classes first, in their order; the others share what those leave by their
// weights (deficit round robin: Shreedhar and Varghese 1995), in bytes, whatever the packets' sizes.
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
  // What a class of weight 1 may send in a round: near the longest packet, so that few rounds find one.
  static constexpr std::uint32_t kQuantum = 4096;

  void configure(const TrafficClasses& classes) {
    classes_ = classes;
    left_ = {};
    turn_ = 0;
    begun_ = false;
  }

  // The class whose oldest packet leaves; `heads`: those packets' sizes, 0 where none waits. At least one does.
  [[nodiscard]] std::size_t next(const std::array<std::uint32_t, kClassesMax>& heads) {
    bool any = false;
    for (std::size_t i = 0; i < classes_.count; ++i) {
      if (heads[i] == 0) continue;
      if (classes_.weights[i] == 0) return i;
      any = true;
    }
    BRDMA_CHECK(any);
    for (;;) {  // each round gives every class that waits a quantum: it ends
      if (heads[turn_] == 0 || classes_.weights[turn_] == 0) {
        left_[turn_] = 0;  // who has nothing to send saves nothing up
      } else {
        if (!begun_) left_[turn_] += classes_.weights[turn_] * kQuantum;
        begun_ = true;
        if (left_[turn_] >= heads[turn_]) {
          left_[turn_] -= heads[turn_];
          return turn_;
        }
      }
      turn_ = (turn_ + 1) % classes_.count;
      begun_ = false;
    }
  }

 private:
  TrafficClasses classes_;
  std::array<std::uint64_t, kClassesMax> left_{};  // bytes that a class may still send: its deficit
  std::size_t turn_ = 0;
  bool begun_ = false;  // the class whose turn it is has got its quantum
};

}  // namespace brdma::fabric
