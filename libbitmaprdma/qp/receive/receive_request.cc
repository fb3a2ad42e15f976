// qp/receive/receive_request.cc - admission of a request: in order, ahead, or a duplicate (design BR-2 to
// BR-4).
#include "qp/receive/responder_impl.h"

namespace brdma::qp {
namespace {

// A packet of an operation was executed in order.
void operation_executed(Responder::Impl& me, const wire::Packet& packet, Instant now) {
  if (packet.bxth.operation_start) me.operation_receiver().begin(packet, now);  // its bit is set already
  me.operations.executed(packet, me.connection.mtu, me.env, me.identity, now);
}

// The packet at the base was executed.
void executed(Responder::Impl& me, const wire::Packet& packet, Outcome& outcome, Instant now) {
  if (in_operation(packet)) operation_executed(me, packet, now);
  if (!me.connection.established) [[unlikely]] {
    me.connection.established = true;
    if (me.identity.state == QpState::kRtr) outcome.async_event = kEventCommEstablished;
  }
  // READs, atomics and the like are acknowledged by their responses.
  if (wire::is_write(packet.op) || wire::is_send(packet.op))
    me.acknowledgements.schedule.on_packet(packet.bth.ack_request, me.speaks_bitmap(), now);
  if (me.window.empty()) [[likely]] {
    me.advanced(packet);
  } else {
    me.fill_gap(packet, outcome, now);
  }
}

// It was not.
void not_executed(Responder::Impl& me, Verdict verdict, const wire::Packet& packet, Outcome& outcome, Instant now) {
  if (verdict == Verdict::kNotReady) {
    const UnreadyRequests unready = me.unready_requests();
    if (unready.keep(packet, now)) return me.request_gaps().on_base_held(packet, now);
    unready.refuse(packet);
    me.drop(DropReason::kReceiverNotReady, packet, now);
  } else if (verdict == Verdict::kNotFetched) {
    me.drop(DropReason::kFetchFailed, packet, now);
  } else {
    me.fail(verdict, packet.bth.psn, outcome);
  }
}

// Of a packet beyond the base.
bitmap::Arrival arrival_of(const Responder::Impl& me, const wire::Packet& packet) {
  // For an operation, the mask shows a duplicate at once.
  if (in_operation(packet) && me.operations.look(packet, me.connection.mtu) == registry::Match::kDuplicate) {
    me.env.count(Counter::kOperationDuplicates);
    return bitmap::Arrival::kDuplicate;
  }
  return me.window.classify(packet.bth.psn);
}

// A new packet beyond the base. Nothing: it is kept.
std::optional<DropReason> keep_early(Responder::Impl& me, const wire::Packet& packet, bitmap::Arrival arrival,
                                     Instant now) {
  const EarlyRoom room = me.early_room();
  room.begin();
  if (arrival == bitmap::Arrival::kBeyondWindow) return DropReason::kOutOfWindow;
  if (room.is_full() || !room.has_record(packet)) return DropReason::kStateFull;
  return me.early_placement().keep(packet, now);
}

// It was not kept.
void drop_early(Responder::Impl& me, DropReason reason, const wire::Packet& packet, Instant now) {
  // Only a NAK reports the gap to a standard peer: a packet that cannot be kept cannot be waited for.
  const bool out_of_reach = reason == DropReason::kOutOfWindow || reason == DropReason::kStateFull;
  if (out_of_reach && !me.speaks_bitmap()) me.sequence_nak().request();
  me.early_room().end_if_in_order();
  me.drop(reason, packet, now);
}

// It was kept.
void kept_early(Responder::Impl& me, const wire::Packet& packet, Instant newest_before, Instant now) {
  const Psn psn = packet.bth.psn, previous_highest = me.window.highest();
  const std::uint32_t count = psns_of(packet, me.connection.mtu);
  if (count == 1) {
    me.window.receive(psn);
  } else {
    me.window.receive_run(psn, count);
  }
  if (ReceivePaths* const several = me.tolerance.paths(); several != nullptr && packet.bitmap) [[unlikely]]
    several->received(packet.bxth.path, me.base(), psn, count);
  const bool base_due = me.messages.in_progress() && me.acknowledgements.echo.valid();
  me.request_gaps().on_early(packet, previous_highest, base_due ? std::optional{newest_before} : std::nullopt, now);
  if (me.speaks_bitmap())  // a standard ACK could not report it
    me.acknowledgements.schedule.on_packet(packet.bth.ack_request, /*bitmap=*/true, now);
}

}  // namespace

Outcome Responder::Impl::handle_request(const wire::Packet& packet, Instant now) {
  last_call = now;
  Outcome outcome;
  if (!connection.serves()) [[unlikely]] {
    drop(DropReason::kAfterError, packet, now);
    return outcome;
  }
  if (fast_writes().take_middle(packet, now)) return outcome;
  const Instant newest_before = acknowledgements.echo.newest_arrival();
  if (packet.bxth.by_reference() && !LocalFetch{{env, identity, out_of_order.get(), connection.mtu}}.admits(packet))
      [[unlikely]] {
    drop(DropReason::kBadDescription, packet, now);
    return outcome;
  }
  if (packet.bitmap) {
    connection.bitmap_seen = true;
    packet_echo().on_packet(packet, tolerance, now);
  }
  const std::int32_t offset = distance(packet.bth.psn, base());
  if (offset < 0) [[unlikely]] {
    const auto answer = [this, now](const wire::Packet& again) { return replayed_responses().answer(again, now); };
    if (const auto reason = duplicate_requests().on_executed(packet, answer, now)) drop(*reason, packet, now);
  } else if (offset > 0) [[unlikely]] {
    handle_ahead(packet, newest_before, now);
  } else if (!window.empty() && window.has(base())) [[unlikely]] {  // held and not ready: retry it
    drop(DropReason::kDuplicate, packet, now);
    retry_base(outcome, now);
  } else if (const Verdict verdict = execute(packet, /*placed=*/false, outcome, now); verdict == Verdict::kDone)
      [[likely]] {
    executed(*this, packet, outcome, now);
  } else {
    not_executed(*this, verdict, packet, outcome, now);
  }
  return outcome;
}

// One function for both callers: what it does for each packet is in it.
Verdict Responder::Impl::execute(const wire::Packet& packet, bool placed, Outcome& outcome, Instant now) {
  if (identity.xrc == XrcRole::kTarget && !xrc_target().select(packet)) [[unlikely]]
    return Verdict::kInvalidRequest;
  const RequestExecution execution{{env, identity, window, out_of_order.get(), receives, operations,
                                    responses.resources, responses.log, messages, connection.mtu}};
  return execution.execute(packet, placed, outcome, now);
}

// The packet at the base is held and found no receive, or no room for its response.
void Responder::Impl::retry_base(Outcome& outcome, Instant now) {
  base_packet.retry();
  drain(outcome, now);
  request_gaps().on_advance(now, now);
  early_room().end_if_in_order();
}

// The packet at the base has been executed, and others wait beyond it.
void Responder::Impl::fill_gap(const wire::Packet& packet, Outcome& outcome, Instant now) {
  const bool closed = request_gaps().fill_base(packet, now);
  advanced(packet);
  drain(outcome, now);
  if (closed) env.trace(now, identity.qpn, trace::GapClosed{packet.bth.psn, base()});
  request_gaps().on_advance(now, env.arrived_at(now));
  early_room().end_if_in_order();
}

// The packet at the base has been executed.
void Responder::Impl::advanced(const wire::Packet& packet) {
  const std::uint32_t count = psns_of(packet, connection.mtu);
  base_packet.advance();
  operations.forget_escaped(base());
  if (out_of_order) [[unlikely]] {
    out_of_order->early.release(base());
    out_of_order->receive_wait = ReceiveWait{};
  }
  if (ReceivePaths* const several = tolerance.paths()) [[unlikely]]
    several->forget(base(), count);
  window.advance_over(count);
}

// Executes early packets that are in order now.
void Responder::Impl::drain(Outcome& outcome, Instant now) {
  const Psn before = base();
  base_packet.unblock();
  while (window.has(base())) {
    const EarlyPackets::Record* record = find_early(out_of_order.get(), base());
    BRDMA_CHECK(record != nullptr);
    const wire::Packet packet = record->packet;  // its payload stays where it is until release()
    const Verdict verdict = execute(packet, record->placed, outcome, now);
    if (verdict == Verdict::kNotReady) {
      unready_requests().wait(packet, now);
      break;
    }
    if (verdict == Verdict::kNotFetched) break;  // retried when it comes again
    if (verdict != Verdict::kDone) {
      fail(verdict, packet.bth.psn, outcome);
      break;
    }
    if (in_operation(packet)) operation_executed(*this, packet, now);
    advanced(packet);
    if (outcome.to_error) break;  // the completion queue is overrun
  }
  if (base() != before) acknowledgements.schedule.force(now);  // the sender waits for just this
}

void Responder::Impl::handle_ahead(const wire::Packet& packet, Instant newest_before, Instant now) {
  if (identity.xrc == XrcRole::kTarget && identity.srq == nullptr) (void)xrc_target().select(packet);
  if (base_packet.is_refused()) {  // sent before the RNR NAK arrived
    unready_requests().repeat(packet);
    return drop(DropReason::kAfterError, packet, now);
  }
  if (recovery().mode == RecoveryMode::kGoBackN) {
    env.count(Counter::kOutOfSequence);
    sequence_nak().request();
    return drop(DropReason::kOutOfOrder, packet, now);
  }
  const bitmap::Arrival arrival = arrival_of(*this, packet);
  if (arrival == bitmap::Arrival::kDuplicate) {
    duplicate_requests().on_early(packet, speaks_bitmap(), now);
    if (!speaks_bitmap()) request_gaps().on_copy(now);
    return drop(DropReason::kDuplicate, packet, now);
  }
  env.count(Counter::kOutOfSequence);
  if (const auto reason = keep_early(*this, packet, arrival, now)) return drop_early(*this, *reason, packet, now);
  kept_early(*this, packet, newest_before, now);
}

void Responder::Impl::fail(Verdict verdict, Psn psn, Outcome& outcome) {
  Response nak;
  nak.bitmap = speaks_bitmap();
  nak.psn = psn;
  nak.msn = messages.msn();
  if (verdict == Verdict::kAccessError) {
    nak.syndrome = wire::kSyndromeNakRemoteAccess;
    outcome.async_event = kEventQpAccessError;
    env.count(Counter::kRemoteAccessErrors);
  } else {
    nak.syndrome =
        verdict == Verdict::kInvalidRequest ? wire::kSyndromeNakInvalidRequest : wire::kSyndromeNakRemoteOperation;
    outcome.async_event = kEventQpRequestError;
    env.count(Counter::kRemoteInvalidRequests);
  }
  responses.resources.push(nak);
  outcome.to_error = true;
  connection.halted = true;
}

void Responder::Impl::drop(DropReason reason, const wire::Packet& packet, Instant now) {
  env.drop(reason);
  env.trace(now, identity.qpn, trace::PacketDropped{reason, packet.bth.opcode, packet.bth.psn});
}

}  // namespace brdma::qp
