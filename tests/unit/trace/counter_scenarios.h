// tests/unit/trace/counter_scenarios.h - small worlds in virtual time, with everything that each of them makes two
// engines count: every counter and drop reason that moves, by its exact value. So a counter that moves where it should
// not fails the test too.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "support/two_engines.h"

namespace brdma::test {

// Counts of both sides since this was made: "0: sent_pkts=4 ...
// 1: ...
// ", in the order of the list.
class Counted {
 public:
  explicit Counted(const TwoEngines& pair) : pair_(pair), before_{pair.side[0].statistics, pair.side[1].statistics} {}
  [[nodiscard]] std::string text() const {
    std::string all;
    for (int side = 0; side < 2; ++side) {
      const Statistics& now = pair_.side[side].statistics;
      const Statistics& before = before_[static_cast<std::size_t>(side)];
      all += std::to_string(side) + ":";
      for (std::size_t i = 0; i < kCounterCount; ++i) add(all, kCounterNames[i], now.counters[i] - before.counters[i]);
      for (std::size_t i = 0; i < kDropReasonCount; ++i) add(all, kDropReasonNames[i], now.drops[i] - before.drops[i]);
      all += "\n";
    }
    return all;
  }

 private:
  static void add(std::string& all, std::string_view name, std::uint64_t moved) {
    if (moved != 0) all.append(" ").append(name).append("=").append(std::to_string(moved));
  }
  const TwoEngines& pair_;
  std::array<Statistics, 2> before_;
};

struct CounterScenario {
  std::string_view name;
  std::string (*run)();       // Counted::text()
  std::string_view expected;  // of it
};
[[nodiscard]] std::span<const CounterScenario> counter_scenarios();

}  // namespace brdma::test
