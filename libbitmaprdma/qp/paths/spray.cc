// qp/paths/spray.cc - requests over several paths (spec 1: multipath): the path of a batch, the header field about its
// path, and the evidence of acknowledgements about all paths (qp/paths/paths_send.h).
#include <algorithm>

#include "qp/send/requester_impl.h"

namespace brdma::qp {

using bitmap::EntryState;

namespace {

constexpr std::uint32_t kProbeResponsesMax = 16;

}  // namespace

SendPaths& Requester::Impl::all_paths() {
  if (paths) return *paths;
  paths = std::make_unique<SendPaths>(id.sending_paths, id.recovery->spraying);
  // Packets that left before the agreement.
  for (Sequence at = scoreboard.base(); at < scoreboard.next(); ++at) {
    const bitmap::SendEntry& entry = scoreboard.entry(at);
    const bool under_way = entry.state != EntryState::kAcked && entry.state != EntryState::kRetransmitPending;
    if (under_way && !message_of(at).answered()) paths->reopened(entry);
  }
  return *paths;
}

// A retransmission avoids the path that lost it, if there is another. Retransmissions of READ requests take the path of
// READ requests, in order and by the path that all wait for: a request that arrived while no timeout fires, or one that
// was lost once. Otherwise that path may be the silent one; a request that once came by another path is no evidence
// about it.
std::uint8_t Requester::next_path(Instant now) {
  Impl& me = *impl_;
  SendPaths::Batch batch{.may_probe = me.copyable().has_value()};
  if (me.scoreboard.pending() == 0) {
    batch.ordered = me.next_is_answered();
  } else {
    const Sequence next = me.scoreboard.next_pending(me.scoreboard.base());
    const bitmap::SendEntry& entry = me.scoreboard.entry(next);
    const Message& message = me.message_of(next);
    batch.ordered =
        message.answered() && me.timers.backoff() == 0 && (message.request_received || entry.transmissions == 1);
    batch.avoid = entry.path;
  }
  return me.all_paths().choose(batch, now);
}

std::uint8_t Requester::control_path(std::uint32_t path_changes) {
  if (impl_->paths) return impl_->paths->control_path(path_changes);
  return static_cast<std::uint8_t>(path_changes % impl_->id.sending_paths);
}

wire::AddressedIcrcFlow& Requester::flow(std::uint8_t path) { return impl_->all_paths().flow(path); }

std::span<const recovery::PathFacts> Requester::path_facts() const {
  return impl_->paths ? std::span{impl_->paths->facts()} : std::span<const recovery::PathFacts>{};
}

std::size_t Requester::path_count() const { return impl_->paths ? impl_->paths->count() : 1; }
PathStatus Requester::path_status(std::size_t path) const {
  PathStatus status = impl_->paths ? impl_->paths->status(path) : PathStatus{};
  status.source_port = impl_->env.config.source_ports[path];
  return status;
}

void Requester::Impl::fill_path_fields(wire::Packet& packet, const TransmitBatch& batch, std::uint32_t psns, bool again,
                                       Instant now) {
  const std::uint8_t path = batch.path();
  packet.bxth.path = path;
  const bool answered = wire::is_answered(packet.op);
  if (!again) packet.bxth.before = paths->before(path, packet.bth.psn, psns);
  if (answered) {
    paths->request_sent(path, now);
  } else {
    paths->sent(path, now);
  }
}

// A packet whose copy may probe a path that is set aside: one that the receiver acknowledges as a duplicate. The newest
// packet; but no request for many responses, which would all come twice. Instead the newest that is known to be
// executed: for a READ, its last response is re-requested.
std::optional<Sequence> Requester::Impl::copyable() const {
  if (scoreboard.empty() || !id.bitmap_agreed || fault.is_set()) return std::nullopt;
  const Sequence newest = scoreboard.next() - 1;
  const Message& message = messages[messages.find(newest)];
  if (!message.answered() || message.packets <= kProbeResponsesMax) return newest;
  if (scoreboard.cumulative() > scoreboard.base()) return scoreboard.cumulative() - 1;
  return std::nullopt;
}

// A copy on a path that is set aside. It only serves to get evidence of the path.
bool Requester::Impl::poll_path_probe(TransmitBatch& batch, Instant now) {
  const auto sequence = copyable();
  if (!sequence) return false;  // nothing in flight: the next packet takes that path
  const Message& message = message_of(*sequence);
  PayloadCursor cursor(env.memory, id.pd, 0);
  wire::Packet packet;
  std::uint32_t payload = 0;
  paths->probed(batch.path(), now);
  if (message.answered()) {
    const bool executed = *sequence < scoreboard.cumulative();
    payload = builder().request_payload(message);
    cursor.seek(queue, message.wqe, 0);
    if (!cursor.take(payload)) return false;  // as below
    builder().request(packet, message, executed ? *sequence : message.first, executed ? 1 : message.packets, true, now);
  } else {
    payload = message.payload_at(*sequence, id.mtu());
    cursor.seek(queue, message.wqe, message.offset + static_cast<std::uint32_t>(*sequence - message.first) * id.mtu());
    // The regular transmission will report that error.
    if (!cursor.take(message.by_reference != 0 ? message.by_reference : payload)) return false;
    builder().data(packet, message, *sequence, true, now);
  }
  ReferenceBuffer reference;
  std::span<const Slice> slices = cursor.slices();
  if (message.by_reference != 0 && !message.answered()) slices = reference.make(id.local->own_key(), slices);
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, payload);
  if (!batch.fits(bytes, slices.size(), packet.bitmap)) return false;
  packet.bxth.path = batch.path();
  packet.bth.ack_request = true;
  batch.add(packet, slices, payload);
  env.count(Counter::kPathProbed);
  trace_sent(packet, bytes, true, now);
  return true;
}

// Returns the RTT sample for the congestion window.
Duration Requester::Impl::note_echo(const wire::BitmapAck& ack, std::uint16_t source_port, Instant sent,
                                    Duration round_trip, Instant now) {
  // The field may hold any number; the bound keeps differences of two within range.
  constexpr std::int64_t kApartMax = std::int64_t{1} << 61;
  const auto one_way = static_cast<std::int64_t>(ack.tr - static_cast<std::uint64_t>(sent.ns()));
  const auto sample = paths->echoed({.path = ack.path,
                                     .back = source_port,
                                     .sent = sent,
                                     .round_trip = round_trip,
                                     .one_way = Duration::from_ns(std::clamp(one_way, -kApartMax, kApartMax)),
                                     .waited = ack.waited + env.waited,
                                     .waited_there = ack.waited},
                                    now);
  congestion.shift_base(sample.base_moved);
  note_path_alive(ack.path, sample.returned, now);
  return sample.round_trip;
}

// The first response to a request that was sent once: evidence of its path, as an echo.
Duration Requester::Impl::note_response(std::uint8_t path, Instant sent, Instant now) {
  const auto sample = paths->request_answered(path, answered_from, sent, now, env.waited);
  responses.congestion().shift_base(sample.base_moved);
  note_path_alive(path, sample.returned, now);
  return sample.round_trip;
}

// The first response to a request that was sent more than once.
void Requester::Impl::note_repetition_answered(Sequence sequence, const Message& message, Instant now) {
  const bitmap::SendEntry& entry = scoreboard.entry(sequence);
  if (!message.request_received && entry.transmissions > 1) paths->repetition_answered(entry.path, now);
}

// A packet on `path` has arrived. Does that show another to be silent?
void Requester::Impl::note_path_alive(std::uint8_t path, bool returned, Instant now) {
  if (returned) {
    env.count(Counter::kPathReturned);
    env.trace(now, id.qpn, trace::PathUp{path});
    env.note(now, id.qpn, trace::EventType::kPathUp, path, env.config.source_ports[path]);
  }
  if (const auto silent = paths->set_aside_silent(timer_lengths().probe(), now)) {
    env.count(Counter::kPathSilent);
    env.trace(now, id.qpn, trace::PathDown{*silent});
    env.note(now, id.qpn, trace::EventType::kPathDown, *silent, env.config.source_ports[*silent]);
    resend_of_path(*silent, now);
  }
}

// How much later a packet has to leave than another on another path to arrive later for certain: the difference of the
// paths, and the queue before both, which may have emptied in between.
Duration Requester::Impl::apart_on_paths() const {
  const Duration skew = paths->skew();
  return skew + std::min(skew, congestion.queueing());
}

// On any path.
Duration Requester::Impl::round_trip_expected() const { return rtt.smoothed() + (paths ? paths->skew() : Duration{}); }

// Of a READ request only the request counts, and once: if it arrived, the missing responses took the peer's paths.
void Requester::Impl::note_lost(Sequence sequence, const Message& message) {
  const bitmap::SendEntry& entry = scoreboard.entry(sequence);
  if (!message.answered()) return paths->lost(entry);
  if (!message.request_received && sequence == std::max(message.first, scoreboard.base()))
    paths->request_lost(entry.path);
}

// Packets in flight on a path that has fallen silent take another.
void Requester::Impl::resend_of_path(std::uint8_t path, Instant now) {
  for (Sequence at = scoreboard.base(); at < scoreboard.next(); ++at) {
    const bitmap::SendEntry& entry = scoreboard.entry(at);
    if (entry.path != path || entry.state == EntryState::kAcked) continue;
    const Message& message = message_of(at);
    if (message.answered() && message.request_received) continue;
    request_resend(at, message, Counter::kRetransmittedPath, now);
  }
}

}  // namespace brdma::qp
