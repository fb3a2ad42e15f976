#include "congestion/delay_window.h"

#include <algorithm>
#include <utility>

#include "congestion/scaled.h"
#include "congestion/window/delay_window_measured.h"

namespace brdma::congestion {
namespace {

constexpr DelayWindowConfig kConfig;
static_assert(kConfig.min_bytes > 0 && kConfig.min_bytes <= kConfig.initial_bytes);
static_assert(kConfig.initial_bytes <= kConfig.max_bytes);
constexpr Duration kNone{};

}  // namespace

DelayWindow::DelayWindow() : limit_(kConfig.initial_bytes), paced_(0) {}
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
  paced_ = bounded() && measured_->is_paced() ? 1 : 0;
  if (bounded()) limit_ = measured_->limit() & kLimitMask;
}

void DelayWindow::set_bounded(bool wanted) {
  if (wanted == bounded()) return;
  limit_ = (!wanted ? kUnbounded : measured_ ? measured_->limit() : kConfig.initial_bytes) & kLimitMask;
  paced_ = wanted && measured_ && measured_->is_paced() ? 1 : 0;
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
std::uint64_t DelayWindow::throughput() const { return measured_ ? measured_->rate().throughput() : 0; }
std::uint64_t DelayWindow::delivered() const { return measured_ ? measured_->rate().best() : 0; }
Duration DelayWindow::base_rtt() const { return measured_ ? measured_->base_rtt() : kNone; }
Duration DelayWindow::time_for(std::uint64_t bytes) const {
  return measured_ ? measured_->rate().time_for(bytes) : kNone;
}
Duration DelayWindow::latest_rtt() const { return measured_ ? measured_->latest_rtt() : kNone; }
Duration DelayWindow::queue() const { return measured_ ? measured_->queue() : kNone; }
Duration DelayWindow::queueing() const { return measured_ ? measured_->queueing() : kConfig.target_queueing; }
std::uint64_t DelayWindow::bridge_bytes(Instant now) const { return measured_ ? measured_->bridge_bytes(now) : 0; }
std::optional<Instant> DelayWindow::next_bridge(std::uint64_t bridged) const {
  return measured_ ? measured_->next_bridge(bridged) : std::nullopt;
}
std::size_t DelayWindow::allocated_bytes() const { return measured_ ? sizeof(Measured) : 0; }

void DelayWindow::Measured::Delay::note(const RoundTrip& trip, Duration base) {
  rtt = std::max(trip.whole, kTick);
  queue = queue + (trip.on_the_way() - base - queue) / 8;
  lately = lately + (trip.on_the_way() - lately) / 8;
}

void DelayWindow::Measured::on_acknowledgement(std::uint64_t acked_bytes, const RoundTrip& trip, bool limited,
                                               Instant now) {
  const Duration on_the_way = trip.on_the_way();
  base_.note(on_the_way, now);
  const Duration silence = silence_.on_acknowledgement(limited && round_.begun, now);
  round_.silences.longest = std::max(round_.silences.longest, silence);
  if (trip.waited > target()) {
    silence_.on_absence(now);
    end_crowd();
  }
  if (is_stall(silence, delay_.rtt)) round_.silences.stall = std::max(round_.silences.stall, silence);
  rooms_.reported.age(kConfig.room_doubles, now);
  rooms_.learned.age(std::max(kConfig.learned_doubles, base_rtt() * kConfig.learned_rounds), now);
  const Duration queued = on_the_way - base_rtt();
  losses_.verdict.delivered(acked_bytes, queued, full_.at_send(delay_.rtt, now), now);
  if (crowding_.is_crowded()) losses_.by_queue.on_delivered(acked_bytes, queued, base_rtt(), now);
  delay_.note(trip, base_rtt());
  if (!round_.begun) return begin_round(now);
  round_.add(acked_bytes, trip, limited);
  // A queue forms long before the end of the round that reports it: growth until then would make it overflow.
  const bool queue_forms = phase_ == Phase::kStart && queued >= start_queueing();
  round_.withheld = queue_forms ? round_.withheld + acked_bytes : 0;
  if (phase_ == Phase::kDraining) limit_ = std::max(drain_.allowed, limit_ - std::min(limit_, acked_bytes / 2));
  if (phase_ != Phase::kDraining && !queue_forms) limit_ = std::min(window_, limit_ + std::min(acked_bytes, window_));
  if (round_.is_over(now, delay_.rtt)) end_round(now);
}

std::uint64_t DelayWindow::Measured::content(std::uint64_t rate, Duration on_the_way) const {
  const bool known = rooms_.reported.is_known() || rooms_.learned.is_known();
  const bool absent = silence_.was_absent(base_rtt(), silence_.acknowledged_at());
  const Duration allowed = base_rtt() + queueing();
  const std::uint64_t more =
      known ? additive_.bytes_reported() : additive_.bytes(allowed, absent ? allowed : base_rtt() + delay_.met);
  return bytes_in(rate, on_the_way + round_.waited) + more;
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
  const Duration expected = std::min(rate_.time_for(kConfig.silence_bytes_max), kConfig.silence_max);
  const Duration most = rooms_.reported.bound(std::max(target(), std::min(silence_.longest(), expected)));
  return std::min(most, std::max(rooms_.learned.bound(most), target() / kConfig.least_target));
}

void DelayWindow::Measured::begin_round(Instant now) {
  round_.begin(now, delay_.rtt, limit_);
  full_.begin_round();
}

void DelayWindow::Measured::end_round(Instant now) {
  rate_.note_throughput(round_, now, delay_.rtt);
  switch (phase_) {
    case Phase::kDraining:
      if (goes_on_draining(now)) break;
      phase_ = Phase::kRefilling;
      if (drain_.gently) limit_ = window_;
      break;
    case Phase::kRefilling:
      end_drain(now);
      break;
    case Phase::kStart:
    case Phase::kSteady:
      end_ordinary_round(now);
      break;
  }
  begin_round(now);
}

void DelayWindow::Measured::end_ordinary_round(Instant now) {
  // A round that lost some of it was silent for that reason.
  if (round_.silences.stall > kNone && !round_.lost(kConfig.chance_bytes) && crowding_.may_find_silence())
    silence_.note(round_.silences.stall, now);
  // A sender without more data, and yet a standing queue: the window is longer than the path, and the application's
  // next data, perhaps one burst, would not fit. On a short path the peer's work may take as long. A sender of little
  // data at the start may see another flow's queue.
  const bool sends = phase_ == Phase::kSteady || round_.bytes >= kConfig.initial_bytes;
  const bool too_long = is_long_path() && sends && round_.rtt - base_rtt() > queueing();
  if (!round_.limited && !too_long && !round_.delivered() && !crowding_.is_crowded()) return;
  rate_.measure(round_, now, delay_.rtt);
  const std::uint64_t before = window_, allowed = limit_;
  adapt();
  if (phase_ != Phase::kSteady) return;
  if (!base_.wants_drain({round_.rtt, queueing(), before, round_.limited, arrives()}, now)) return;
  drain_.adapted = window_;
  // A spread window sends less in the drain anyway, which shows whether the window was too large. So does a full queue:
  // with half of the window in flight it drops the rest. Only the delivered bytes define half.
  if (arrives() && before > window_) {
    window_ = before;
    limit_ = allowed;
  }
  drain_.until = base_.drain_end();
  drain();
}

// Down to half of the path's content. A spread window sends half of its last round for a round; any other waits.
void DelayWindow::Measured::drain() {
  phase_ = Phase::kDraining;
  base_.begin_drain(round_.rtt, delay_.lately, queueing());
  drain_.base = base_rtt();
  // A crowded flow's base may be other flows' queue, and the window's quarter is less.
  const std::uint64_t half = bytes_in(rate_.latest(), base_rtt()) / 2;
  const bool quarter = crowding_.is_crowded();
  drain_.allowed =
      std::clamp(quarter ? std::min(half, limit_ / 4) : half, std::min(CrowdingConfig{}.least_bytes, limit_), limit_);
  drain_.refills = 0;
  drain_.gently = arrives();
  if (drain_.gently) drain_.allowed = std::max(drain_.allowed, limit_ / 2);
  if (!drain_.gently) limit_ = drain_.allowed;
}

// Other flows drain at the same time, but do not all begin at once. So it lasts until a round has met no queue, and has
// not found a shorter base.
bool DelayWindow::Measured::goes_on_draining(Instant now) {
  const Duration base = std::exchange(drain_.base, base_rtt());
  return now < drain_.until && (round_.rtt - base_rtt() > target() / 8 || base_rtt() < base);
}

// For a round that follows a drain.
void DelayWindow::Measured::end_drain(Instant now) {
  const bool refilled = is_refilled();
  if (drain_.refills++ == 0 && judge_drain(now)) return;
  if (refilled) phase_ = Phase::kSteady;
}

// True: the drain goes on, whatever has been acknowledged.
bool DelayWindow::Measured::judge_drain(Instant now) {
  if (!silence_.was_absent(base_rtt(), now)) crowding_.on_drained(base_.is_emptied_by(round_.rtt));
  switch (base_.judge({round_.rtt, delay_.lately, queueing(), crowding_.may_find_longer_path()}, now)) {
    case BaseRoundTrip::Verdict::kKept:
      window_ = std::min(window_, drain_.adapted);
      limit_ = std::min(limit_, window_);
      return false;
    case BaseRoundTrip::Verdict::kLonger: {
      forget_queue();
      // A spread window leaves no faster than the delivered rate.
      const std::uint64_t holds = spread_ ? content(rate_.best(), base_rtt() + queueing()) : base_.undoubted();
      window_ = std::clamp(holds, window_, kConfig.max_bytes);
      drain_.gently = spread_;
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
  if (drain_.gently && drain_.refills >= kConfig.refills_max) return true;
  return round_.flight >= window_ && (!drain_.gently || round_.bytes >= window_ - window_ / 8);
}

// The queue that the round met.
Duration DelayWindow::Measured::queue_met() const {
  return (crowding_.is_crowded() ? round_.mean_rtt() : round_.rtt) - base_rtt();
}

void DelayWindow::Measured::adapt() {
  if (round_.bytes == 0) return;
  if (phase_ == Phase::kStart) window_ = limit_;  // growth that a queue prevented was never tried
  const Duration wished = phase_ == Phase::kStart ? target() : crowding_.target(queueing(), window_);
  delay_.met = queue_met();
  if (round_.lost(kConfig.chance_bytes)) silence_.halve();
  const bool lost = additive_.on_round(delay_.met, wished);
  const std::uint64_t rate =
      crowding_.is_crowded() ? scale(limit_, kNsPerSecond, ns(base_rtt() + delay_.met)) : rate_.latest();
  const std::uint64_t wanted = content(rate, base_rtt() + wished);
  std::uint64_t next = beyond(std::clamp(wanted, window_ - window_ / 4, window_ * 2), wished);
  if (round_.dropped || !round_.limited) next = std::min(next, window_);
  const std::uint64_t more = rooms_.learned.is_known() ? bytes_in(rate_.best(), queueing()) / 2 : window_;
  next = full_.below(crowding_.bound(next, window_, more), silence_.acknowledged_at());
  crowding_.on_round(round_.rtt, delay_.met >= wished / 2, next, round_.start);
  if (!crowding_.is_crowded()) losses_.by_queue.forget();
  if (lost && (crowding_.is_crowded() || !is_long_path())) next = std::min(next, window_ - window_ / 16);
  window_ = std::clamp(next, crowding_.least(), kConfig.max_bytes);
  limit_ = std::min(limit_, window_);
}

// The next window is `next`, or more where the round that ends saw no queue. Another round ends the start.
std::uint64_t DelayWindow::Measured::beyond(std::uint64_t next, Duration wished) {
  const bool starts = phase_ == Phase::kStart;
  const bool delivered = round_.delivered();  // else the queue drops, or the path is bad
  // Its shortest round trip precedes the queue at its end.
  const bool found = starts && spread_ && round_.withheld >= round_.flight / 4;
  const bool no_queue = !found && delay_.met < wished / 2;
  // Timeouts before the path was known, or a few random losses of a window of a few packets: they do not end the start.
  const bool by_chance = starts && is_long_path() && !delivered && !round_.bad_before;
  round_.bad_before = !delivered;
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
  if (delay_.queue < queueing() / 2) covered = covered + kConfig.spread_late;
  return std::min(most, std::max(window_, content(rate_.best(), covered)));
}

void DelayWindow::Measured::shift_base(Duration by) {
  base_.shift(by);
  if (std::max(by, kNone - by) > base_rtt() / 4) forget_queue();
  delay_.lately = std::max(delay_.lately + by, kTick);
  round_.shift(by);
}

void DelayWindow::Measured::on_drops(const DelayWindow::Drops& drops, Instant now) {
  rooms_.reported.report(drops.drain, now);
  // A queue that many flows share may have no room for min_bytes of each.
  crowding_.on_report(drops.packet_bytes);
  round_.dropped = true;
  const std::uint64_t floor = std::max<std::uint64_t>(drops.packet_bytes, round_.flight / 2);
  if (window_ <= floor) return;
  losses_.verdict.on_notification();
  full_.begin_cut(full_.at_send(delay_.rtt, now), sample(), now);
  full_.cut_reported(std::max(floor, window_ - std::min(drops.bytes, window_)));
  apply_cut();
}

void DelayWindow::Measured::on_loss(std::uint64_t bytes, std::uint32_t packet_bytes, Instant now) {
  const bool absent = silence_.was_absent(base_rtt(), now);
  if (!absent) additive_.on_loss();
  crowding_.on_loss(now);
  if (crowding_.is_crowded()) return on_loss_in_crowd(bytes, packet_bytes, now);
  const bool excused = absent || losses_.by_queue.is_excused(now);
  const Duration least = std::max(rate_.time_for(packet_bytes), kConfig.full_least);
  const WindowAtSend at_send = full_.at_send(delay_.rtt, now);
  bool full = losses_.verdict.lost(bytes, packet_bytes, least, at_send, now);
  if (at_send == WindowAtSend::kReduced && losses_.verdict.loses_as_much(packet_bytes)) {
    if (full_.was_random_loss(sample(), losses_.verdict.is_capped(queueing() * 3 / 4))) return undo_cut();
    losses_.verdict.still_too_large();
    full = true;
  }
  if ((full || (delay_.queue > queueing() && window_ <= kConfig.min_bytes)) && !excused) {
    crowding_.on_full_queue();
    base_.note_full_queue();
  }
  if (!full) return;
  full_.begin_cut(at_send, sample(), now);
  full_.cut_lost(bytes, packet_bytes, bytes_in(rate_.best(), base_rtt()), crowding_.least());
  apply_cut();
}

// A window of a few packets shows too little of the queue for another verdict than: it is full. Then it was as long as
// it gets, and half of that is the target from now on.
void DelayWindow::Measured::on_loss_in_crowd(std::uint64_t bytes, std::uint32_t packet_bytes, Instant now) {
  if (window_ >= kConfig.min_bytes && losses_.by_queue.on_loss(bytes, packet_bytes, now)) {
    end_crowd();
    losses_.verdict.was_random();
  } else if (losses_.verdict.is_long()) {
    rooms_.learned.report(losses_.verdict.longest() * kConfig.room_part / 2, now);
  }
}

void DelayWindow::Measured::end_crowd() {
  if (!crowding_.is_crowded()) return;
  crowding_.end();
  rooms_.learned = {};
}

void DelayWindow::Measured::apply_cut() {
  window_ = std::min(window_, full_.most());
  limit_ = std::min(limit_, window_);
  phase_ = std::max(phase_, Phase::kSteady);
}

// The path has changed: nothing is known of its queues.
void DelayWindow::Measured::forget_queue() {
  full_ = {};
  losses_.verdict = {};
}

// The loss was random. The earlier window may be one of the start that grew beyond the window the rule now gives.
void DelayWindow::Measured::undo_cut() {
  losses_.verdict.was_random();
  window_ = std::max(window_, std::min(full_.first().window, content(rate_.best(), base_rtt() + queueing())));
  if (phase_ == Phase::kSteady && full_.first().starting) phase_ = Phase::kStart;
  full_ = {};
}

void DelayWindow::Measured::on_timeout() {
  base_.note_full_queue();
  window_ = std::max(crowding_.least(), window_ / 2);
  limit_ = window_;
  phase_ = Phase::kSteady;
  round_.begun = false;
}

}  // namespace brdma::congestion
