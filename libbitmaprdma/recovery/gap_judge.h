// recovery/gap_judge.h - is a gap reordering or loss? (design BR-11 to BR-20)  Pure: the caller acts on
// the verdict, or judges again at the instant that it names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/units.h"

namespace brdma::recovery {

// Why a gap counts as loss; the values travel in the FFM (docs/reference/wire.md).
enum class LossCause : std::uint8_t { kDepth = 1, kAge = 2, kStall = 3, kSamePath = 4, kImmediate = 5, kRequested = 6 };
[[nodiscard]] std::string_view name(LossCause cause);

// Reference values of design BR-16. A gap is loss when it exceeds one of them; at the limit it still waits.
struct GapLimits {
  std::uint32_t depth_max = 8;
  Duration age_max = 50_us;
  Duration stall_max = 80_us;
  std::uint32_t stall_packets = 0;  // the window's stall in packets; 0: in time alone
  friend bool operator==(const GapLimits&, const GapLimits&) = default;
};

struct GapFacts {
  std::uint32_t depth = 0;        // highest PSN received minus the gap's start PSN
  bool same_path_passed = false;  // only with several paths: a later packet of the gap's own path has arrived
  Instant first_seen;
  Instant base_stuck_since;
  std::uint32_t later_packets = 0;  // received since then beyond the gap at the base
};

// Begin of a stall: the base last moved at `base_moved`, and the first gap was seen at `first_seen`. A base that stood
// before that counts too, because an overtaken packet should have come then. It counts for at most `before_max`, since
// the sender may have sent nothing.
[[nodiscard]] constexpr Instant stall_begin(Instant base_moved, Instant first_seen, Duration before_max) {
  return std::max(base_moved, first_seen - before_max);
}

struct Lost {
  LossCause cause;
  friend bool operator==(Lost, Lost) = default;
};
struct WaitUntil {
  Instant retry_at;  // > now: the first instant at which time alone changes the answer; else a timer would spin
  friend bool operator==(WaitUntil, WaitUntil) = default;
};
using GapVerdict = std::variant<Lost, WaitUntil>;

[[nodiscard]] GapVerdict judge(const GapFacts& gap, const GapLimits& limits, Instant now);

}  // namespace brdma::recovery
