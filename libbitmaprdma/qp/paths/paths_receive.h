// qp/paths/paths_receive.h - what a receiver knows of the paths that its peer sends on (spec 1: multipath): a path
// bitmap and a tolerance for each, and the limits for gaps that may be nothing but the difference between paths.
//
// The receiver cannot see which path a missing packet took. Two kinds of evidence say that its own path has moved on:
//   named     the packet behind it on its path says by BXTH which PSNs were sent there before it (docs/wire.md); the
//             gap's record then knows its path
//   all       every path in use has delivered something beyond the gap, so its own has, whichever that is
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
  // `count`: paths told apart, 2..kPathsMax. A packet of another one counts in the global bitmap alone.
  ReceivePaths(const RecoveryConfig& config, std::uint32_t count, bitmap::SegmentPool& pool, Instant now);

  void configure(const RecoveryConfig& config);  // the settings have changed
  // A packet came, early or not.
  void heard(std::uint8_t path, Instant now);
  // [first, first + count) came early and is marked in the global bitmap.
  void received(std::uint8_t path, Psn base, Psn first, std::uint32_t count);
  // The base passes [base, base + count).
  void forget(Psn base, std::uint32_t count);
  void clear();  // no packet is early any more

  // Takes out of the gaps what the header names as sent on its own path before it: records that know their path.
  // True: there are some, or one of this path waits already; then the gaps are to be
  // judged.
  bool attribute(const wire::Bxth& header, Psn psn, bitmap::GapTable& gaps);
  // The path that is furthest behind has come beyond `gap`: it may be that all have passed it.
  [[nodiscard]] bool laggard_passed(std::uint8_t path, const bitmap::GapRecord& gap, Instant now);

  [[nodiscard]] bool passed(const bitmap::GapRecord& gap, Instant now) const;
  // All paths in use are among these (bit k: path k).
  [[nodiscard]] bool all_among(std::uint32_t paths, Instant now) const;
  [[nodiscard]] const recovery::GapLimits& limits() const { return across_.limits(); }
  [[nodiscard]] recovery::GapLimits limits_at(Instant now) const { return across_.limits_at(now); }
  void elapse(Instant now) { across_.elapse(now); }
  // An original came `late` after its gap was seen; `repair`: as Tolerance's. True: a limit has risen.
  bool came_late(std::uint8_t path, Psn psn, Duration late, Instant now, Duration repair = {});

  // What was asked for at `asked`, once, came by itself. When its repetition comes as well, that says how long a repair
  // takes: of paths so far apart that all repairs are for nothing nobody else would say it.
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
    recovery::Tolerance within;  // of its depth: packets of the path that may overtake another of it
    Instant heard_at;
    std::uint64_t packets = 0;  // that came on it
  };
  [[nodiscard]] bool in_use(const Path& path, Instant now) const;
  [[nodiscard]] static bool has_passed(const Path& path, Psn last) {
    const std::uint32_t within = path.within.limits().depth_max;
    return path.bitmap.beyond(last, within + 1) > within;
  }

  std::vector<Path> paths_;
  recovery::Tolerance across_;  // of its times: what one path is slower than another
  std::uint32_t awaited_ = 0;   // bit k: a gap of path k was waiting when attribute() looked last
  bool strangers_ = false;      // packets of paths beyond the limit came: "all paths" cannot be known
  struct Expected {
    Psn psn;
    Instant asked;
  };
  std::optional<Expected> repetition_;
  Instant busy_since_, heard_at_;  // of all paths together: since when packets come without a long pause
};

}  // namespace brdma::qp
