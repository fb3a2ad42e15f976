#include "qp/receive/responder.h"

#include <utility>

#include "qp/receive/responder_impl.h"

namespace brdma::qp {

Responder::Impl::Impl(Environment& environment, Identity& owner)
    : env(environment), identity(owner), receives(owner), window(Psn{}, window_shape(recovery()), env.pools.segments) {}

void Responder::Impl::start(Psn first) {
  reset_connection();
  connection.mtu = identity.mtu();
  connection.started = true;
  window = bitmap::ReceiveWindow{first, window_shape(recovery()), env.pools.segments};
  responses.restart(identity.attributes.max_dest_rd_atomic);
}

// Everything but the posted receives: those posted in INIT stay.
void Responder::Impl::reset_connection() {
  early_room().end();
  responses.restart(0);
  operations.clear();
  messages = ReceivedMessages{};
  connection = Connection{};
  base_packet = BasePacket{};
  acknowledgements = Acknowledgements{};
  ack_loss = AcknowledgementLoss{};
  tolerance.restart();
  feedback = GapFeedback{};
}

// Responses in progress still leave: the NAK that reports the error is among them.
void Responder::Impl::flush(Instant now) {
  UsedReceives{{env, identity, receives, messages}}.flush(now);
  messages.abandon();
  connection.halted = true;
  early_room().end();
  if (ReceivePaths* const several = tolerance.paths()) several->clear();
  acknowledgements = Acknowledgements{};
  base_packet.forget_waiting();
  feedback.cancel();
}

Outcome Responder::Impl::handle_timeout(Instant now) {
  last_call = now;
  Outcome outcome;
  if (std::exchange(responses.read_refused, false)) outcome = Outcome{true, kEventQpAccessError};
  if (connection.halted) return outcome;
  acknowledgements.schedule.on_time(acknowledgement_times().delay(), now);
  const bool none_escaped = operations.escape().empty();
  if (!none_escaped && operation_receiver().expire(feedback.round_trip(), now)) request_gaps().judge_all(now, now);
  if (base_packet.retry_due()) {
    retry_base(outcome, now);
    return outcome;
  }
  if (!out_of_order) return outcome;
  unready_requests().on_time(now);
  request_gaps().on_time(now);
  return outcome;
}

std::optional<Instant> Responder::Impl::next_timeout() const {
  if (responses.read_refused || base_packet.retry_due()) return last_call;  // at once
  std::optional<Instant> next;
  const auto sooner = [&next](Instant candidate) {
    if (!next || candidate < *next) next = candidate;
  };
  if (out_of_order) {
    next = out_of_order->watch.next_event(/*naming=*/feedback.due());
    if (const auto until = out_of_order->receive_wait.until) sooner(*until);
  }
  const AcknowledgementSchedule& schedule = acknowledgements.schedule;
  if (schedule.pending() && !schedule.forced()) sooner(acknowledgement_times().deadline());
  if (const auto expiry = operations.next_expiry(env.config.transfer, feedback.round_trip())) sooner(*expiry);
  return next;
}

Responder::Responder(Environment& environment, Identity& identity)
    : impl_(identity.type == QpType::kRc ? std::make_unique<Impl>(environment, identity) : nullptr) {}
Responder::~Responder() = default;

Status Responder::post_receive(const ReceiveRequest& request) {
  const Status status = impl_->receives.post(request);
  if (status.ok()) receive_posted();
  return status;
}
void Responder::receive_posted() { impl_->base_packet.on_receive_posted(); }
void Responder::start(Psn first) { impl_->start(first); }
void Responder::reset() {
  impl_->reset_connection();
  impl_->receives.clear();
  if (impl_->identity.xrc == XrcRole::kTarget) impl_->xrc_target().forget();
}
void Responder::forget_source(const SharedReceiveQueue* srq) {
  if (impl_ != nullptr && impl_->identity.xrc == XrcRole::kTarget && impl_->identity.srq == srq)
    impl_->xrc_target().forget();
}
void Responder::flush(Instant now) { impl_->flush(now); }
Outcome Responder::handle_request(const wire::Packet& packet, Instant now) {
  return impl_->handle_request(packet, now);
}
Outcome Responder::handle_timeout(Instant now) { return impl_->handle_timeout(now); }
std::optional<Instant> Responder::next_timeout() const { return impl_->next_timeout(); }

bool Responder::poll_responses(TransmitBatch& batch, Instant now, bool naks) {
  Impl& me = *impl_;
  if (me.responses.resources.empty()) return false;
  const auto send_nak = [&](const wire::Aeth& aeth, Psn psn, bool bitmap) {
    return me.acknowledgement_writer().refuse(batch, aeth, psn, bitmap, now);
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
  Impl& me = *impl_;
  if (!me.acknowledgement_times().due(now)) return false;
  return me.acknowledgement_writer().write(batch, me.speaks_bitmap(), !me.responses.resources.empty(), now);
}
TransmitInterest Responder::interest(Instant now) const {
  const Impl& me = *impl_;
  const ResponderResources& resources = me.responses.resources;
  if (me.feedback.due() || (!resources.empty() && resources.front().kind == Response::Kind::kNak))
    return TransmitInterest::kForced;
  const TransmitInterest response = resources.empty() ? TransmitInterest::kNone : TransmitInterest::kResponse;
  if (!me.acknowledgements.schedule.pending()) return response;
  return merge(response, me.acknowledgement_times().interest(now));
}
bool Responder::may_wait_for_data(int delays, Instant now) const {
  const Impl& me = *impl_;
  return me.responses.resources.empty() && !me.feedback.due() && me.acknowledgement_times().deferrable(delays, now);
}
bool Responder::has_responses() const {
  const ResponderResources& resources = impl_->responses.resources;
  return !resources.empty() && resources.front().kind != Response::Kind::kNak;
}
bool Responder::has_ordered_output() const {
  const ResponderResources& resources = impl_->responses.resources;
  return impl_->feedback.due() || (!resources.empty() && resources.front().kind == Response::Kind::kNak);
}
std::uint8_t Responder::response_path(std::span<const recovery::PathFacts> sending, Instant now) {
  return impl_->sprayed_responses().next_path(impl_->responses.resources.front(), sending, now);
}
void Responder::change_path() { impl_->ack_loss.change_path(); }
std::uint32_t Responder::path_changes() const { return impl_->ack_loss.changes(); }
void Responder::acknowledge_now() { impl_->acknowledgements.schedule.force_pending(); }
bool Responder::piggyback_acknowledgement(TransmitBatch& batch, Instant now) {
  Impl& me = *impl_;
  const AcknowledgementSchedule& schedule = me.acknowledgements.schedule;
  if (!schedule.pending() && !schedule.repeats()) return false;
  const AcknowledgementWriter writer = me.acknowledgement_writer();
  if (!writer.may_piggyback() || (!me.acknowledgement_times().due(now) && !schedule.repeats())) return false;
  return writer.add_to_data(batch, now);
}
bool Responder::in_midst_of_message() const { return impl_->messages.in_progress(); }
void Responder::send_final_acks() {
  if (impl_->connection.acknowledges()) impl_->acknowledgements.schedule.force_last();
}
std::uint64_t Responder::handle_edn(const wire::Edn& edn, Instant now) {
  impl_->last_call = now;
  return impl_->repeated_responses().on_report(edn, now);
}
bool Responder::has_refused() const { return impl_->responses.refusal != nullptr; }
void Responder::repeat_refusal(const wire::Packet& packet) {
  Responses& responses = impl_->responses;
  if (!responses.refusal || !responses.resources.empty()) return;
  const std::uint32_t psns = psns_of(packet, impl_->connection.mtu);
  if (distance(packet.bth.psn + (psns - 1), responses.refusal->psn) >= 0) responses.resources.push(*responses.refusal);
}

// Resent data may have carried an acknowledgement: it carries the present one.
void Responder::repeat_with_data() {
  if (impl_->connection.acknowledges()) impl_->acknowledgements.schedule.repeat_with_data();
}
Responder::Snapshot Responder::snapshot() const {
  const Impl& me = *impl_;
  return {.next = me.base(),
          .highest = me.window.highest(),
          .msn = me.messages.msn(),
          .early_packets = !me.out_of_order ? 0 : me.out_of_order->early.size(),
          .held_bytes = !me.out_of_order ? 0 : me.out_of_order->early.held_bytes(),
          .gaps = !me.out_of_order ? 0 : me.out_of_order->gaps.size(),
          .gaps_looked_at = !me.out_of_order ? 0 : me.out_of_order->gaps_looked_at,
          .limits = me.tolerance.limits(me.recovery()),
          .window = me.window.window(),
          .bitmap = me.window.use(),
          .state_bytes = me.window.allocated_bytes() + me.out_of_order.records_bytes(),
          .operations = me.operations.registered().size(),
          .escaped = me.operations.escape().size(),
          .responses = me.responses.resources.size(),
          .receives = me.receives.size()};
}
void Responder::recovery_changed(Instant now) {
  Impl& me = *impl_;
  me.tolerance.configure(me.recovery());
  if (!me.connection.halted && me.out_of_order) me.request_gaps().judge_again(now);
}

PeerCredit Responder::own_credit() const { return impl_->env.credit_share(); }

}  // namespace brdma::qp
