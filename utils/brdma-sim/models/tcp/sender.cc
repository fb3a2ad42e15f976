#include "models/tcp/sender.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::models::tcp {

TcpSender::TcpSender(FlowId flow, const Settings& settings)
    : flow_(flow),
      settings_(settings),
      board_(settings.sizes.payload),
      window_(make_window(settings)),
      rto_(settings.rto) {
  if (settings.known_rtt > Duration{}) {
    rto_.sample(settings.known_rtt);
    rack_.on_rtt(settings.known_rtt);
  }
}

void TcpSender::start(std::uint64_t bytes, Instant now) {
  BRDMA_CHECK(!started_at_ && bytes > 0);
  started_at_ = now;
  board_.start(bytes);
}

void TcpSender::on_frame(const Frame& frame, Instant now) {
  BRDMA_CHECK(frame.flow == flow_);
  if (!started_at_ || done()) return;
  if (frame.kind == FrameKind::kAck) on_ack(frame, now);
  if (frame.kind == FrameKind::kDropped && settings_.edn) on_notice(frame, now);
}

void TcpSender::sample_rtt(const Frame& frame, Instant now) {
  const Duration rtt = now - frame.echo;
  rto_.sample(rtt);
  rack_.on_rtt(rtt);
}

// True if the ACK acknowledges or SACKs something.
bool TcpSender::take_delivered(const Frame& frame, Instant now) {
  const std::vector<Delivered>& delivered = board_.acknowledge(frame);
  const bool resent =
      std::any_of(delivered.begin(), delivered.end(), [](const Delivered& each) { return each.resent; });
  if (!delivered.empty() && (settings_.timestamps || !resent)) sample_rtt(frame, now);
  if (settings_.rack_tlp) {
    for (const Delivered& each : delivered) rack_.on_delivered(each, frame, now);
    if (!frame.duplicate.empty()) rack_.on_duplicate(board_.una_bytes(), board_.next_bytes());
  }
  return !delivered.empty();
}

void TcpSender::on_ack(const Frame& frame, Instant now) {
  const std::uint64_t before = board_.una_bytes();
  const bool progress = take_delivered(frame, now);
  const bool repaired = probe_.on_ack(frame, progress) == ProbeOutcome::kLossRepaired;
  if (repaired && recovery_.state == State::kOpen) {
    window_->on_loss(flight(), now);
    ++counters_.reductions;
  }
  if (board_.una_bytes() > before) {
    on_advance(board_.una_bytes() - before, now);
  } else if (!settings_.sack && board_.outstanding()) {
    on_duplicate_ack(now);
  }
  if (settings_.sack) detect_losses(now);
  if (progress) arm_probe(now);
}

void TcpSender::on_advance(std::uint64_t acked, Instant now) {
  rto_deadline_.reset();
  if (board_.outstanding()) rto_deadline_ = now + rto_.rto();
  recovery_.duplicate_acks = 0;
  const bool over = board_.una_bytes() >= recovery_.point;
  if (recovery_.state != State::kRecovery) {
    window_->on_ack(acked, rto_.srtt().value_or(Duration{}), now);
    recovery_.inflation = 0;  // of limited transmit
    if (recovery_.state == State::kLoss && over) leave_recovery();
  } else if (over) {
    leave_recovery();
  } else if (!settings_.sack && board_.mark_lost(board_.una(), Cause::kFeedback)) {  // a partial ACK
    const std::uint64_t deflated = recovery_.inflation - std::min(recovery_.inflation, acked);
    recovery_.inflation = deflated + (acked >= settings_.sizes.payload ? settings_.sizes.payload : 0);
    recovery_.forced = 1;
  }
}

void TcpSender::on_duplicate_ack(Instant now) {
  ++recovery_.duplicate_acks;
  if (recovery_.state == State::kLoss) return;
  recovery_.inflation += settings_.sizes.payload;
  if (recovery_.state == State::kRecovery || recovery_.duplicate_acks < Scoreboard::kDupThresh) return;
  board_.mark_lost(board_.una(), Cause::kFeedback);
  enter_recovery(now);
  recovery_.inflation = Scoreboard::kDupThresh * settings_.sizes.payload;
}

Duration TcpSender::rack_window() const {
  return rack_.window(recovery_.state != State::kOpen, board_.sacked(), rto_.srtt());
}

void TcpSender::detect_losses(Instant now) {
  const bool any = settings_.rack_tlp ? rack_.detect(board_, rack_window(), now) : board_.mark_lost_by_sack();
  if (any && recovery_.state == State::kOpen) enter_recovery(now);
}

void TcpSender::enter_recovery(Instant now) {
  window_->on_loss(flight(), now);
  ++counters_.reductions;
  board_.begin_recovery();
  recovery_.state = State::kRecovery;
  recovery_.point = board_.next_bytes();
  recovery_.forced = 1;
  probe_.cancel();
}

void TcpSender::leave_recovery() {
  rack_.on_recovery_end();
  recovery_.state = State::kOpen;
  recovery_.inflation = 0;
  recovery_.forced = 0;
}

void TcpSender::on_notice(const Frame& frame, Instant now) {
  const SegmentIndex index = frame.sequence / settings_.sizes.payload;
  if (index < board_.una() || index >= board_.next() || board_.at(index).sent_at != frame.echo) return;
  if (!board_.mark_lost(index, Cause::kNotified)) return;
  if (recovery_.state == State::kOpen) {
    enter_recovery(now);
  } else if (!settings_.edn_paced) {
    ++recovery_.forced;
  }
}

void TcpSender::on_timeout(Instant now) {
  ++counters_.timeouts;
  ++counters_.reductions;
  window_->on_timeout(flight(), rto_.expiries() > 0);
  if (settings_.rack_tlp) {
    rack_.mark_on_timeout(board_, rack_window(), now);
  } else {
    board_.mark_all_lost(Cause::kTimeout);
  }
  rto_.back_off();
  rto_deadline_ = now + rto_.rto();
  board_.begin_recovery();
  recovery_ = Recovery{State::kLoss, board_.next_bytes(), 0, 0, 1, false};
  probe_.forget();
}

void TcpSender::arm_probe(Instant now) {
  probe_.cancel();
  if (!settings_.rack_tlp || recovery_.state != State::kOpen || probe_.is_out() || recovery_.probe_due) return;
  if (!board_.outstanding() || board_.sacked() > 0 || !rto_deadline_) return;
  const bool one = board_.next() - board_.una() == 1;
  probe_.schedule(now + Probe::timeout(rto_.srtt(), one, settings_.worst_ack_delay), *rto_deadline_);
}

void TcpSender::on_probe_time(Instant now) {
  probe_.cancel();
  recovery_.probe_due = true;
  ++counters_.probes;
  rto_deadline_ = now + rto_.rto();
}

std::optional<Instant> TcpSender::next_deadline() const {
  std::optional<Instant> next = rto_deadline_;
  for (const std::optional<Instant>& each : {probe_.deadline(), rack_.deadline()}) {
    if (each && (!next || *each < *next)) next = each;
  }
  return next;
}

void TcpSender::on_deadline(Instant now) {
  if (done()) return;
  if (rack_.deadline() && *rack_.deadline() <= now) detect_losses(now);
  if (probe_.deadline() && *probe_.deadline() <= now) {
    on_probe_time(now);
  } else if (rto_deadline_ && *rto_deadline_ <= now) {
    on_timeout(now);
  }
}

std::optional<TcpSender::Plan> TcpSender::plan_probe() const {
  if (board_.has_new()) return Plan{board_.next(), true, Cause::kProbe};
  const auto last = board_.last_in_flight();
  if (!last) return std::nullopt;
  return Plan{*last, false, Cause::kProbe};
}

std::optional<TcpSender::Plan> TcpSender::plan_in_window() const {
  if (board_.has_new()) {
    if (!has_room(board_.size_of(board_.next()))) return std::nullopt;
    return Plan{board_.next(), true, Cause::kFeedback};
  }
  if (!settings_.sack || settings_.rack_tlp || recovery_.state != State::kRecovery) return std::nullopt;
  const auto doubtful = board_.first_doubtful();
  if (!doubtful || !has_room(board_.size_of(*doubtful))) return std::nullopt;
  return Plan{*doubtful, false, Cause::kFeedback};
}

std::optional<TcpSender::Plan> TcpSender::plan() const {
  if (!started_at_ || done()) return std::nullopt;
  if (const auto lost = board_.first_lost()) {
    if (recovery_.forced == 0 && !has_room(board_.size_of(*lost))) return std::nullopt;
    return Plan{*lost, false, board_.at(*lost).cause};
  }
  if (recovery_.probe_due) {
    if (const auto probe = plan_probe()) return probe;
  }
  return plan_in_window();
}

std::optional<Instant> TcpSender::ready_at() const { return plan() ? started_at_ : std::nullopt; }

void TcpSender::on_sent(const Plan& plan, Instant now) {
  ++counters_.sent;
  if (plan.is_new) {
    board_.send_new(now);
  } else {
    ++counters_.again[static_cast<std::size_t>(plan.cause)];
    if (plan.cause != Cause::kProbe && recovery_.forced > 0) --recovery_.forced;
    if (plan.index == board_.una()) rto_deadline_ = now + rto_.rto();
    board_.send_again(plan.index, now);
  }
  if (!rto_deadline_) rto_deadline_ = now + rto_.rto();
  if (recovery_.probe_due) {
    recovery_.probe_due = false;
    probe_.on_sent(board_.next_bytes(), !plan.is_new);
    probe_.cancel();
  } else if (plan.is_new) {
    arm_probe(now);
  }
}

std::optional<Frame> TcpSender::next_frame(Instant now) {
  const auto chosen = plan();
  if (!chosen) return std::nullopt;
  Frame frame;
  frame.flow = flow_;
  frame.sequence = board_.begin_of(chosen->index);
  frame.length = board_.size_of(chosen->index);
  frame.wire_bytes = frame.length + settings_.sizes.header;
  frame.last = frame.end() == board_.bytes();
  frame.again = !chosen->is_new;
  frame.sent_at = now;
  on_sent(*chosen, now);
  return frame;
}

}  // namespace brdma::models::tcp
