// models/tcp/scoreboard.h - the segments that are outstanding, and `pipe`, the bytes estimated to be in the network.
// Source: RFC 6675 sections 3 and 4, on segments of one size (the flow's last may be shorter). Segment i is the bytes
// [i * SMSS, (i + 1) * SMSS).
//   in flight --sacked--> sacked;  in flight --lost--> lost --resent--> in flight (resent)
//   pipe: each copy of a segment that is neither acknowledged, SACKed nor lost. A segment that is sent again without
//   being lost (rule 3 of NextSeg) counts twice.
//   lost by SACK: 3 SACKed segments are above it. (More than 2 SMSS of SACKed bytes are 3 segments here.)
// Segments also stand in the order of their last transmission, for RACK. All steps cost O(1) amortised.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "models/model.h"

namespace brdma::models::tcp {

using SegmentIndex = std::uint64_t;
inline constexpr SegmentIndex kNoSegment = ~SegmentIndex{0};

struct Segment {
  Instant sent_at;                    // the last copy
  SegmentIndex earlier = kNoSegment;  // neighbours in order of transmission, while in flight
  SegmentIndex later = kNoSegment;
  std::uint8_t copies = 0;  // counted in pipe
  bool sacked = false;
  bool lost = false;               // and not yet sent again
  bool resent = false;             // at least once
  bool resent_since_mark = false;  // above HighRxt no longer: sent again in this recovery
  Cause cause = Cause::kFeedback;  // of the last `lost`
};

// A segment that an ACK or SACK just acknowledged.
struct Delivered {
  SegmentIndex index;
  Instant sent_at;
  bool resent;
};

class Scoreboard {
 public:
  static constexpr std::size_t kDupThresh = 3;

  explicit Scoreboard(std::uint32_t segment_bytes) : segment_bytes_(segment_bytes) {}
  void start(std::uint64_t bytes) { bytes_ = bytes; }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }  // of the flow
  [[nodiscard]] std::uint64_t una_bytes() const { return begin_of(base_); }
  [[nodiscard]] std::uint64_t next_bytes() const { return begin_of(next()); }
  [[nodiscard]] std::uint64_t flight() const { return next_bytes() - una_bytes(); }
  [[nodiscard]] std::uint64_t pipe() const { return pipe_; }
  [[nodiscard]] SegmentIndex una() const { return base_; }
  [[nodiscard]] SegmentIndex next() const { return base_ + segments_.size(); }
  [[nodiscard]] bool outstanding() const { return !segments_.empty(); }
  [[nodiscard]] bool has_new() const { return next_bytes() < bytes_; }
  [[nodiscard]] bool all_acknowledged() const { return una_bytes() == bytes_; }
  [[nodiscard]] std::size_t sacked() const { return sacked_; }
  [[nodiscard]] std::uint64_t begin_of(SegmentIndex index) const {
    return std::min<std::uint64_t>(index * segment_bytes_, bytes_);
  }
  [[nodiscard]] std::uint32_t size_of(SegmentIndex index) const {
    return static_cast<std::uint32_t>(begin_of(index + 1) - begin_of(index));
  }
  [[nodiscard]] const Segment& at(SegmentIndex index) const { return segments_[index - base_]; }

  // NextSeg, rule 1: the first lost segment.
  [[nodiscard]] std::optional<SegmentIndex> first_lost() const;
  // Rule 3: the first segment in flight below the highest SACKed one, that this recovery has not sent again.
  [[nodiscard]] std::optional<SegmentIndex> first_doubtful() const;
  // For a probe: the highest that is in flight.
  [[nodiscard]] std::optional<SegmentIndex> last_in_flight() const;
  // In order of transmission, for RACK.
  [[nodiscard]] SegmentIndex earliest_sent() const { return earliest_; }

  void send_new(Instant now);
  void send_again(SegmentIndex index, Instant now);
  // Segments that `frame` (an ACK) acknowledges for the first time; valid until the next call.
  const std::vector<Delivered>& acknowledge(const Frame& frame);
  // False if it is not in flight.
  bool mark_lost(SegmentIndex index, Cause cause);
  // True if any became lost: those with 3 SACKed segments above, once each recovery.
  bool mark_lost_by_sack();
  void mark_all_lost(Cause cause);
  // A recovery begins: HighRxt is at `una`.
  void begin_recovery();

 private:
  Segment& segment(SegmentIndex index) { return segments_[index - base_]; }
  void deliver(SegmentIndex index);
  void note_sacked(SegmentIndex index);
  void append_sent(SegmentIndex index, Instant now);
  void remove_sent(SegmentIndex index);

  std::uint64_t segment_bytes_;
  std::uint64_t bytes_ = 0;
  std::deque<Segment> segments_;
  SegmentIndex base_ = 0;
  std::uint64_t pipe_ = 0;
  std::size_t sacked_ = 0;
  std::size_t lost_ = 0;
  mutable SegmentIndex lost_from_ = 0;              // no segment below is lost
  SegmentIndex marked_below_ = 0;                   // mark_lost_by_sack has looked at all below
  std::array<SegmentIndex, kDupThresh> highest_{};  // SACKed: index + 1, highest first; 0: none
  SegmentIndex earliest_ = kNoSegment;
  SegmentIndex latest_ = kNoSegment;
  std::vector<Delivered> delivered_;
};

}  // namespace brdma::models::tcp
