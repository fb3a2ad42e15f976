// qp/paths/paths_receive.h - a receiver's state of its peer's paths (design BR-29): a path bitmap and a tolerance
// for each, and the limits for gaps that may be only the difference between paths.
//
// The receiver cannot see which path a missing packet took. Two kinds of evidence show that its own path has moved on:
//   named     the next packet on its path names in BXTH the PSNs sent there before it (docs/reference/wire.md); the
//   gap's record
//             then knows its path
//   all       every path in use has delivered a packet beyond the gap, so its own has, whichever that is
// Moved on by more than the packets that overtake each other within that path (learnt, at first none): lost. Without
// evidence a gap is the paths' difference: it waits, up to the time limits for that.
//
// Made for the first packet of a peer that sends on several paths; no such peer, no memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/config.h"
#include "base/psn.h"
#include "bitmap/gap_table.h"
#include "bitmap/path_bitmap.h"
#include "qp/paths/path_status.h"
#include "recovery/tolerance.h"
#include "wire/headers.h"

namespace brdma::qp {

class ReceivePaths {
 public:
  // `count`: distinguished paths, 2..kPathsMax. A packet of another one counts in the global bitmap alone.
  ReceivePaths(const RecoveryConfig& config, std::uint32_t count, bitmap::SegmentPool& pool, Instant now);

  void configure(const RecoveryConfig& config);  // applies changed settings
  // A packet came, early or not.
  void on_packet(std::uint8_t path, Instant now);
  // [first, first + count) came early and is marked in the global bitmap.
  void received(std::uint8_t path, Psn base, Psn first, std::uint32_t count);
  // The base passes [base, base + count).
  void forget(Psn base, std::uint32_t count);
  void clear();  // no packet is early any more

  // Splits off the parts of gaps that the header names as sent before it on its own path: records that know their path.
  // True: there are some, or one of this path waits already; then the gaps are to be judged.
  bool attribute(const wire::Bxth& header, Psn psn, bitmap::GapTable& gaps);
  // The path that is furthest behind has come beyond `gap`: all paths may have passed it.
  [[nodiscard]] bool laggard_passed(std::uint8_t path, const bitmap::GapRecord& gap, Instant now);

  [[nodiscard]] bool passed(const bitmap::GapRecord& gap, Instant now) const;
  // All paths in use are in `paths` (bit k: path k).
  [[nodiscard]] bool all_among(std::uint32_t paths, Instant now) const;
  [[nodiscard]] const recovery::GapLimits& limits() const { return across_.limits(); }
  [[nodiscard]] recovery::GapLimits limits_at(Instant now) const { return across_.limits_at(now); }
  void elapse(Instant now) { across_.elapse(now); }
  // An original came `late` after its gap was seen; `repair`: as in Tolerance. True: a limit has risen.
  bool came_late(std::uint8_t path, Psn psn, Duration late, Instant now, Duration repair = {});

  // A packet requested at `asked`, once, came by itself. When its retransmission comes as well, that measures the
  // recovery time: on paths so far apart that all retransmissions are unnecessary nothing else would.
  void expect_repetition(Psn psn, Instant asked);
  [[nodiscard]] std::optional<Duration> repetition_came(Psn psn, Instant now);

  [[nodiscard]] std::size_t count() const { return paths_.size(); }
  [[nodiscard]] std::vector<PathReceived> report(Instant now) const;
  [[nodiscard]] std::size_t allocated_bytes() const;

 private:
  struct Path {
    Path(const recovery::ToleranceConfig& config, const bitmap::WindowShape& shape, bitmap::SegmentPool& pool)
        : bitmap(shape, pool), within(config) {}
    bitmap::PathBitmap bitmap;
    recovery::Tolerance within;  // depth limit: packets of the path that may overtake another of it
    Instant last_arrival;
    std::uint64_t packets = 0;  // received on it
  };
  [[nodiscard]] bool in_use(const Path& path, Instant now) const;
  [[nodiscard]] static bool has_passed(const Path& path, Psn last) {
    const std::uint32_t within = path.within.limits().depth_max;
    return path.bitmap.beyond(last, within + 1) > within;
  }

  std::vector<Path> paths_;
  recovery::Tolerance across_;  // time limits: delay of one path against another
  std::uint32_t awaited_ = 0;   // bit k: a gap of path k was waiting at the last attribute()
  bool strangers_ = false;      // packets of paths beyond the limit came: "all paths" cannot be known
  struct Expected {
    Psn psn;
    Instant asked;
  };
  std::optional<Expected> repetition_;
  Instant busy_since_, last_arrival_;  // of all paths: since when packets come without a long pause
};

}  // namespace brdma::qp
