#include "congestion/delay_window.h"

#include <algorithm>
#include <array>
#include <utility>

namespace brdma::congestion {
namespace {

constexpr DelayWindowConfig kConfig;
static_assert(kConfig.min_bytes > 0 && kConfig.min_bytes <= kConfig.initial_bytes);
static_assert(kConfig.initial_bytes <= kConfig.max_bytes);
constexpr Duration kNone{};
constexpr Duration kSilenceHalfLife = Duration::from_ns(1 << 27);  // 134 ms
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

// value * numerator / denominator without overflow; all positive.
std::uint64_t scale(std::uint64_t value, std::uint64_t numerator, std::uint64_t denominator) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 60;
  const auto result = static_cast<unsigned __int128>(value) * numerator / denominator;
  return result > kHuge ? kHuge : static_cast<std::uint64_t>(result);
}
std::uint64_t ns(Duration duration) { return static_cast<std::uint64_t>(duration.ns()); }

// A window smaller than the path is answered once a round trip, all at once; longer than that nothing comes only when
// somebody on the way has no core.
bool is_stall(Duration silence, Duration rtt) { return silence * 4 > rtt * 5; }

Duration smaller(Duration a, Duration b) { return a == kNone || (b != kNone && b < a) ? b : a; }

}  // namespace

class DelayWindow::Measured {
 public:
  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  [[nodiscard]] std::uint64_t best_rate() const;
  [[nodiscard]] bool starting() const { return phase_ == Phase::kStart; }
  // As those of the window.
  void on_acknowledgement(std::uint64_t acked_bytes, const RoundTrip& trip, bool limited, Instant now);
  void shift_base(Duration by);
  void on_timeout();
  void on_drops(const DelayWindow::Drops& drops, Instant now);
  void on_interruption() { round_interrupted_ = true; }
  void set_spread(bool spread) { spread_ = spread; }
  [[nodiscard]] std::uint64_t throughput() const { return throughput_; }
  [[nodiscard]] Duration base_rtt() const;
  [[nodiscard]] Duration time_for(std::uint64_t bytes) const;
  [[nodiscard]] Duration queueing() const;
  [[nodiscard]] Duration queue() const { return queue_; }
  [[nodiscard]] std::uint64_t bridge_bytes(Instant now) const;
  [[nodiscard]] std::optional<Instant> next_bridge(std::uint64_t bridged) const;

 private:
  enum class Phase : std::uint8_t {
    kStart,     // doubles until a queue forms
    kSteady,    // follows the rule above
    kDraining,  // one round at half the path's content
    kRefilling  // back to the window; these rounds say nothing of the path
  };
  void note_rtt(Duration rtt, Instant now);
  void begin_round(Instant now, Duration rtt);
  void end_round(Instant now, Duration rtt);
  void note_silence(bool limited, Instant now);
  void measure_rate(Instant now, Duration rtt);
  void adapt();
  [[nodiscard]] Duration drain_period() const;
  [[nodiscard]] bool drain_is_due(Instant now);
  [[nodiscard]] bool base_is_doubtful(std::uint64_t window_before);
  void judge_base(Instant now);
  void forget_room(Instant now);
  [[nodiscard]] std::uint64_t additive() const {
    return room_ == kNone ? kConfig.additive_bytes : kConfig.additive_bytes_told;
  }
  [[nodiscard]] Duration target() const;  // queueing, where nobody loses his core
  [[nodiscard]] bool is_long_path() const { return base_rtt() > kConfig.target_queueing * kConfig.bursts_from; }
  [[nodiscard]] Duration start_queueing() const;

  std::uint64_t window_ = kConfig.initial_bytes;  // what the rule in the header says
  std::uint64_t limit_ =
      kConfig.initial_bytes;  // what is allowed now: at most window_, follows it upwards as acknowledgements come
  Phase phase_ = Phase::kStart;
  Duration base_before_{}, base_now_{};  // smallest RTT of the last whole period and of this one; 0: none
  Instant base_period_start_{};
  std::int64_t drain_number_ = -1;  // of the period in which the last drain was
  Duration doubted_{};     // round trip before the drain, where it was longer than base and target; 0: it was not
  int rounds_beyond_ = 0;  // full ones in a row whose round trips all lay far beyond the target; see base_is_doubtful()
  std::uint64_t undoubted_ = 0;  // the window before the first of them
  bool spread_ = false;
  // The round in progress: from an acknowledgement to the first one for a packet sent after it.
  bool round_begun_ = false;
  Instant round_start_{};
  Duration round_rtt_{};     // smallest on the way
  Duration round_waited_{};  // in the hosts: least
  std::uint64_t round_bytes_ = 0;
  std::uint64_t round_flight_ = 0;    // allowed when the round began: what it can deliver if nothing is lost
  std::uint64_t round_withheld_ = 0;  // acknowledged since growth has been withheld, up to now, as a queue forms
  bool round_limited_ = false;
  bool round_interrupted_ = false;
  bool round_lost_before_ = false;  // the last full round did not deliver what it could
  bool round_dropped_ = false;      // a switch had no room for some of it
  std::uint64_t floor_ = kConfig.min_bytes;
  Instant round_sent_;                    // when the packet left whose acknowledgement began the round
  Duration round_silence_{};              // longest
  std::uint64_t rate_ = 0;                // delivered, bytes a second
  std::array<std::uint64_t, 8> rates_{};  // of the last rounds
  std::size_t rates_next_ = 0;
  std::uint64_t throughput_ = 0;  // of any round
  Duration rtt_{};                // of the last acknowledgement
  Duration queue_{};              // on the way, smoothed by eighths
  Instant acknowledged_;          // last time
  Duration silence_{};            // the longest of late, halved every kSilenceHalfLife
  Instant silence_at_;
  Duration room_{};  // what a queue that was full took to drain, doubled every room_doubles since; 0: nobody said so
  Instant room_at_;
};

DelayWindow::DelayWindow() : limit_(kConfig.initial_bytes) {}
DelayWindow::~DelayWindow() = default;
DelayWindow::DelayWindow(DelayWindow&&) noexcept = default;
DelayWindow& DelayWindow::operator=(DelayWindow&&) noexcept = default;

DelayWindow::Measured& DelayWindow::measured() {
  if (!measured_) [[unlikely]]
    measured_ = std::make_unique<Measured>();
  return *measured_;
}

void DelayWindow::on_acknowledgement(std::uint64_t acked_bytes, const RoundTrip& trip, bool limited, Instant now) {
  measured().on_acknowledgement(acked_bytes, trip, limited, now);
  follow();
}

void DelayWindow::follow() {
  if (bounded()) limit_ = measured_->limit();
}

void DelayWindow::set_bounded(bool wanted) {
  if (wanted == bounded()) return;
  limit_ = !wanted ? kUnbounded : measured_ ? measured_->limit() : kConfig.initial_bytes;
}

void DelayWindow::set_spread(bool spread) {
  if (measured_) measured_->set_spread(spread);
}

void DelayWindow::shift_base(Duration by) {
  if (measured_) measured_->shift_base(by);
}

void DelayWindow::on_timeout() {
  measured().on_timeout();
  follow();
}

void DelayWindow::on_drops(const Drops& drops, Instant now) {
  measured().on_drops(drops, now);
  follow();
}

void DelayWindow::on_interruption() {
  if (measured_) measured_->on_interruption();
}

bool DelayWindow::starting() const { return !measured_ || measured_->starting(); }
std::uint64_t DelayWindow::throughput() const { return measured_ ? measured_->throughput() : 0; }
std::uint64_t DelayWindow::delivered() const { return measured_ ? measured_->best_rate() : 0; }
Duration DelayWindow::base_rtt() const { return measured_ ? measured_->base_rtt() : kNone; }
Duration DelayWindow::time_for(std::uint64_t bytes) const { return measured_ ? measured_->time_for(bytes) : kNone; }
Duration DelayWindow::queue() const { return measured_ ? measured_->queue() : kNone; }
Duration DelayWindow::queueing() const { return measured_ ? measured_->queueing() : kConfig.target_queueing; }
std::uint64_t DelayWindow::bridge_bytes(Instant now) const { return measured_ ? measured_->bridge_bytes(now) : 0; }
std::optional<Instant> DelayWindow::next_bridge(std::uint64_t bridged) const {
  return measured_ ? measured_->next_bridge(bridged) : std::nullopt;
}
std::size_t DelayWindow::allocated_bytes() const { return measured_ ? sizeof(Measured) : 0; }

Duration DelayWindow::Measured::base_rtt() const { return smaller(base_before_, base_now_); }

void DelayWindow::Measured::on_acknowledgement(std::uint64_t acked_bytes, const RoundTrip& trip, bool limited,
                                               Instant now) {
  const Duration rtt = std::max(trip.whole, kTick), on_the_way = trip.on_the_way();
  note_rtt(on_the_way, now);
  note_silence(limited, now);
  forget_room(now);
  rtt_ = rtt;
  queue_ = queue_ + (on_the_way - base_rtt() - queue_) / 8;
  if (!round_begun_) return begin_round(now, rtt);
  round_bytes_ += acked_bytes;
  round_limited_ = round_limited_ || limited;
  round_waited_ = round_rtt_ == kNone ? trip.waited : std::min(round_waited_, trip.waited);
  round_rtt_ = smaller(round_rtt_, on_the_way);
  // A queue forms long before the round ends that will say so: growing meanwhile would make it overflow.
  const bool queue_forms = phase_ == Phase::kStart && on_the_way - base_rtt() >= start_queueing();
  round_withheld_ = queue_forms ? round_withheld_ + acked_bytes : 0;
  if (phase_ != Phase::kDraining && !queue_forms) limit_ = std::min(window_, limit_ + std::min(acked_bytes, window_));
  if (now - rtt >= round_start_ && now > round_start_) end_round(now, rtt);
}

// How long nothing came although the window was full: then somebody on the way had no core.
void DelayWindow::Measured::note_silence(bool limited, Instant now) {
  const Duration silence = limited && round_begun_ ? now - acknowledged_ : kNone;
  acknowledged_ = now;
  round_silence_ = std::max(round_silence_, silence);
  while (now - silence_at_ > kSilenceHalfLife && silence_ > kNone) {
    silence_ = silence_ / 2;
    silence_at_ = silence_at_ + kSilenceHalfLife;
  }
  if (silence < silence_ || !is_stall(silence, rtt_) || phase_ > Phase::kSteady) return;
  silence_ = silence;
  silence_at_ = now;
}

Duration DelayWindow::Measured::target() const {
  return std::max(kConfig.target_queueing, base_rtt() / kConfig.base_per_target);
}

// From so much on the start grows no further by an acknowledgement. Bursts alone make a queue on a path that is much
// longer than the target: of the window that is not spread, up to a quarter of what the path holds.
Duration DelayWindow::Measured::start_queueing() const {
  const Duration base = base_rtt();
  if (spread_ || !is_long_path()) return target() / 2;
  return std::max(kConfig.target_queueing / 2, base / kConfig.base_per_burst);
}

// A queue that covers the silences of late, but not more than the switches can be expected to have room for, or are
// known to have.
Duration DelayWindow::Measured::queueing() const {
  const Duration wanted =
      std::max(target(), std::min({silence_, time_for(kConfig.silence_bytes_max), kConfig.silence_max}));
  return room_ == kNone ? wanted : std::min(wanted, room_ / kConfig.room_part);
}

void DelayWindow::Measured::forget_room(Instant now) {
  while (room_ != kNone && now - room_at_ > kConfig.room_doubles) {
    room_ = room_ * 2;
    room_at_ = room_at_ + kConfig.room_doubles;
    if (room_ >= kConfig.silence_max * kConfig.room_part) room_ = kNone;
  }
}

Duration DelayWindow::Measured::time_for(std::uint64_t bytes) const {
  const std::uint64_t rate = best_rate();
  if (rate == 0) return kNone;
  return Duration::from_ns(static_cast<std::int64_t>(scale(bytes, kNsPerSecond, rate)));
}

std::uint64_t DelayWindow::Measured::best_rate() const { return *std::max_element(rates_.begin(), rates_.end()); }

// From half a round trip of silence on, what the path would have delivered since.
std::uint64_t DelayWindow::Measured::bridge_bytes(Instant now) const {
  const Duration silence = now - acknowledged_ - rtt_ / 2;
  if (silence <= kNone) return 0;
  const Duration bridged = std::min(silence, kConfig.bridge_max);
  return std::min(scale(best_rate(), ns(bridged), kNsPerSecond), kConfig.bridge_bytes_max);
}

std::optional<Instant> DelayWindow::Measured::next_bridge(std::uint64_t bridged) const {
  const std::uint64_t step = scale(best_rate(), ns(kConfig.bridge_step), kNsPerSecond);
  const std::uint64_t wanted = bridged + std::clamp(step, kConfig.bridge_step_min, kConfig.bridge_step_max);
  const Duration at = time_for(wanted);
  if (at == kNone || at > kConfig.bridge_max || wanted > kConfig.bridge_bytes_max) return std::nullopt;
  return acknowledged_ + rtt_ / 2 + at + kTick;
}

void DelayWindow::Measured::note_rtt(Duration rtt, Instant now) {
  const Duration age = now - base_period_start_;
  if (age > kConfig.base_rtt_period && age > drain_period()) {
    if (base_now_ != kNone) base_before_ = base_now_;
    base_now_ = kNone;
    base_period_start_ = now;
  }
  base_now_ = smaller(base_now_, rtt);
}

void DelayWindow::Measured::begin_round(Instant now, Duration rtt) {
  round_begun_ = true;
  round_start_ = now;
  round_sent_ = now - rtt;
  round_silence_ = kNone;
  round_rtt_ = kNone;
  round_bytes_ = round_withheld_ = 0;
  round_flight_ = limit_;
  round_limited_ = round_interrupted_ = round_dropped_ = false;
}

void DelayWindow::Measured::end_round(Instant now, Duration rtt) {
  const Duration lasted = std::max(now - round_start_, now - rtt - round_sent_);
  throughput_ = std::max(throughput_ - throughput_ / 8, scale(round_bytes_, kNsPerSecond, ns(lasted)));
  switch (phase_) {
    case Phase::kDraining:
      phase_ = Phase::kRefilling;
      break;
    case Phase::kRefilling:
      if (round_flight_ >= window_) phase_ = Phase::kSteady;
      judge_base(now);
      break;
    case Phase::kStart:
    case Phase::kSteady: {
      // Who has no more to send, and yet a queue stands: the window is longer than the path, and what the application
      // gives next, perhaps all at once, would not fit. On a short path it is the peer's work that takes as long.
      const bool queued = phase_ == Phase::kSteady && is_long_path() && round_rtt_ - base_rtt() > queueing();
      if (!round_limited_ && !queued) break;
      measure_rate(now, rtt);
      const std::uint64_t before = window_;
      adapt();
      if (phase_ != Phase::kSteady) break;
      if (const bool doubtful = base_is_doubtful(before); !drain_is_due(now) && !doubtful) break;
      phase_ = Phase::kDraining;
      doubted_ = round_rtt_ - base_rtt() > queueing() ? round_rtt_ : kNone;
      limit_ = std::clamp(scale(rate_, ns(base_rtt()), kNsPerSecond) / 2, std::min(floor_, limit_), limit_);
      break;
    }
  }
  begin_round(now, rtt);
}

// Of the round that ends. Acknowledgements that come all at once, after somebody had no core, tell of the time in which
// their packets were sent; and a round in which that happened can only show that the path is faster than was known.
void DelayWindow::Measured::measure_rate(Instant now, Duration rtt) {
  const bool stalled = is_stall(round_silence_, round_rtt_ + round_waited_);
  const Duration received = now - round_start_, sent = now - rtt - round_sent_;
  const bool compressed = stalled ? sent > received : is_stall(sent, received);
  const std::uint64_t measured = scale(round_bytes_, kNsPerSecond, ns(compressed ? sent : received));
  rate_ = stalled || round_interrupted_ ? std::max(rate_, measured) : measured;
  rates_[rates_next_++ % rates_.size()] = scale(round_bytes_, kNsPerSecond, ns(std::max(received, sent)));
}

void DelayWindow::Measured::adapt() {
  if (round_bytes_ == 0) return;
  if (phase_ == Phase::kStart) window_ = limit_;  // what a queue kept from growing was never tried
  const Duration wished = phase_ == Phase::kStart ? target() : queueing();
  const std::uint64_t wanted = scale(rate_, ns(base_rtt() + round_waited_ + wished), kNsPerSecond) + additive();
  std::uint64_t next = std::clamp(wanted, window_ - window_ / 4, window_ * 2);

  if (round_bytes_ + std::max(round_flight_ / 8, kConfig.chance_bytes) < round_flight_) silence_ = silence_ / 2;
  const bool delivered = round_bytes_ >= round_flight_ - round_flight_ / 4;  // else the queue drops, or the path is bad
  // Its shortest round trip is from before the queue that it ends with.
  const bool found = phase_ == Phase::kStart && spread_ && round_withheld_ >= round_flight_ / 4;
  const bool no_queue = !found && round_rtt_ - base_rtt() < wished / 2;
  // Timeouts before the path was known, or a few random losses of a window of a few packets: they do not end the start.
  const bool by_chance = phase_ == Phase::kStart && is_long_path() && !delivered && !round_lost_before_;
  round_lost_before_ = !delivered;
  if (delivered && no_queue) {
    next = std::max(next, phase_ == Phase::kStart ? window_ * 2 : window_ + window_ / 4);
  } else if (by_chance && no_queue) {
    next = window_;
  } else {
    phase_ = Phase::kSteady;
  }
  if (round_dropped_ || !round_limited_) next = std::min(next, window_);
  if (next >= kConfig.min_bytes) floor_ = kConfig.min_bytes;
  window_ = std::clamp(next, floor_, kConfig.max_bytes);
  limit_ = std::min(limit_, window_);
}

Duration DelayWindow::Measured::drain_period() const {
  Duration period = kConfig.drain_period;
  while (period < base_rtt() * 64) period = period * 2;
  return period;
}

// On a path so long that drains are rare: it may have become longer, and the window would shrink until the next one.
bool DelayWindow::Measured::base_is_doubtful(std::uint64_t window_before) {
  const bool beyond = round_limited_ && round_rtt_ - base_rtt() > queueing() * kConfig.doubt_targets;
  if (!beyond || rounds_beyond_ <= 0) undoubted_ = beyond ? window_before : 0;
  rounds_beyond_ = rounds_beyond_ < 0 || beyond ? rounds_beyond_ + 1 : 0;
  if (rounds_beyond_ < kConfig.doubt_rounds || drain_period() <= kConfig.base_rtt_period) return false;
  rounds_beyond_ = -kConfig.doubt_rest;
  return true;
}

bool DelayWindow::Measured::drain_is_due(Instant now) {
  const Duration period = drain_period();
  const std::int64_t number = now.ns() / period.ns();
  const bool due = number != drain_number_ && drain_number_ >= 0;
  drain_number_ = number;
  return due;
}

// Of the round that follows a drain: what it measured was sent while the flight was half of what the path holds, or
// less. As long as before, then what was sent is not what makes the path long.
void DelayWindow::Measured::judge_base(Instant now) {
  const Duration before = doubted_;
  doubted_ = kNone;
  if (before == kNone || round_rtt_ + before / kConfig.same_part < before) return;
  // What has shrunk it since was no queue. What leaves over a round trip leaves at the rate that was delivered.
  const std::uint64_t undoubted = std::exchange(undoubted_, 0);
  window_ = std::max(window_, spread_ ? scale(undoubted, ns(round_rtt_), ns(base_rtt())) : undoubted);
  rounds_beyond_ = 0;
  base_before_ = kNone;
  base_now_ = round_rtt_;
  base_period_start_ = now;
}

void DelayWindow::Measured::shift_base(Duration by) {
  for (Duration* smallest : {&base_before_, &base_now_, &round_rtt_}) {
    if (*smallest != kNone) *smallest = std::max(*smallest + by, kTick);
  }
}

void DelayWindow::Measured::on_drops(const DelayWindow::Drops& drops, Instant now) {
  room_ = smaller(room_, drops.drain);
  room_at_ = now;
  // Of many flows a queue may not have room for the least window of each.
  floor_ = drops.packet_bytes;
  round_dropped_ = true;
  const std::uint64_t floor = std::max(floor_, round_flight_ / 2);
  if (window_ <= floor) return;
  window_ = std::max(floor, window_ - std::min(drops.bytes, window_));
  limit_ = std::min(limit_, window_);
  phase_ = Phase::kSteady;
}

void DelayWindow::Measured::on_timeout() {
  window_ = std::max(floor_, window_ / 2);
  limit_ = window_;
  phase_ = Phase::kSteady;
  round_begun_ = false;
}

}  // namespace brdma::congestion
