// qp/receive/receive_request.cc - admission of a request: in order, ahead, or a duplicate (spec 1: windows and
// mapping).
#include "qp/queues/shared_receive_queue.h"
#include "qp/receive/responder_impl.h"
#include "qp/state/limits.h"
#include "wire/read_copy.h"

namespace brdma::qp {
namespace {

bool takes_receive(const wire::Packet& packet) { return wire::is_send(packet.op) || wire::has_immediate(packet.op); }

// A packet of an operation was executed in order.
void operation_executed(Responder::Impl& me, const wire::Packet& packet, Instant now) {
  if (packet.bxth.operation_start) me.operation_receiver().begin(packet, now);  // its bit is set already
  me.operations.executed(packet, me.mtu, me.env, me.identity, now);
}

}  // namespace

Outcome Responder::Impl::handle_request(const wire::Packet& packet, Instant now) {
  last_call = now;
  Outcome outcome;
  if (halted || !started) [[unlikely]] {
    drop(DropReason::kAfterError, packet, now);
    return outcome;
  }
  if (take_middle_write(packet, now)) return outcome;
  const Instant newest_before = echo.newest_arrival();
  if (packet.bxth.by_reference() && !local_fetch().admits(packet)) [[unlikely]] {
    drop(DropReason::kBadDescription, packet, now);
    return outcome;
  }
  if (packet.bitmap) {
    bitmap_seen = true;
    if (identity.receiving_paths == 1) [[likely]] {
      note_echo(packet.bxth.path, packet.bxth.timestamp, now);
    } else {
      note_path(packet, now);
    }
  }
  const std::int32_t offset = distance(packet.bth.psn, base());
  if (offset < 0) [[unlikely]] {
    handle_duplicate(packet, now);
    return outcome;
  }
  if (offset > 0) [[unlikely]] {
    handle_ahead(packet, newest_before, now);
    return outcome;
  }
  if (!window.empty() && window.has(base())) [[unlikely]] {  // held and not ready: retry it
    drop(DropReason::kDuplicate, packet, now);
    retry_base(outcome, now);
    return outcome;
  }
  const Verdict verdict = execute(packet, /*placed=*/false, outcome, now);
  if (verdict == Verdict::kDone) [[likely]] {
    if (in_operation(packet)) operation_executed(*this, packet, now);
    if (!established) [[unlikely]] {
      established = true;
      if (identity.state == QpState::kRtr) outcome.async_event = kEventCommEstablished;
    }
    // READs, atomics and the like are acknowledged by their responses.
    if (wire::is_write(packet.op) || wire::is_send(packet.op)) note_for_acknowledgement(packet.bth.ack_request, now);
    if (window.empty()) [[likely]] {
      advanced(packet);
    } else {
      fill_gap(packet, outcome, now);
    }
  } else if (verdict == Verdict::kNotReady) {
    if (keep_unready(packet, now)) return outcome;
    not_ready(packet);
    drop(DropReason::kReceiverNotReady, packet, now);
  } else if (verdict == Verdict::kNotFetched) {
    drop(DropReason::kFetchFailed, packet, now);
  } else {
    fail(verdict, packet.bth.psn, outcome);
  }
  return outcome;
}

// The packet at the base is held and found no receive, or no room for its response.
void Responder::Impl::retry_base(Outcome& outcome, Instant now) {
  base_packet.retry();
  drain(outcome, now);
  request_gaps().on_advance(now, now);
  if (window.empty()) end_out_of_order();
}

// The packet at the base has been executed, and others wait beyond it.
void Responder::Impl::fill_gap(const wire::Packet& packet, Outcome& outcome, Instant now) {
  const bool closed = request_gaps().fill_base(packet, now);
  advanced(packet);
  drain(outcome, now);
  if (closed) env.trace(now, identity.qpn, trace::GapClosed{packet.bth.psn, base()});
  request_gaps().on_advance(now, env.arrived_at(now));
  if (window.empty()) end_out_of_order();
}

// The packet at the base has been executed.
void Responder::Impl::advanced(const wire::Packet& packet) {
  const std::uint32_t count = psns_of(packet, mtu);
  base_packet.advance();
  operations.forget_escaped(base());
  if (out_of_order != nullptr) [[unlikely]] {
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
    const EarlyPackets::Record* record = find_early(out_of_order, base());
    BRDMA_CHECK(record != nullptr);
    const wire::Packet packet = record->packet;  // its payload stays where it is until release()
    const Verdict verdict = execute(packet, record->placed, outcome, now);
    if (verdict == Verdict::kNotReady) {
      wait_for_receive(packet, now);
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
  if (base() != before) ack.force(now);  // the sender waits for just this
}

// The receiving half has half of the allowed state; the sending half has the other.
bool Responder::Impl::state_is_full() const {
  return window.allocated_bytes() + records_bytes() > recovery().state_bytes_max / 2;
}

// Is there a record for its run of PSNs, where a bit stands for several (granularity)?
bool Responder::Impl::has_record(const wire::Packet& packet) const {
  const std::uint32_t count = psns_of(packet, mtu);
  const bool room = window.can_receive(packet.bth.psn, count);
  if (!room) env.count(Counter::kRunsRefused);
  return room;
}

void Responder::Impl::handle_ahead(const wire::Packet& packet, Instant newest_before, Instant now) {
  const Psn psn = packet.bth.psn;
  if (base_packet.is_refused()) {  // sent before the RNR NAK arrived
    repeat_not_ready(packet);
    return drop(DropReason::kAfterError, packet, now);
  }
  if (recovery().mode == RecoveryMode::kGoBackN) {
    env.count(Counter::kOutOfSequence);
    sequence_nak().request();
    return drop(DropReason::kOutOfOrder, packet, now);
  }
  // For an operation, the mask shows a duplicate at once.
  const bool repeated = in_operation(packet) && operations.look(packet, mtu) == registry::Match::kDuplicate;
  if (repeated) env.count(Counter::kOperationDuplicates);
  const bitmap::Arrival arrival = repeated ? bitmap::Arrival::kDuplicate : window.classify(psn);
  if (arrival == bitmap::Arrival::kDuplicate) {
    note_duplicate(packet, now);
    if (speaks_bitmap()) {
      ack.on_copy(now);
      keep_echo(packet);
    } else {
      request_gaps().on_copy(now);
    }
    return drop(DropReason::kDuplicate, packet, now);
  }
  env.count(Counter::kOutOfSequence);
  begin_out_of_order();
  auto reason = arrival == bitmap::Arrival::kBeyondWindow ? DropReason::kOutOfWindow
                : state_is_full() || !has_record(packet)  ? DropReason::kStateFull
                                                          : keep_early(packet, now);
  if (reason) {
    // Only a NAK reports the gap to a standard peer: a packet that cannot be kept cannot be waited for.
    const bool out_of_reach = *reason == DropReason::kOutOfWindow || *reason == DropReason::kStateFull;
    if (out_of_reach && !speaks_bitmap()) sequence_nak().request();
    if (window.empty()) end_out_of_order();
    return drop(*reason, packet, now);
  }
  const Psn previous_highest = window.highest();
  const std::uint32_t count = psns_of(packet, mtu);
  if (count == 1) {
    window.receive(psn);
  } else {
    window.receive_run(psn, count);
  }
  if (ReceivePaths* const several = tolerance.paths(); several != nullptr && packet.bitmap) [[unlikely]]
    several->received(packet.bxth.path, base(), psn, count);
  const bool base_due = message.kind != Message::Kind::kNone && echo.valid();
  request_gaps().on_early(packet, previous_highest, base_due ? std::optional{newest_before} : std::nullopt, now);
  if (speaks_bitmap()) note_for_acknowledgement(packet.bth.ack_request, now);  // a standard ACK could not report it
}

void Responder::Impl::note_duplicate(const wire::Packet& packet, Instant now) {
  env.count(Counter::kDuplicateRequest);
  const Psn psn = packet.bth.psn;
  env.duplicates.record({now, identity.qpn, psn, packet.bxth.path, distance(psn, base()) < 0});
  ReceivePaths* const several = tolerance.paths();
  if (several == nullptr || !packet.bitmap || !packet.bxth.retransmitted) return;
  if (const auto took = several->repetition_came(psn, env.arrived_at(now))) feedback.on_repetition(*took, now);
}

// A request before the base: answered again if the response may have been lost, never executed again.
void Responder::Impl::handle_duplicate(const wire::Packet& packet, Instant now) {
  note_duplicate(packet, now);
  // A copy; or the original behind its copy, or twice. A re-request is marked as such.
  if (wire::is_copy(packet) || (packet.bitmap && !packet.bxth.retransmitted && packet.op == wire::RcOp::kReadRequest))
    return drop(DropReason::kDuplicate, packet, now);
  // A READ re-request is no evidence about the feedback's path, if responses take several.
  if (!wire::is_answered(packet.op) || identity.sending_paths == 1) ack_loss.on_sign(window.highest());
  keep_echo(packet);
  if (wire::is_answered(packet.op)) {
    if (const auto reason = replayed_responses().answer(packet, now)) drop(*reason, packet, now);
    return;
  }
  ack.on_copy(now);  // of a WRITE or SEND
  drop(DropReason::kDuplicate, packet, now);
}

Duration Responder::Impl::rnr_hold() const {
  if (recovery().mode == RecoveryMode::kGoBackN) return {};
  return speaks_bitmap() ? recovery().rnr_hold : std::min(recovery().rnr_hold, kStandardRnrHoldMax);
}

// The packet at the base is held and found no receive, which a program may be about to post; or no room for its
// response.
void Responder::Impl::wait_for_receive(const wire::Packet& packet, Instant now) {
  base_packet.block();
  if (identity.srq != nullptr) identity.srq->note_waiting();
  ReceiveWait& wait = out_of_order->receive_wait;
  if (wait.refused || rnr_hold() == Duration{} || !takes_receive(packet)) {
    not_ready(packet);
  } else if (!wait.until) {
    wait.until = now + rnr_hold();
    env.count(Counter::kHeldForReceive);
  }
}

// It has waited long enough.
void Responder::Impl::refuse_waiting() {
  out_of_order->receive_wait = ReceiveWait{.until = std::nullopt, .refused = true};
  if (const EarlyPackets::Record* const waiting = find_early(out_of_order, base())) not_ready(waiting->packet);
}

// In order without a receive. True: it is held until there is one, or the RNR NAK is due.
bool Responder::Impl::keep_unready(const wire::Packet& packet, Instant now) {
  if (base_packet.is_refused() || rnr_hold() == Duration{} || !takes_receive(packet) || state_is_full()) return false;
  begin_out_of_order();
  if (!has_record(packet) || !out_of_order->early.hold(base(), packet)) {
    if (window.empty()) end_out_of_order();
    return false;
  }
  window.receive(packet.bth.psn);
  wait_for_receive(packet, now);
  return true;
}

void Responder::Impl::not_ready(const wire::Packet& packet) {
  base_packet.refuse();
  env.count(Counter::kSentRnr);
  // One RNR NAK that has not left yet suffices.
  Response nak;
  nak.syndrome = static_cast<std::uint8_t>(wire::kSyndromeRnr | (identity.attributes.min_rnr_timer & 0x1F));
  nak.bitmap = speaks_bitmap();
  nak.psn = packet.bth.psn;
  nak.msn = msn;
  if (!resources.has_nak(nak.psn)) resources.push(nak);
}

// The packet without a receive is held and was acknowledged as received: it will not come again. If the RNR NAK was
// lost, the sender only sees silence about later packets, and would reach its retry limit.
void Responder::Impl::repeat_not_ready(const wire::Packet& behind) {
  if (!base_packet.is_blocked() || !behind.bitmap || !behind.bxth.retransmitted) return;
  if (const EarlyPackets::Record* const waiting = find_early(out_of_order, base())) not_ready(waiting->packet);
}

void Responder::Impl::fail(Verdict verdict, Psn psn, Outcome& outcome) {
  Response nak;
  nak.bitmap = speaks_bitmap();
  nak.psn = psn;
  nak.msn = msn;
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
  resources.push(nak);
  outcome.to_error = true;
  halted = true;
}

void Responder::Impl::drop(DropReason reason, const wire::Packet& packet, Instant now) {
  env.drop(reason);
  env.trace(now, identity.qpn, trace::PacketDropped{reason, packet.bth.opcode, packet.bth.psn});
}

}  // namespace brdma::qp
