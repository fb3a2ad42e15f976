#include "congestion/delay_window.h"

#include <algorithm>

#include "congestion/delay_window_measured.h"

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

// A window smaller than the path is acknowledged once a round trip, all at once. A longer silence means that a process
// at either end has no core.
bool is_stall(Duration silence, Duration rtt) { return silence * 4 > rtt * 5; }

}  // namespace

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

void DelayWindow::on_loss(std::uint64_t bytes, std::uint32_t packet_bytes, Instant now) {
  measured().on_loss(bytes, packet_bytes, now);
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

void DelayWindow::Measured::on_acknowledgement(std::uint64_t acked_bytes, const RoundTrip& trip, bool limited,
                                               Instant now) {
  const Duration rtt = std::max(trip.whole, kTick), on_the_way = trip.on_the_way();
  base_.note(on_the_way, now);
  note_silence(limited, now);
  forget_room(now);
  queue_loss_.delivered(acked_bytes, on_the_way - base_rtt(), window_at_send(now), now);
  rtt_ = rtt;
  queue_ = queue_ + (on_the_way - base_rtt() - queue_) / 8;
  lately_ = lately_ + (on_the_way - lately_) / 8;
  if (!round_begun_) return begin_round(now, rtt);
  round_bytes_ += acked_bytes;
  round_limited_ = round_limited_ || limited;
  round_waited_ = round_rtt_ == kNone ? trip.waited : std::min(round_waited_, trip.waited);
  round_rtt_ = smaller(round_rtt_, on_the_way);
  // A queue forms long before the end of the round that reports it: growth until then would make it overflow.
  const bool queue_forms = phase_ == Phase::kStart && on_the_way - base_rtt() >= start_queueing();
  round_withheld_ = queue_forms ? round_withheld_ + acked_bytes : 0;
  if (phase_ == Phase::kDraining) limit_ = std::max(drained_, limit_ - std::min(limit_, acked_bytes / 2));
  if (phase_ != Phase::kDraining && !queue_forms) limit_ = std::min(window_, limit_ + std::min(acked_bytes, window_));
  if (now - rtt >= round_start_ && now > round_start_) end_round(now, rtt);
}

// Time without an acknowledgement although the window was full: a process at either end had no core.
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

std::uint64_t DelayWindow::Measured::additive() const {
  return room_ == kNone ? kConfig.additive_bytes : kConfig.additive_bytes_told;
}

std::uint64_t DelayWindow::Measured::content(std::uint64_t rate, Duration on_the_way) const {
  return scale(rate, ns(on_the_way + round_waited_), kNsPerSecond) + additive();
}

bool DelayWindow::Measured::is_long_path() const { return base_rtt() > kConfig.target_queueing * kConfig.bursts_from; }

Duration DelayWindow::Measured::target() const {
  return std::max(kConfig.target_queueing, base_rtt() / kConfig.base_per_target);
}

// From this queueing on, an acknowledgement does not grow the window at the start. On a path much longer than the
// target, bursts alone make a queue: for a window that is not spread, up to a quarter of the path.
Duration DelayWindow::Measured::start_queueing() const {
  const Duration base = base_rtt();
  if (spread_ || !is_long_path()) return target() / 2;
  return std::max(kConfig.target_queueing / 2, base / kConfig.base_per_burst);
}

// A queue that covers the recent silences, but not more than switches can be expected, or are known, to have room for.
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

// From half a round trip of silence on: the bytes the path would have delivered since.
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

void DelayWindow::Measured::begin_round(Instant now, Duration rtt) {
  round_begun_ = true;
  round_start_ = now;
  round_sent_ = now - rtt;
  round_silence_ = kNone;
  round_rtt_ = kNone;
  round_bytes_ = round_withheld_ = 0;
  round_flight_ = limit_;
  round_limited_ = round_interrupted_ = round_dropped_ = full_.dropped = false;
}

void DelayWindow::Measured::end_round(Instant now, Duration rtt) {
  const Duration lasted = std::max(now - round_start_, now - rtt - round_sent_);
  throughput_ = std::max(throughput_ - throughput_ / 8, scale(round_bytes_, kNsPerSecond, ns(lasted)));
  switch (phase_) {
    case Phase::kDraining:
      phase_ = Phase::kRefilling;
      if (gently_) limit_ = window_;
      break;
    case Phase::kRefilling:
      end_drain(now);
      break;
    case Phase::kStart:
    case Phase::kSteady: {
      // A sender without more data, and yet a standing queue: the window is longer than the path, and the application's
      // next data, perhaps one burst, would not fit. On a short path the peer's work may take as long. A sender of
      // little data at the start may see another flow's queue.
      const bool sends = phase_ == Phase::kSteady || round_bytes_ >= kConfig.initial_bytes;
      const bool queued = sends && is_long_path() && round_rtt_ - base_rtt() > queueing();
      if (!round_limited_ && !queued) break;
      measure_rate(now, rtt);
      const std::uint64_t before = window_, allowed = limit_;
      adapt();
      if (phase_ != Phase::kSteady) break;
      if (!base_.wants_drain({round_rtt_, queueing(), before, round_limited_, arrives()}, now)) break;
      adapted_ = window_;
      // A spread window sends less in the drain anyway, which shows whether the window was too large.
      if (arrives() && before > window_) {
        window_ = before;
        limit_ = allowed;
      }
      drain();
      break;
    }
  }
  begin_round(now, rtt);
}

// Most of a spread window has arrived in the round that ends. Otherwise a full queue drops the rest, even with half of
// it in flight: only the delivered bytes define half.
bool DelayWindow::Measured::arrives() const { return spread_ && round_bytes_ >= round_flight_ - round_flight_ / 4; }

// Down to half of the path's content. A spread window sends half of its last round for a round; any other waits.
void DelayWindow::Measured::drain() {
  phase_ = Phase::kDraining;
  base_.begin_drain(round_rtt_, lately_, queueing());
  drained_ = std::clamp(scale(rate_, ns(base_rtt()), kNsPerSecond) / 2, std::min(floor_, limit_), limit_);
  refills_ = 0;
  gently_ = arrives();
  if (gently_) drained_ = std::max(drained_, limit_ / 2);
  if (!gently_) limit_ = drained_;
}

// For a round that follows a drain.
void DelayWindow::Measured::end_drain(Instant now) {
  const bool refilled = is_refilled();
  if (refills_++ == 0 && judge_drain(now)) return;
  if (refilled) phase_ = Phase::kSteady;
}

// True: the drain goes on, whatever has been acknowledged.
bool DelayWindow::Measured::judge_drain(Instant now) {
  switch (base_.judge(round_rtt_, lately_, queueing(), now)) {
    case BaseRoundTrip::Verdict::kKept:
      window_ = std::min(window_, adapted_);
      limit_ = std::min(limit_, window_);
      return false;
    case BaseRoundTrip::Verdict::kLonger: {
      forget_queue();
      // A spread window leaves no faster than the delivered rate.
      const std::uint64_t holds = spread_ ? content(best_rate(), base_rtt() + queueing()) : base_.undoubted();
      window_ = std::clamp(holds, window_, kConfig.max_bytes);
      gently_ = spread_;
      if (spread_) limit_ = window_;
      return spread_;
    }
    case BaseRoundTrip::Verdict::kOnceMore:
      drain();
  }
  return true;
}

// A spread window is in flight a round after it is allowed, and acknowledged one round later. An earlier round would be
// taken for a path that carries less.
bool DelayWindow::Measured::is_refilled() const {
  if (gently_ && refills_ >= kConfig.refills_max) return true;
  return round_flight_ >= window_ && (!gently_ || round_bytes_ >= window_ - window_ / 8);
}

// For the round that ends. Acknowledgements that come at once, after a host had no core, cover the time in which their
// packets were sent. A round with such a burst can only raise the known rate.
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
  if (phase_ == Phase::kStart) window_ = limit_;  // growth that a queue prevented was never tried
  const Duration wished = phase_ == Phase::kStart ? target() : queueing();
  if (round_bytes_ + std::max(round_flight_ / 8, kConfig.chance_bytes) < round_flight_) silence_ = silence_ / 2;
  const std::uint64_t wanted = content(rate_, base_rtt() + wished);
  std::uint64_t next = beyond(std::clamp(wanted, window_ - window_ / 4, window_ * 2), wished);
  if (round_dropped_ || !round_limited_) next = std::min(next, window_);
  next = below_full_queue(next);
  if (next >= kConfig.min_bytes) floor_ = kConfig.min_bytes;
  window_ = std::clamp(next, floor_, kConfig.max_bytes);
  limit_ = std::min(limit_, window_);
}

// The next window is `next`, or more where the round that ends saw no queue. Another round ends the start.
std::uint64_t DelayWindow::Measured::beyond(std::uint64_t next, Duration wished) {
  const bool starts = phase_ == Phase::kStart;
  const bool delivered = round_bytes_ >= round_flight_ - round_flight_ / 4;  // else the queue drops, or the path is bad
  // Its shortest round trip precedes the queue at its end.
  const bool found = starts && spread_ && round_withheld_ >= round_flight_ / 4;
  const bool no_queue = !found && round_rtt_ - base_rtt() < wished / 2;
  // Timeouts before the path was known, or a few random losses of a window of a few packets: they do not end the start.
  const bool by_chance = starts && is_long_path() && !delivered && !round_lost_before_;
  round_lost_before_ = !delivered;
  if (delivered && no_queue) return std::max(next, starts ? window_ * 2 : grown());
  if (by_chance && no_queue) return window_;
  phase_ = Phase::kSteady;
  return next;
}

// A quarter more. A spread window leaves a little faster than the recent delivered rate, and need be no longer than
// that. Where its rate bounds it, a longer one would bound nothing once a queue is seen: it only shrinks by quarters.
std::uint64_t DelayWindow::Measured::grown() const {
  const std::uint64_t most = window_ + window_ / 4;
  if (!spread_) return most;
  Duration covered = base_rtt() + base_rtt() / kConfig.spread_more + queueing();
  if (queue_ < queueing() / 2) covered = covered + kConfig.spread_late;
  return std::min(most, std::max(window_, content(best_rate(), covered)));
}

void DelayWindow::Measured::shift_base(Duration by) {
  base_.shift(by);
  if (std::max(by, kNone - by) > base_rtt() / 4) forget_queue();
  lately_ = std::max(lately_ + by, kTick);
  if (round_rtt_ != kNone) round_rtt_ = std::max(round_rtt_ + by, kTick);
}

void DelayWindow::Measured::on_drops(const DelayWindow::Drops& drops, Instant now) {
  room_ = smaller(room_, drops.drain);
  room_at_ = now;
  // A queue that many flows share may have no room for min_bytes of each.
  floor_ = drops.packet_bytes;
  round_dropped_ = true;
  const std::uint64_t floor = std::max(floor_, round_flight_ / 2);
  if (window_ <= floor) return;
  queue_loss_.on_notification();
  begin_cut(window_at_send(now), now);
  full_.reported = true;
  full_.most = std::min(full_.most, std::max(floor, window_ - std::min(drops.bytes, window_)));
  apply_cut();
}

void DelayWindow::Measured::on_loss(std::uint64_t bytes, std::uint32_t packet_bytes, Instant now) {
  const Duration least = std::max(time_for(packet_bytes), kConfig.full_least);
  const WindowAtSend window = window_at_send(now);
  bool full = queue_loss_.lost(bytes, packet_bytes, least, window, now);
  if (window == WindowAtSend::kReduced && queue_loss_.loses_as_much(packet_bytes)) {
    if (was_random_loss()) return undo_cut();
    queue_loss_.still_too_large();
    full = true;
  }
  // As after a switch's report.
  if (full || queue_ > queueing()) floor_ = packet_bytes;
  if (!full) return;
  begin_cut(window, now);
  full_.lost += bytes;
  // A small window may lose two packets by chance, without being too large.
  const std::uint64_t much = full_.lost - std::min(full_.lost, std::uint64_t{packet_bytes} * 2);
  const std::uint64_t less = std::clamp(much, full_.held / kConfig.full_part, full_.held / 2);
  const std::uint64_t carried = scale(best_rate(), ns(base_rtt()), kNsPerSecond);
  const std::uint64_t most = std::max({full_.held - less, floor_, carried - carried / kConfig.carried_part});
  full_.most = std::min(full_.most, most);
  apply_cut();
}

// Loss of packets sent before the window was cut belongs to that cut.
void DelayWindow::Measured::begin_cut(WindowAtSend window, Instant now) {
  if (window != WindowAtSend::kBeforeCut) {
    const bool once_more = window == WindowAtSend::kReduced;  // an undo returns to the first of several cuts
    full_ = {.held = window_,
             .most = window_,
             .first = once_more ? full_.first : window_,
             .first_rate = once_more ? full_.first_rate : rate_,
             .rate = rate_,
             .queue = once_more ? full_.queue : queue_,
             .phase = once_more ? full_.phase : phase_,
             .since = now};
  }
  full_.dropped = true;
}

void DelayWindow::Measured::apply_cut() {
  window_ = std::min(window_, full_.most);
  limit_ = std::min(limit_, window_);
  phase_ = std::max(phase_, Phase::kSteady);
}

// For packets that are acknowledged or judged lost now.
WindowAtSend DelayWindow::Measured::window_at_send(Instant now) const {
  if (full_.held == 0 || full_.steps != 0) return WindowAtSend::kCurrent;
  return now - full_.since > rtt_ + rtt_ / 4 ? WindowAtSend::kReduced : WindowAtSend::kBeforeCut;
}

// Random loss takes as large a part of a reduced window: although it meets half the queue, or although it alone bounds
// the delivered bytes, which then decrease. Where a standing queue is shorter than wanted, other flows may have taken
// the freed share: there, only a delivery of a quarter less is evidence.
bool DelayWindow::Measured::was_random_loss() const {
  if (queue_ * 2 < full_.queue) return true;
  const auto delivers_less = [this](std::uint64_t window, std::uint64_t rate, std::uint64_t part, std::uint64_t whole) {
    const std::uint64_t less = rate - std::min(rate_, rate);
    return scale(less, window, std::max<std::uint64_t>(rate, 1)) * whole > (window - std::min(window_, window)) * part;
  };
  if (!queue_loss_.is_capped(queueing() * 3 / 4)) return delivers_less(full_.held, full_.rate, 1, 2);
  return window_ <= full_.first - full_.first / 4 && delivers_less(full_.first, full_.first_rate, 3, 4);
}

// The path has changed: nothing is known of its queues.
void DelayWindow::Measured::forget_queue() {
  full_ = {};
  queue_loss_ = {};
}

// The loss was random. The earlier window may be one of the start that grew beyond the window the rule now gives.
void DelayWindow::Measured::undo_cut() {
  queue_loss_.was_random();
  window_ = std::max(window_, std::min(full_.first, content(best_rate(), base_rtt() + queueing())));
  if (phase_ == Phase::kSteady) phase_ = full_.phase;
  full_ = {};
}

// Below a queue that was full: constant for a while, then by steps that double. Steps are the same for all flows, and
// losses are a part of each window: that makes flows equal.
std::uint64_t DelayWindow::Measured::below_full_queue(std::uint64_t next) {
  if (full_.held == 0) return next;
  const bool waits = full_.dropped || ++full_.rounds <= kConfig.full_rounds ||
                     (!full_.reported && acknowledged_ - full_.since < kConfig.full_time);
  if (!waits) {
    const std::uint64_t step = std::max(kConfig.full_step, full_.held / kConfig.full_steps);
    full_.most += std::min(kConfig.additive_bytes_told << std::min(full_.steps, 32), step);
    if (++full_.steps > kConfig.full_steps_max) full_ = {};
  }
  return full_.held == 0 ? next : std::min(next, full_.most);
}

void DelayWindow::Measured::on_timeout() {
  window_ = std::max(floor_, window_ / 2);
  limit_ = window_;
  phase_ = Phase::kSteady;
  round_begun_ = false;
}

}  // namespace brdma::congestion
