#include "qp/receive/responder.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "qp/state/pending.h"

namespace brdma::qp {

Responder::Impl::Impl(const Environment& environment, Identity& owner)
    : env(environment), identity(owner), receives(owner), window(Psn{}, window_shape(recovery()), env.segments) {}

// For the first early packet only.
void Responder::Impl::begin_out_of_order() {
  if (out_of_order != nullptr) return;
  out_of_order = env.out_of_order_states.take();
  out_of_order->early.begin(mtu, recovery().hold_bytes_max, window_shape(recovery()), env.segments);
  out_of_order->gaps.begin(bitmap::gaps_max(recovery().window_packets));
  out_of_order->watch = GapWatch{};
  out_of_order->feedback = FeedbackWatch{};
  out_of_order->gaps_looked_at = 0;
  out_of_order->ranges_reported = RangesReported{};
  out_of_order->go_back = GoBack{};
  out_of_order->receive_wait = ReceiveWait{};
}

// All is in order again, or no packet is accepted any more.
void Responder::Impl::end_out_of_order() {
  if (out_of_order == nullptr) return;
  out_of_order->gaps.clear();
  out_of_order->early.clear();
  env.out_of_order_states.give(std::exchange(out_of_order, nullptr));
}

void Responder::Impl::start(Psn first) {
  reset_connection();
  mtu = identity.mtu();
  window = bitmap::ReceiveWindow{first, window_shape(recovery()), env.segments};
  resources.reset(identity.attributes.max_dest_rd_atomic);
  started = true;
}

// Everything but the posted receives: those posted in INIT stay.
void Responder::Impl::reset_connection() {
  end_out_of_order();
  response_paths.reset();
  response_log.reset();
  operations.clear();
  resources.reset(0);
  message = Message{};
  msn = rsn = 0;
  started = halted = bitmap_seen = established = false;
  base_packet = BasePacket{};
  ack = AcknowledgementSchedule{};
  echo = TimestampEcho{};
  tolerance.restart();
  feedback = GapFeedback{};
  owed.reset();
}

Status Responder::Impl::post_receive(const ReceiveRequest& request) {
  const Status status = receives.post(request);
  if (status.ok()) receive_posted();
  return status;
}

// Responses in progress still leave: the NAK that reports the error is among them.
void Responder::Impl::flush(Instant now) {
  // Of a shared queue's receives, the one that a message has begun to fill is used up; the others go back.
  std::size_t flushed = identity.srq == nullptr ? receives.size() : message.kind == Message::Kind::kSend ? 1 : 0;
  for (; flushed > 0; --flushed) {
    Completion completion;
    completion.wr_id = receives[0].wr_id;
    completion.status = CompletionStatus::kFlushed;
    completion.opcode = CompletionOpcode::kReceive;
    completion.qp_num = identity.qpn;
    receives.pop();
    env.complete(*identity.receive_cq, completion, /*solicited=*/true, now);
  }
  receives.clear();
  message = Message{};
  halted = true;
  end_out_of_order();
  if (ReceivePaths* const several = tolerance.paths()) several->clear();
  ack = AcknowledgementSchedule{};
  echo = TimestampEcho{};
  base_packet.forget_waiting();
  feedback.cancel();
}

Outcome Responder::Impl::handle_timeout(Instant now) {
  last_call = now;
  Outcome outcome = owed.value_or(Outcome{});
  owed.reset();
  if (halted) return outcome;
  ack.on_time(ack_delay(), now);
  const bool none_escaped = operations.escape().empty();
  if (!none_escaped && operation_receiver().expire(feedback.round_trip(), now)) request_gaps().judge_all(now, now);
  if (base_packet.retry_due()) {
    retry_base(outcome, now);
    return outcome;
  }
  if (out_of_order == nullptr) return outcome;
  if (const auto until = out_of_order->receive_wait.until; until && now >= *until) refuse_waiting();
  request_gaps().on_time(now);
  return outcome;
}

std::optional<Instant> Responder::Impl::next_timeout() const {
  if (owed || base_packet.retry_due()) return last_call;  // at once
  std::optional<Instant> next;
  const auto sooner = [&next](Instant candidate) {
    if (!next || candidate < *next) next = candidate;
  };
  if (out_of_order != nullptr) {
    next = out_of_order->watch.next_event(/*naming=*/feedback.due());
    if (const auto until = out_of_order->receive_wait.until) sooner(*until);
  }
  if (ack.pending() && !ack.forced()) sooner(acknowledgement_deadline());
  if (const auto expiry = operations.next_expiry(env.config.transfer, feedback.round_trip())) sooner(*expiry);
  return next;
}

std::size_t Responder::Impl::records_bytes() const {
  if (out_of_order == nullptr) return 0;
  return out_of_order->early.state_bytes() + out_of_order->gaps.size() * sizeof(bitmap::GapRecord);
}

Responder::Responder(const Environment& environment, Identity& identity)
    : impl_(identity.type == QpType::kRc ? std::make_unique<Impl>(environment, identity) : nullptr) {}
Responder::~Responder() = default;

Status Responder::post_receive(const ReceiveRequest& request) { return impl_->post_receive(request); }
void Responder::receive_posted() { impl_->receive_posted(); }
void Responder::start(Psn first) { impl_->start(first); }
void Responder::reset() {
  impl_->reset_connection();
  impl_->receives.clear();
}
void Responder::flush(Instant now) { impl_->flush(now); }
Outcome Responder::handle_request(const wire::Packet& packet, Instant now) {
  return impl_->handle_request(packet, now);
}
Outcome Responder::handle_timeout(Instant now) { return impl_->handle_timeout(now); }
std::optional<Instant> Responder::next_timeout() const { return impl_->next_timeout(); }

bool Responder::poll_responses(TransmitBatch& batch, Instant now, bool naks) {
  Impl& me = *impl_;
  if (me.resources.empty()) return false;
  const auto send_nak = [&](const wire::Aeth& aeth, Psn psn, bool bitmap) {
    return me.send_acknowledgement(batch, aeth, psn, bitmap, now);
  };
  return me.response_sender().poll(batch, naks, send_nak, now);
}
bool Responder::poll_feedback(TransmitBatch& batch, Instant now) {
  Impl& me = *impl_;
  if (!me.feedback.due()) [[likely]]
    return false;
  const FeedbackSender::Sent sent = me.feedback_sender().poll(batch, now);
  if (sent == FeedbackSender::Sent::kAll) me.request_gaps().judge_all(now, now);
  return sent != FeedbackSender::Sent::kNothing;
}
bool Responder::poll_acknowledgement(TransmitBatch& batch, Instant now) {
  return impl_->poll_acknowledgement(batch, now);
}
bool Responder::has_output(Instant now) const {
  return !impl_->resources.empty() || impl_->feedback.due() || impl_->acknowledgement_due(now);
}
bool Responder::only_deferrable(Instant now, int delays) const {
  return impl_->resources.empty() && !impl_->feedback.due() && impl_->acknowledgement_deferrable(now, delays);
}
bool Responder::has_responses() const {
  return !impl_->resources.empty() && impl_->resources.front().kind != Response::Kind::kNak;
}
bool Responder::has_ordered_output() const {
  return impl_->feedback.due() || (!impl_->resources.empty() && impl_->resources.front().kind == Response::Kind::kNak);
}
std::uint8_t Responder::response_path(std::span<const recovery::PathFacts> sending, Instant now) {
  return impl_->sprayed_responses().next_path(impl_->resources.front(), sending, now);
}
void Responder::change_path() { impl_->ack_loss.change_path(); }
std::uint32_t Responder::path_changes() const { return impl_->ack_loss.changes(); }
void Responder::acknowledge_now() { impl_->ack.force_pending(); }
bool Responder::piggyback_acknowledgement(TransmitBatch& batch, Instant now) {
  if (!impl_->ack.pending() && !impl_->ack.repeats()) return false;  // no acknowledgement pending
  return impl_->piggyback_acknowledgement(batch, now);
}
bool Responder::in_midst_of_message() const { return impl_->message.kind != Impl::Message::Kind::kNone; }
void Responder::send_final_acks() { impl_->send_final_acks(); }
std::uint64_t Responder::handle_edn(const wire::Edn& edn, Instant now) {
  impl_->last_call = now;
  return impl_->repeated_responses().on_report(edn, now);
}
// Resent data may have carried an acknowledgement: it carries the present one.
void Responder::repeat_with_data() {
  if (impl_->established && !impl_->halted) impl_->ack.repeat_with_data();
}
Responder::Snapshot Responder::snapshot() const {
  const Impl& me = *impl_;
  return {.next = me.base(),
          .highest = me.window.highest(),
          .msn = me.msn,
          .early_packets = me.out_of_order == nullptr ? 0 : me.out_of_order->early.size(),
          .held_bytes = me.out_of_order == nullptr ? 0 : me.out_of_order->early.held_bytes(),
          .gaps = me.out_of_order == nullptr ? 0 : me.out_of_order->gaps.size(),
          .gaps_looked_at = me.out_of_order == nullptr ? 0 : me.out_of_order->gaps_looked_at,
          .limits = me.tolerance.limits(me.recovery()),
          .window = me.window.window(),
          .bitmap = me.window.use(),
          .state_bytes = me.window.allocated_bytes() + me.records_bytes(),
          .operations = me.operations.registered().size(),
          .escaped = me.operations.escape().size(),
          .responses = me.resources.size(),
          .receives = me.receives.size()};
}
void Responder::recovery_changed(Instant now) {
  Impl& me = *impl_;
  me.tolerance.configure(me.recovery());
  if (!me.halted && me.out_of_order != nullptr) me.request_gaps().judge_again(now);
}

PeerCredit Responder::own_credit() const { return impl_->env.credit_share(); }

}  // namespace brdma::qp
