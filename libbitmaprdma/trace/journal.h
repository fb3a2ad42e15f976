// trace/journal.h - rare events with their times, in a ring of memory that the daemon reads (brdma event), for
// operators to look up afterwards. Unlike a Sink it is always on: do not record events of single packets here. Kinds
// that come with losses are limited to kWithLossesMax in kLimitPeriod, those that come with the load to kWithLoadMax,
// and an operator's commands to kByHandMax. The first two take at most half of the ring until the daemon reads,
// commands three quarters: so commands are recorded whatever is lost meanwhile, and none of them overwrites a rare one.
// Events beyond are counted (events_suppressed), and so are overwritten unread ones (events_overwritten).
//
// One writer, the engine's thread. Readers copy and check again: each record carries its number, which is 0 during a
// write. `read`: number of the last record that the daemon has read, written by it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "trace/counters.h"

namespace brdma::trace {

// Frequency of a kind. Kinds that come with losses, with each change of the load, or with commands are limited.
enum class EventRate : std::uint8_t { kRare, kWithLosses, kWithLoad, kByHand };
inline constexpr std::size_t kEventRateCount = 4;

// X(enumerator, name, names of its values, "" for none; how often)
#define BRDMA_EVENT_TYPES(X)                                                       \
  X(kQpState, qp_state, "from", "to", "", kRare)                                   \
  X(kBitmapAgreed, bitmap_agreed, "peer_window", "", "", kRare)                    \
  X(kGapPromoted, gap_promoted, "psn", "length", "cause", kWithLosses)             \
  X(kMisjudgement, misjudgement, "psn", "", "", kWithLosses)                       \
  X(kFfmSent, ffm_sent, "psn", "gaps", "repeat", kWithLosses)                      \
  X(kFfmReceived, ffm_received, "psn", "gaps", "", kWithLosses)                    \
  X(kStallBegun, stall_begun, "psn", "", "", kRare)                                \
  X(kStallEnded, stall_ended, "psn", "", "", kRare)                                \
  X(kPeerStopped, peer_stopped, "psn", "", "", kRare)                              \
  X(kRetryExceeded, retry_exceeded, "psn", "", "", kRare)                          \
  X(kRnrRetryExceeded, rnr_retry_exceeded, "psn", "", "", kRare)                   \
  X(kLimitReached, limit_reached, "limit", "value", "used", kRare)                 \
  X(kPathDown, path_down, "path", "port", "", kWithLosses)                         \
  X(kPathUp, path_up, "path", "port", "", kWithLosses)                             \
  X(kSettingsChanged, settings_changed, "qp", "", "", kRare)                       \
  X(kRetransmitRequested, retransmit_requested, "psn", "packets", "gaps", kByHand) \
  X(kGapsQueried, gaps_queried, "records", "", "", kByHand)                        \
  X(kDuplicatesQueried, duplicates_queried, "records", "", "", kByHand)            \
  X(kWindowGrown, window_grown, "side", "packets", "", kWithLoad)                  \
  X(kWindowShrunk, window_shrunk, "side", "packets", "", kWithLoad)

enum class EventType : std::uint32_t {
#define BRDMA_X(name, text, a, b, c, rate) name,
  BRDMA_EVENT_TYPES(BRDMA_X)
#undef BRDMA_X
};

struct EventTypeInfo {
  std::string_view name;
  std::array<std::string_view, 3> values;
  EventRate rate;
};
inline constexpr EventTypeInfo kEventTypes[] = {
#define BRDMA_X(name, text, a, b, c, rate) {#text, {a, b, c}, EventRate::rate},
    BRDMA_EVENT_TYPES(BRDMA_X)
#undef BRDMA_X
};
inline constexpr std::size_t kEventTypeCount = sizeof(kEventTypes) / sizeof(kEventTypes[0]);

// Value of kLimitReached.
enum class Limit : std::uint64_t { kQueuePairs, kDeviceState };
// Value of kWindowGrown and kWindowShrunk.
enum class WindowSide : std::uint64_t { kSend, kReceive };

struct EventRecord {
  std::uint64_t number = 0;  // from 1 on; 0: being written
  std::int64_t when_ns = 0;  // of the engine's clock
  std::uint32_t qpn = 0;     // 0: no queue pair
  EventType type{};
  std::array<std::uint64_t, 3> values{};
};

struct EventRing {
  static constexpr std::size_t kRecords = 512;
  std::uint64_t head = 0;  // number of the newest record
  std::uint64_t read = 0;
  std::array<EventRecord, kRecords> records{};
};

class Journal {
 public:
  static constexpr unsigned kWithLossesMax = 64, kWithLoadMax = 2, kByHandMax = 16;
  static constexpr Duration kLimitPeriod = 100_ms;

  // Both outlive it. Another process may read the ring.
  Journal(EventRing& ring, Statistics& statistics) : ring_(ring), statistics_(statistics) {}
  void record(Instant when, std::uint32_t qpn, EventType type, std::array<std::uint64_t, 3> values);

 private:
  [[nodiscard]] bool admits(EventRate rate, Instant when);

  EventRing& ring_;
  Statistics& statistics_;
  Instant period_end_;
  std::array<unsigned, kEventRateCount> in_period_{};  // [rate]
};

// Copies the records after number `read` and advances it. Returns the number of missing ones: overwritten before they
// were read. The ring may be another process's, with any contents.
std::uint64_t read_events(const EventRing& ring, std::uint64_t& read, std::vector<EventRecord>& out);

}  // namespace brdma::trace
