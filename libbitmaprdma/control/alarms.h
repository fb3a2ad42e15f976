// control/alarms.h - operator alarms: thresholds on a process's counters, raised and cleared with hysteresis. Pure: the
// caller passes the statistics page and the time; the last values are kept.
//
//   retransmissions  retransmitted packets, percent of the data packets sent since the last call (of 100 or more)
//   queue_pairs      percent of recovery.qps_max
//   state            percent of recovery.device_state_bytes_max
//   stall            seconds for which some queue pair has stood still (stalls_begun and not ended)
// Raised above the threshold, cleared at three quarters of it or below; a stall, when it has ended. A threshold of 0
// switches its alarm off.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "trace/counters.h"

namespace brdma::control {

// X(enumerator, name, setting)
#define BRDMA_ALARMS(X)                                        \
  X(kRetransmissions, retransmissions, retransmission_percent) \
  X(kQueuePairs, queue_pairs, queue_pairs_percent)             \
  X(kState, state, state_percent)                              \
  X(kStall, stall, stall_seconds)

enum class Alarm : std::uint8_t {
#define BRDMA_X(name, text, setting) name,
  BRDMA_ALARMS(BRDMA_X)
#undef BRDMA_X
};
inline constexpr std::string_view kAlarmNames[] = {
#define BRDMA_X(name, text, setting) #text,
    BRDMA_ALARMS(BRDMA_X)
#undef BRDMA_X
};
inline constexpr std::size_t kAlarmCount = sizeof(kAlarmNames) / sizeof(kAlarmNames[0]);

struct AlarmThresholds {
  std::uint32_t retransmission_percent = 10;
  std::uint32_t queue_pairs_percent = 90;
  std::uint32_t state_percent = 90;
  std::uint32_t stall_seconds = 2;
  [[nodiscard]] std::uint32_t of(Alarm alarm) const;
};

struct AlarmFacts {
  Statistics statistics;
  std::uint64_t queue_pairs = 0, queue_pairs_max = 0, state_bytes = 0, state_bytes_max = 0;
};

struct AlarmChange {
  Alarm alarm;
  bool raised;  // else cleared
  std::uint64_t value, threshold;
};

// Of one process.
class AlarmBook {
 public:
  [[nodiscard]] std::vector<AlarmChange> evaluate(const AlarmFacts& facts, const AlarmThresholds& thresholds,
                                                  Instant now);
  [[nodiscard]] bool raised(Alarm alarm) const { return raised_[static_cast<std::size_t>(alarm)]; }
  [[nodiscard]] std::uint64_t value(Alarm alarm) const { return values_[static_cast<std::size_t>(alarm)]; }

 private:
  [[nodiscard]] std::uint64_t measure(Alarm alarm, const AlarmFacts& facts, Instant now);

  std::array<bool, kAlarmCount> raised_{};
  std::array<std::uint64_t, kAlarmCount> values_{};
  Statistics before_;
  std::optional<Instant> stalled_since_;
};

}  // namespace brdma::control
