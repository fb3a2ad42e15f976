// models/tcp/rack.h - loss by time: a segment is lost if one that was sent later arrived, and a reordering window has
// passed since. Source: RFC 8985 section 6.
//   lost: sent at or before the newest delivered one, and sent_at + RACK.rtt + window <= now
//   window: mult * min_RTT / 4, at most SRTT; 0 while no reordering was seen and (in recovery or >= 3 SACKed)
//   mult: + 1 per round trip with a DSACK; back to 1 after 16 recoveries without
//   An ACK of a retransmission that came sooner than min_RTT after it, or echoes an earlier copy, is ignored.
// A lost retransmission is found too, unlike by RFC 6675.
#pragma once

#include <optional>

#include "models/tcp/scoreboard.h"

namespace brdma::models::tcp {

class Rack {
 public:
  static constexpr unsigned kPersistMax = 16;  // recoveries

  void on_rtt(Duration rtt) {
    if (!min_rtt_ || rtt < *min_rtt_) min_rtt_ = rtt;
  }
  // Each segment of an ACK, in the order of the sequence.
  void on_delivered(const Delivered& segment, const Frame& frame, Instant now);
  // The ACK reports bytes that arrived twice. A round ends when bytes sent after its first DSACK are acknowledged.
  void on_duplicate(std::uint64_t una_bytes, std::uint64_t next_bytes);
  void on_recovery_end();
  [[nodiscard]] Duration window(bool in_recovery, std::size_t sacked, std::optional<Duration> srtt) const;
  // Marks what is lost at `now`; true if any. Sets deadline() for what may be lost later.
  bool detect(Scoreboard& board, Duration window, Instant now);
  // The RTO expired (section 6.3): the first segment is lost, and those that are late.
  void mark_on_timeout(Scoreboard& board, Duration window, Instant now) const;
  [[nodiscard]] std::optional<Instant> deadline() const { return deadline_; }
  [[nodiscard]] bool reordering_seen() const { return reordering_seen_; }
  [[nodiscard]] unsigned multiplier() const { return multiplier_; }

 private:
  [[nodiscard]] bool is_before_newest(const Segment& segment, SegmentIndex index) const;

  std::optional<Instant> newest_sent_at_;  // of the segment that was sent last of those delivered
  SegmentIndex newest_ = 0;
  Duration rtt_;
  std::optional<Duration> min_rtt_;
  SegmentIndex highest_delivered_ = 0;  // index + 1
  bool reordering_seen_ = false;
  std::optional<std::uint64_t> round_end_;  // of the last DSACK, bytes
  unsigned multiplier_ = 1;
  unsigned persist_ = 0;
  std::optional<Instant> deadline_;
};

}  // namespace brdma::models::tcp
