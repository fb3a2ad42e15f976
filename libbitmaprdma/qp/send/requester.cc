#include "qp/send/requester.h"

#include <algorithm>
#include <utility>

#include "qp/send/pacing.h"
#include "qp/send/requester_impl.h"

namespace brdma::qp {

Requester::Requester(Environment& environment, Identity& identity)
    : impl_(Parts{identity.type == QpType::kRc ? std::make_unique<Impl>(environment, identity) : nullptr}) {}
Requester::Parts::Parts(std::unique_ptr<Impl> parts) : impl_(std::move(parts)) {}
Requester::Parts::~Parts() = default;
Requester::~Requester() {
  if (impl_ != nullptr && impl_->timers.is_stalled()) impl_->env.count(Counter::kStallsEnded);
}

void Requester::start(Psn first) { impl_->begin_from(first); }

void Requester::reset() {
  impl_->queue.clear();
  impl_->begin_from(Psn{});
}

void Requester::flush(Instant now) {
  Impl& me = *impl_;
  while (!me.queue.empty()) me.completer().complete(CompletionStatus::kFlushed, now);
  me.progress().end_stall(now);
  me.forget_flight();
}

bool Requester::poll_requests(TransmitBatch& batch, Instant now) {
  return paced(Pacing{*this}.pace(), batch, now, [&] { return impl_->poll_requests(batch, now); });
}

bool Requester::Impl::poll_requests(TransmitBatch& batch, Instant now) {
  Impl& me = *this;
  if (!me.id.can_send() || me.rnr.waiting() || me.losses.recovery.paused(now)) return false;
  if (me.path.several && me.path.several->is_probe(batch.path()) && me.sprayed_requests().poll_probe(batch, now))
      [[unlikely]]
    return true;
  const bool resent = me.scoreboard.pending() > 0 && me.retransmissions().poll(batch, now);
  // New packets only after retransmissions: a standard peer takes nothing else.
  const bool added = me.scoreboard.pending() == 0 && me.poll_new(batch, now);
  if (resent || added) me.timers.on_activity(now);
  if (me.path.several && (resent || added)) me.path.several->batch_left(batch.path());
  // No credit, and nothing in flight whose acknowledgement could bring some: one packet probes for it.
  if (me.admission.wants_probe(me.scoreboard.flight())) [[unlikely]]
    me.admission.set_probe(now + me.timer_lengths().retransmission());
  return resent || added;
}

TransmitInterest Requester::interest(Instant now) const {
  Impl& me = *impl_;
  const TransmitInterest pending = me.pending_interest();
  if (pending == TransmitInterest::kNone || !me.has_output(now)) return TransmitInterest::kNone;
  if (const Pace own = Pacing{*this}.pace(); own.any() && own.allowance(now) == 0) return TransmitInterest::kNone;
  const bool probes = me.path.several && me.sprayed_requests().probe_due(now);
  return probes ? TransmitInterest::kForced : pending;
}

bool Requester::Impl::has_output(Instant now) {
  Impl& me = *this;
  if (!me.id.can_send() || me.rnr.waiting() || me.losses.recovery.paused(now)) return false;
  if (me.scoreboard.pending() > 0) return me.retransmissions().may_leave(now);
  return me.ready_to_send_new(now) || (me.path.several && me.sprayed_requests().probe_due(now));
}

// One message without retransmissions: some tens of microseconds for the driver, as long as an acknowledgement may
// wait.
bool Requester::ends_soon() const {
  constexpr std::uint64_t kSoonBytes = 512 * 1024;
  const Impl& me = *impl_;
  if (me.scoreboard.pending() > 0 || me.messages.all_left(me.scoreboard.next()) || !me.queue.nothing_behind())
    return false;
  const Message& last = me.messages[me.messages.size() - 1];
  return !last.answered() && last.length - last.payload_before(me.scoreboard.next(), me.id.mtu()) <= kSoonBytes;
}

bool Requester::all_complete() const { return impl_.as_it_is().queue.empty(); }

bool Requester::next_is_large() const { return impl_->message_start().next_is_large(); }

bool Requester::idle() const { return impl_->queue.head() == impl_->queue.next() && impl_->next.cut == 0; }

Outcome Requester::take_outcome(Instant now) { return impl_->outcome(now); }

std::uint32_t Requester::packets_in_flight() const { return impl_.as_it_is().scoreboard.flight().packets; }

Requester::Snapshot Requester::snapshot() const {
  const Impl& me = *impl_;
  const congestion::RateControl* const rate = own_rate(me.path.signals);
  return Snapshot{.base = me.scoreboard.base_psn(),
                  .next = me.scoreboard.next_psn(),
                  .operations = me.segments.size(),
                  .unacked = me.scoreboard.unacked(),
                  .pending = me.scoreboard.pending(),
                  .messages = me.messages.size(),
                  .work_requests = me.queue.tail() - me.queue.head(),
                  .flight_packets = me.scoreboard.flight().packets,
                  .responses_messages = me.responses.messages(),
                  .responses_packets = me.responses.packets(),
                  .flight_bytes = me.scoreboard.flight().bytes,
                  .pipe_bytes = me.scoreboard.flight().pipe,
                  .responses_bytes = me.responses.bytes(),
                  .congestion_bytes = me.path.congestion.bounded() ? me.path.congestion.bytes() : 0,
                  .rate = rate != nullptr ? std::optional{rate->rate()} : std::nullopt,
                  .response_rate = response_pace(me.path.signals) != nullptr
                                       ? std::optional{response_pace(me.path.signals)->rate.rate()}
                                       : std::nullopt,
                  .srtt = me.path.rtt.smoothed(),
                  .base_rtt = me.path.congestion.base_rtt(),
                  .waits_for_receiver = me.rnr.waiting(),
                  .window = me.scoreboard.entries_max(),
                  .looked_at = me.scoreboard.looked_at(),
                  .bitmap = me.scoreboard.use()};
}

namespace {

// At most as long as its entries fit half of the allowed state; the rest is the receiving half's.
bitmap::WindowShape send_shape(const RecoveryConfig& recovery) {
  bitmap::WindowShape shape = window_shape(recovery);
  const auto affordable = static_cast<std::uint32_t>(recovery.state_bytes_max / 2 / sizeof(bitmap::SendEntry));
  shape.window = std::min(shape.window, affordable);
  return shape;
}

}  // namespace

Requester::Impl::Impl(Environment& environment, Identity& identity)
    : env(environment),
      id(identity),
      queue(identity.capabilities),
      scoreboard(send_shape(*identity.recovery), environment.pools.segments) {}

void Requester::Impl::begin_from(Psn first) {
  forget_flight();
  path.several.reset();
  response_receiver.restart();
  scoreboard.begin_from(first);
  segments.restart();
  next.restart();
  losses.judge.reset();
  if (SenderJudge::is_wanted(id.recovery->mode)) losses.judge = std::make_unique<SenderJudge>(*id.recovery);
  path.rtt = recovery::RttEstimator{};
  path.congestion = {};
  responses.reset();
  path.signals.reset();
  sending_rate().configure();
  if (timers.is_stalled()) env.count(Counter::kStallsEnded);
  timers = RetransmissionTimers{};
  losses.feedback_order = recovery::FeedbackOrder{};
  admission.reset();
  fault.forget_lost();
}

void Requester::Impl::forget_flight() {
  messages.clear();
  segments.forget_flight();
  scoreboard.forget_flight();
  response_receiver.forget_flight(scoreboard.base());
  losses.recovery.end(env.pools.loss_recovery);
  if (losses.judge != nullptr && losses.judge->delays() != nullptr) losses.judge->delays()->forget_flight();
  if (path.several) path.several->forget_flight();
  responses.forget_flight();
  next.forget_flight();
  admission.forget_flight();
  rnr = ReceiverNotReady{};
  fault.clear();
  timers.forget_timeouts();
}

congestion::ManagedDestination* Requester::managed() const {
  return impl_ != nullptr && impl().path.signals ? impl().path.signals->managed : nullptr;
}

Bandwidth Requester::delivered() const {
  if (impl_ == nullptr) return {};
  // The window's own rate covers rounds that it bounded: without a bound, or with little to send, there are none.
  return Bandwidth::from_bps(std::max(impl_->path.congestion.delivered(), impl_->path.congestion.throughput()) * 8);
}

void Requester::bitmap_agreed(Instant now) {
  if (impl_ == nullptr) return;  // UC, UD
  if (impl_->losses.judge) impl_->sent_packets().judgement().on_bitmap_agreed(now);
}

}  // namespace brdma::qp
