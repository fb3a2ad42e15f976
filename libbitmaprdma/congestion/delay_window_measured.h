// congestion/delay_window_measured.h - private to the delay window: state measured by acknowledgements, and the rule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "congestion/base_round_trip.h"
#include "congestion/delay_window.h"
#include "congestion/queue_loss.h"

namespace brdma::congestion {

class DelayWindow::Measured {
 public:
  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  [[nodiscard]] std::uint64_t best_rate() const;
  [[nodiscard]] bool starting() const { return phase_ == Phase::kStart; }
  // As in DelayWindow.
  void on_acknowledgement(std::uint64_t acked_bytes, const RoundTrip& trip, bool limited, Instant now);
  void shift_base(Duration by);
  void on_timeout();
  void on_drops(const DelayWindow::Drops& drops, Instant now);
  void on_loss(std::uint64_t bytes, std::uint32_t packet_bytes, Instant now);
  void on_interruption() { round_interrupted_ = true; }
  void set_spread(bool spread) { spread_ = spread; }
  [[nodiscard]] std::uint64_t throughput() const { return throughput_; }
  [[nodiscard]] Duration base_rtt() const { return base_.value(); }
  [[nodiscard]] Duration time_for(std::uint64_t bytes) const;
  [[nodiscard]] Duration queueing() const;
  [[nodiscard]] Duration queue() const { return queue_; }
  [[nodiscard]] std::uint64_t bridge_bytes(Instant now) const;
  [[nodiscard]] std::optional<Instant> next_bridge(std::uint64_t bridged) const;

 private:
  enum class Phase : std::uint8_t {
    kStart,     // doubles until a queue forms
    kSteady,    // follows the rule above
    kDraining,  // one round, to half the path's content
    kRefilling  // back to the window; these rounds say nothing of the path
  };
  // A queue that overflows.
  struct FullQueue {
    std::uint64_t held = 0;        // the window it had no room for; 0: none is known
    std::uint64_t most = 0;        // limit tried now
    std::uint64_t first = 0;       // the first of several windows that were cut in a row
    std::uint64_t first_rate = 0;  // that it delivered
    std::uint64_t rate = 0;        // that `held` did
    Duration queue{};              // that `first` met
    Phase phase = Phase::kSteady;
    Instant since{};         // when it was cut
    bool reported = false;   // by a switch
    std::uint64_t lost = 0;  // of that window
    int rounds = 0;          // without a loss
    int steps = 0;           // of growth
    bool dropped = false;    // in the round in progress
  };
  void begin_round(Instant now, Duration rtt);
  void end_round(Instant now, Duration rtt);
  void note_silence(bool limited, Instant now);
  void measure_rate(Instant now, Duration rtt);
  void adapt();
  [[nodiscard]] std::uint64_t beyond(std::uint64_t next, Duration wished);
  [[nodiscard]] std::uint64_t grown() const;
  [[nodiscard]] bool arrives() const;
  void drain();
  void end_drain(Instant now);
  bool judge_drain(Instant now);
  [[nodiscard]] bool is_refilled() const;
  // Bytes in flight at that delivered rate over that time on the path, hosts excluded.
  [[nodiscard]] std::uint64_t content(std::uint64_t rate, Duration on_the_way) const;
  void begin_cut(WindowAtSend window, Instant now);
  void apply_cut();
  [[nodiscard]] WindowAtSend window_at_send(Instant now) const;
  [[nodiscard]] bool was_random_loss() const;
  void undo_cut();
  void forget_queue();
  [[nodiscard]] std::uint64_t below_full_queue(std::uint64_t next);
  void forget_room(Instant now);
  [[nodiscard]] std::uint64_t additive() const;
  [[nodiscard]] Duration target() const;  // queueing, while no host loses its core
  [[nodiscard]] bool is_long_path() const;
  [[nodiscard]] Duration start_queueing() const;

  std::uint64_t window_ = DelayWindowConfig{}.initial_bytes;  // as the rule in the header gives it
  // Allowed now: at most window_, follows it upwards as acknowledgements come.
  std::uint64_t limit_ = DelayWindowConfig{}.initial_bytes;
  Phase phase_ = Phase::kStart;
  BaseRoundTrip base_;
  std::uint64_t drained_ = 0;  // allowed at the end of a drain
  bool gently_ = false;        // drains to half the rate, not to silence
  int refills_ = 0;            // rounds since
  std::uint64_t adapted_ = 0;  // the window that a drain confirms if it finds a queue
  bool spread_ = false;
  // The round in progress: from an acknowledgement to the first one for a packet sent after it.
  bool round_begun_ = false;
  Instant round_start_{};
  Duration round_rtt_{};     // smallest on the path
  Duration round_waited_{};  // in the hosts: least
  std::uint64_t round_bytes_ = 0;
  std::uint64_t round_flight_ = 0;    // allowed when the round began: its maximum delivery without loss
  std::uint64_t round_withheld_ = 0;  // acknowledged since growth is withheld because a queue forms
  bool round_limited_ = false;
  bool round_interrupted_ = false;
  bool round_lost_before_ = false;  // the last full round delivered less than it could
  bool round_dropped_ = false;      // a switch had no room for some of it
  std::uint64_t floor_ = DelayWindowConfig{}.min_bytes;
  Instant round_sent_;                    // send time of the packet whose acknowledgement began the round
  Duration round_silence_{};              // longest
  std::uint64_t rate_ = 0;                // delivered, bytes a second
  std::array<std::uint64_t, 8> rates_{};  // of the last rounds
  std::size_t rates_next_ = 0;
  std::uint64_t throughput_ = 0;  // of any round
  Duration rtt_{};                // of the last acknowledgement
  Duration queue_{}, lately_{};   // on the path, smoothed by eighths: beyond the base at that time, and in full
  Instant acknowledged_;          // last time
  Duration silence_{};            // the longest recent one, halved every kSilenceHalfLife
  Instant silence_at_;
  Duration room_{};  // time a full queue took to drain, doubled every room_doubles since; 0: never reported
  Instant room_at_;
  QueueLoss queue_loss_;
  FullQueue full_;
};

}  // namespace brdma::congestion
