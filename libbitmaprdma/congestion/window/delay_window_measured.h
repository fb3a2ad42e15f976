// congestion/window/delay_window_measured.h - private to the delay window: state measured by acknowledgements, and the
// rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "congestion/delay_window.h"
#include "congestion/window/additive.h"
#include "congestion/window/base_round_trip.h"
#include "congestion/window/crowding.h"
#include "congestion/window/delivered_rate.h"
#include "congestion/window/full_queue.h"
#include "congestion/window/host_silence.h"
#include "congestion/window/loss_by_queue.h"
#include "congestion/window/queue_loss.h"
#include "congestion/window/window_round.h"

namespace brdma::congestion {

class DelayWindow::Measured {
 public:
  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  [[nodiscard]] const DeliveredRate& rate() const { return rate_; }
  [[nodiscard]] bool is_paced() const { return crowding_.is_paced(limit_); }
  [[nodiscard]] bool starting() const { return phase_ == Phase::kStart; }
  // As in DelayWindow.
  void on_acknowledgement(std::uint64_t acked_bytes, const RoundTrip& trip, bool limited, Instant now);
  void shift_base(Duration by);
  void on_timeout();
  void on_drops(const DelayWindow::Drops& drops, Instant now);
  void on_loss(std::uint64_t bytes, std::uint32_t packet_bytes, Instant now);
  void on_interruption() { round_.interrupted = true; }
  void set_spread(bool spread) { spread_ = spread; }
  [[nodiscard]] Duration base_rtt() const { return base_.value(); }
  [[nodiscard]] Duration latest_rtt() const { return delay_.rtt; }
  [[nodiscard]] Duration queueing() const;
  [[nodiscard]] Duration queue() const { return delay_.queue; }
  // One of many flows behind a full queue cannot distinguish a silence from a loss.
  [[nodiscard]] std::uint64_t bridge_bytes(Instant now) const {
    return crowding_.may_bridge() ? silence_.bridge_bytes(rate_, delay_.rtt, now) : 0;
  }
  [[nodiscard]] std::optional<Instant> next_bridge(std::uint64_t bridged) const {
    if (!crowding_.may_bridge()) return std::nullopt;
    return silence_.next_bridge(rate_, delay_.rtt, bridged);
  }

 private:
  enum class Phase : std::uint8_t {
    kStart,     // doubles until a queue forms
    kSteady,    // follows the rule above
    kDraining,  // a round or more, to half the path's content or less
    kRefilling  // back to the window; these rounds say nothing of the path
  };
  // Of the last acknowledgements.
  struct Delay {
    Duration rtt{};              // of the last one
    Duration queue{}, lately{};  // on the path, smoothed by eighths: beyond the base at that time, and in full
    Duration met{};              // queue, in the last round in which the window adapted
    void note(const RoundTrip& trip, Duration base);
  };
  struct Rooms {
    Room reported;  // by a switch
    Room learned;   // from losses
  };
  struct Losses {
    QueueLoss verdict;
    LossByQueue by_queue;  // of a crowded flow
  };
  struct Drain {
    std::uint64_t allowed = 0;  // at its end
    bool gently = false;        // to half the rate, without silence
    int refills = 0;            // rounds since
    Duration base{};            // before the round in progress
    Instant until;              // it lasts so long, if a queue stands
    std::uint64_t adapted = 0;  // the window that it confirms if it finds a queue
  };
  void begin_round(Instant now);
  void end_round(Instant now);
  void end_ordinary_round(Instant now);
  void adapt();
  [[nodiscard]] Duration queue_met() const;
  [[nodiscard]] std::uint64_t beyond(std::uint64_t next, Duration wished);
  [[nodiscard]] std::uint64_t grown() const;
  [[nodiscard]] bool arrives() const { return spread_ && round_.delivered(); }
  void drain();
  [[nodiscard]] bool goes_on_draining(Instant now);
  void end_drain(Instant now);
  bool judge_drain(Instant now);
  [[nodiscard]] bool is_refilled() const;
  // Bytes in flight at that delivered rate over that time on the path, hosts excluded.
  [[nodiscard]] std::uint64_t content(std::uint64_t rate, Duration on_the_way) const;
  [[nodiscard]] WindowSample sample() const {
    return {.window = window_, .rate = rate_.latest(), .queue = delay_.queue, .starting = starting()};
  }
  void apply_cut();
  void undo_cut();
  void on_loss_in_crowd(std::uint64_t bytes, std::uint32_t packet_bytes, Instant now);
  void end_crowd();
  void forget_queue();
  [[nodiscard]] Duration target() const;  // queueing, while no host loses its core
  [[nodiscard]] bool is_long_path() const;
  [[nodiscard]] Duration start_queueing() const;

  std::uint64_t window_ = DelayWindowConfig{}.initial_bytes;  // as the rule in the header gives it
  // Allowed now: at most window_, follows it upwards as acknowledgements come.
  std::uint64_t limit_ = DelayWindowConfig{}.initial_bytes;
  Phase phase_ = Phase::kStart;
  bool spread_ = false;
  WindowRound round_;
  BaseRoundTrip base_;
  DeliveredRate rate_;
  Delay delay_;
  HostSilence silence_;
  Drain drain_;
  Additive additive_;
  Rooms rooms_;
  Crowding crowding_;
  Losses losses_;
  FullQueue full_;
};

}  // namespace brdma::congestion
