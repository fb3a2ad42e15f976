// qp/paths/spray.cc - requests over several paths (spec 1: multipath): the path of a batch, the header field about its
// path, and copies that probe a path (qp/paths/paths_send.h).
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
    if (under_way && !messages.of(at).answered()) paths->reopened(entry);
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
    const Message& message = me.messages.of(next);
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
  const Message& message = messages.of(*sequence);
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
  trace_sent(env, id, packet, bytes, true, now);
  return true;
}

}  // namespace brdma::qp
