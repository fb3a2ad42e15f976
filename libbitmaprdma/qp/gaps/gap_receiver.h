// qp/gaps/gap_receiver.h - the rules of a receiver for gaps (design BR-9 to BR-20), once for both directions: the
// responder applies them to requests, the requester to READ responses. They open and close records, learn from late
// packets, judge, promote and count. How a promoted gap is named (FFM, sequence NAK, READ re-request) is the owner's.
#pragma once

#include <cstdint>
#include <optional>

#include "base/config.h"
#include "bitmap/gap_table.h"
#include "qp/paths/paths_receive.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "recovery/gap_judge.h"
#include "recovery/learnt_tolerance.h"

namespace brdma::qp {

[[nodiscard]] recovery::ToleranceConfig tolerance_config(const RecoveryConfig& config);

// The limits in force, learnt ones included: of several paths (`paths`) or of one.
[[nodiscard]] recovery::GapLimits gap_limits(const ReceivePaths* paths, const recovery::LearntTolerance& tolerance,
                                             const RecoveryConfig& config);
// The same as they will be at `now`, if nothing comes late until then: for display.
[[nodiscard]] recovery::GapLimits gap_limits_at(const ReceivePaths* paths, const recovery::LearntTolerance& tolerance,
                                                const RecoveryConfig& config, Instant now);

// A packet that arrived behind others, as far as its gap is concerned.
struct LateArrival {
  enum class Copy : std::uint8_t { kOriginal, kRetransmitted, kUnknown };  // a standard packet does not state it
  Psn psn;
  Copy copy = Copy::kUnknown;
  bool learns = true;       // false for the second and later PSNs of one packet
  std::uint8_t path = 0;    // that it came on
  std::uint32_t depth = 0;  // PSNs between it and the newest one
  Duration recovery_time;   // a retransmission takes so long; 0: not known
  Instant seen;
};

// A view of its owner's state at one moment; made where it is used, keeps nothing.
class GapReceiver {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    bitmap::GapTable& gaps;
    recovery::LearntTolerance& tolerance;  // of one path
    ReceivePaths* paths;                   // nullptr: packets come on one path
    Psn base;                              // of the window
  };
  explicit GapReceiver(const Parts& parts) : parts_(parts) {}

  [[nodiscard]] recovery::GapLimits limits() const {
    return gap_limits(parts_.paths, parts_.tolerance, *parts_.identity.recovery);
  }

  // `psn` arrived; (before, psn) is missing. `base_moved`: when a stall that this gap causes may have begun.
  void open(Psn before, Psn psn, std::uint8_t path, Instant seen, Instant base_moved, Instant now) const;

  // The record that `arrival` was missing in, as it was before; nothing where it was in none. Counts closed gaps and
  // misjudgements, and learns from packets that were only late.
  struct Filled {
    bool closed = false;     // the record is gone
    bool misjudged = false;  // it counted as lost
    bitmap::GapTable::Filled before;
  };
  std::optional<Filled> fill(const LateArrival& arrival, Instant now) const;

  // What a packet that came on one of several paths states about the paths of missing packets. True: a gap may have
  // been passed on its own path, so all are to be judged. Precondition: several paths.
  bool note_path_evidence(const wire::Bxth& bxth, Psn psn, Instant seen) const;

  // `depth`: packets that came beyond the gap.
  [[nodiscard]] recovery::GapVerdict judge(const bitmap::GapRecord& gap, std::uint32_t depth,
                                           const recovery::GapLimits& limits, Instant seen) const;
  // The gap counts as lost from now on.
  void promote(bitmap::GapRecord& gap, recovery::LossCause cause, Instant now) const;

  // Since when the base stands because of `gap`; nothing where another gap stops it.
  [[nodiscard]] std::optional<Instant> stalls_since(const bitmap::GapRecord& gap) const;

 private:
  [[nodiscard]] Instant stall_begin(Instant base_moved, Instant first_seen) const {
    return recovery::stall_begin(base_moved, first_seen, parts_.identity.recovery->age_max);
  }
  [[nodiscard]] bool is_at_base(Psn start) const { return distance(start, parts_.base) <= 0; }
  void learn(const LateArrival& arrival, const bitmap::GapTable::Filled& filled) const;
  [[nodiscard]] bool beyond_one_path(const LateArrival& arrival, Instant first_seen) const;

  Parts parts_;
};

}  // namespace brdma::qp
