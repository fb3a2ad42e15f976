// qp/spray.cc - requests over several paths (spec 1: multipath): which path a batch takes, what a packet says of its
// own, and what acknowledgements say of all of them (qp/paths_send.h).
#include <algorithm>

#include "qp/requester_impl.h"

namespace brdma::qp {

using bitmap::EntryState;

SendPaths& Requester::Impl::all_paths() {
  if (paths) return *paths;
  paths = std::make_unique<SendPaths>(id.sending_paths, id.recovery->spraying);
  // What left before that was agreed.
  for (Sequence at = base; at < next_sequence(); ++at) {
    const bitmap::SendEntry& entry = window.entry(psn_of(at));
    const bool under_way = entry.state != EntryState::kAcked && entry.state != EntryState::kRetransmitPending;
    if (under_way && !message_of(at).answered()) paths->reopened(entry);
  }
  return *paths;
}

// What is sent again goes by another path than the one that lost it, where there is another.
std::optional<std::uint8_t> Requester::Impl::path_to_avoid() const {
  if (window.pending() == 0) return std::nullopt;
  return window.entry(window.next_pending(window.base())).path;
}

std::uint8_t Requester::next_path(Instant now) {
  Impl& me = *impl_;
  return me.all_paths().choose(me.path_to_avoid(), me.copyable().has_value(), now);
}

std::uint8_t Requester::control_path(std::uint32_t unheard) {
  if (impl_->paths) return impl_->paths->control_path(unheard);
  return static_cast<std::uint8_t>(unheard % impl_->id.sending_paths);
}

wire::IcrcFlow& Requester::flow(std::uint8_t path) { return impl_->all_paths().flow(path); }

std::size_t Requester::path_count() const { return impl_->paths ? impl_->paths->count() : 1; }
PathStatus Requester::path_status(std::size_t path) const {
  PathStatus status = impl_->paths ? impl_->paths->status(path) : PathStatus{};
  status.source_port = impl_->env.config.source_ports[path];
  return status;
}

void Requester::Impl::label(wire::Packet& packet, const TransmitBatch& batch, std::uint32_t psns, bool again,
                            Instant now) {
  const std::uint8_t path = batch.path();
  packet.bxth.path = path;
  const bool answered = packet.op == wire::RcOp::kReadRequest || wire::is_atomic(packet.op);
  if (!again) packet.bxth.before = paths->before(path, packet.bth.psn, psns);
  if (!answered) paths->sent(path, now);
}

// The newest packet under way that has a payload of its own: its copy is a duplicate, which a receiver answers.
std::optional<Sequence> Requester::Impl::copyable() const {
  if (window.in_window() == 0 || !id.bitmap_agreed || broken_wqe) return std::nullopt;
  const Sequence newest = next_sequence() - 1;
  if (messages[messages.find(newest)].answered()) return std::nullopt;
  return newest;
}

// A copy on a path that is set aside. Nothing depends on its arrival but that the path is heard of.
bool Requester::Impl::poll_path_probe(TransmitBatch& batch, Instant now) {
  const auto sequence = copyable();
  if (!sequence) return false;  // nothing under way any more: the next that is
  const Message& message = message_of(*sequence);
  const std::uint32_t payload = message.payload_at(*sequence, id.mtu());
  PayloadCursor cursor(env.memory, id.pd, 0);
  cursor.seek(queue, message.wqe, static_cast<std::uint32_t>(*sequence - message.first) * id.mtu());
  paths->probed(batch.path(), now);
  if (!cursor.take(payload)) return false;  // found out by whoever sends it in earnest
  wire::Packet packet;
  build_data(packet, message, *sequence, true, now);
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, payload);
  if (!batch.fits(bytes, cursor.slices().size(), packet.bitmap)) return false;
  packet.bxth.path = batch.path();
  packet.bth.ack_request = true;
  batch.add(packet, cursor.slices(), payload);
  env.count(Counter::kPathProbed);
  trace_sent(packet, bytes, true, now);
  return true;
}

// Answers what the congestion window is to hear of this round trip.
Duration Requester::Impl::note_echo(const wire::BitmapAck& ack, std::uint16_t source_port, Instant sent,
                                    Duration round_trip, Instant now) {
  // Any number may stand there; no two of these are too far from each other to be told apart.
  constexpr std::int64_t kApartMax = std::int64_t{1} << 61;
  const auto one_way = static_cast<std::int64_t>(ack.tr - static_cast<std::uint64_t>(sent.ns()));
  const auto felt = paths->echoed({.path = ack.path,
                                   .back = source_port,
                                   .sent = sent,
                                   .round_trip = round_trip,
                                   .one_way = Duration::from_ns(std::clamp(one_way, -kApartMax, kApartMax))},
                                  now);
  congestion.shift_base(felt.base_moved);
  if (felt.returned) {
    env.count(Counter::kPathReturned);
    env.trace(now, id.qpn, trace::PathUp{ack.path});
  }
  if (const auto silent = paths->set_aside_silent(probe_timeout(), now)) {
    env.count(Counter::kPathSilent);
    env.trace(now, id.qpn, trace::PathDown{*silent});
    resend_of_path(*silent, now);
  }
  return felt.round_trip;
}

// How much later a packet has to leave than another on another path to arrive later for certain: by the difference of
// the paths, and the queue before both may have emptied between the two.
Duration Requester::Impl::apart_on_paths() const {
  const Duration skew = paths->skew();
  return skew + std::min(skew, congestion.queueing());
}

// Of any path.
Duration Requester::Impl::round_trip_expected() const { return rtt.smoothed() + (paths ? paths->skew() : Duration{}); }

// What is under way on a path that has fallen silent goes by another.
void Requester::Impl::resend_of_path(std::uint8_t path, Instant now) {
  for (Sequence at = base; at < next_sequence(); ++at) {
    const bitmap::SendEntry& entry = window.entry(psn_of(at));
    if (entry.path != path || entry.state == EntryState::kAcked) continue;
    const Message& message = message_of(at);
    if (message.answered() && message.request_received) continue;
    request_resend(at, message, Counter::kRetransmittedPath, now);
  }
}

}  // namespace brdma::qp
