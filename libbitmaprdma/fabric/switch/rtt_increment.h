// fabric/switch/rtt_increment.h - a flow's congestion level by its packets' ECN marks, and the switch's increment of
// its round-trip time (design ER-10, ER-12). Integer counters, no division: feasible in a data plane.
//
//   kTable          of each window of packets, the part that was marked: [0, 0.2) 0 | [0.2, 0.4) D/8 | [0.4, 0.6) D/4 |
//                   [0.6, 0.8) D/2 | [0.8, 1] D. Of 8 packets: 0,1 | 2,3 | 4 | 5,6 | 7,8
//   kFixed          the same windows; D where the table has anything
//   kStepped        level one up with each marked packet (at most `levels`), one down with each other; f(level) * D
//   kProbabilistic  the same levels; max(Pmax, f(level)) * D, 0 at level 0
// f is linear from 1 % at level 1 to 100 % at the highest. D: the longest that the queue can delay a packet.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::fabric {

enum class IncrementRule : std::uint8_t { kTable, kFixed, kStepped, kProbabilistic };

struct IncrementConfig {
  IncrementRule rule = IncrementRule::kTable;
  Duration longest = 2_us;           // D
  std::uint8_t window = 8;           // packets, at least 1; of kTable and kFixed
  std::uint8_t levels = 10;          // N of kStepped and kProbabilistic, at least 2
  std::uint32_t pmax_ppm = 100'000;  // of kProbabilistic: the marking policy's highest probability
  friend bool operator==(const IncrementConfig&, const IncrementConfig&) = default;
};

// A flow's counts under one have the same meaning under the other: they differ in what a level adds, only.
[[nodiscard]] bool count_alike(const IncrementConfig& a, const IncrementConfig& b);

// D of a switch whose ports share a buffer: buffer * 8 / (ports * rate) (design ER-11).
[[nodiscard]] Duration longest_delay(std::uint64_t buffer_bytes, std::uint32_t ports, Bandwidth port_rate);

// Of one flow: 3 bytes.
class MarkCounter {
 public:
  // A forward packet; `marked`: it carries a mark, or the switch itself would mark it.
  void on_packet(bool marked, const IncrementConfig& config);
  [[nodiscard]] std::uint8_t level() const { return level_; }  // 0: not congested
  [[nodiscard]] Duration increment(const IncrementConfig& config) const;

 private:
  std::uint8_t packets_ = 0, marked_ = 0;  // of the current window: P, Pe
  std::uint8_t level_ = 0;                 // Cong_Level
};

}  // namespace brdma::fabric
