#include "qp/paths/spray_requests.h"

#include <span>

#include "qp/send/local_references.h"
#include "qp/send/packet_builder.h"

namespace brdma::qp {

using bitmap::EntryState;

namespace {

constexpr std::uint32_t kProbeResponsesMax = 16;

}  // namespace

SendPaths& SprayedRequests::begun() const {
  std::unique_ptr<SendPaths>& paths = parts_.paths;
  if (paths) return *paths;
  paths = std::make_unique<SendPaths>(parts_.id.sending_paths, parts_.id.recovery->spraying);
  // Packets that left before the agreement.
  const Scoreboard& board = parts_.scoreboard;
  for (Sequence at = board.base(); at < board.next(); ++at) {
    const bitmap::SendEntry& entry = board.entry(at);
    const bool under_way = entry.state != EntryState::kAcked && entry.state != EntryState::kRetransmitPending;
    if (under_way && !parts_.messages.of(at).answered()) paths->reopened(entry);
  }
  return *paths;
}

// A retransmission avoids the path that lost it, if there is another. Retransmissions of READ requests take the path of
// READ requests, in order and by the path that all wait for: a request that arrived while no timeout fires, or one that
// was lost once. Otherwise that path may be the silent one; a request that once came by another path is no evidence
// about it.
std::uint8_t SprayedRequests::next_path(bool answered, Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  SendPaths::Batch batch{.ordered = answered, .may_probe = copyable().has_value()};
  if (board.pending() > 0) {
    const Sequence next = board.next_pending(board.base());
    const bitmap::SendEntry& entry = board.entry(next);
    const Message& message = parts_.messages.of(next);
    batch.ordered =
        message.answered() && parts_.timers.backoff() == 0 && (message.request_received || entry.transmissions == 1);
    batch.avoid = entry.path;
  }
  return begun().choose(batch, now);
}

// One that the receiver acknowledges as a duplicate. The newest packet; but no request for many responses, which would
// all come twice. Instead the newest that is known to be executed: for a READ, its last response is re-requested.
std::optional<Sequence> SprayedRequests::copyable() const {
  const Scoreboard& board = parts_.scoreboard;
  if (board.empty() || !parts_.id.bitmap_agreed || parts_.fault.is_set()) return std::nullopt;
  const Sequence newest = board.next() - 1;
  const Message& message = parts_.messages.of(newest);
  if (!message.answered() || message.packets <= kProbeResponsesMax) return newest;
  if (board.cumulative() > board.base()) return board.cumulative() - 1;
  return std::nullopt;
}

std::optional<std::uint32_t> SprayedRequests::make_copy(wire::Packet& packet, Sequence sequence, PayloadCursor& cursor,
                                                        Instant now) const {
  const PacketBuilder builder{parts_.id, parts_.queue, parts_.scoreboard};
  const Message& message = parts_.messages.of(sequence);
  if (message.answered()) {
    const bool executed = sequence < parts_.scoreboard.cumulative();
    const std::uint32_t payload = builder.request_payload(message);
    cursor.seek(parts_.queue, message.wqe, 0);
    if (!cursor.take(payload)) return std::nullopt;
    builder.request(packet, message, executed ? sequence : message.first, executed ? 1 : message.packets, true, now);
    return payload;
  }
  const std::uint32_t mtu = parts_.id.mtu(), payload = message.payload_at(sequence, mtu);
  cursor.seek(parts_.queue, message.wqe, message.offset + static_cast<std::uint32_t>(sequence - message.first) * mtu);
  if (!cursor.take(message.by_reference != 0 ? message.by_reference : payload)) return std::nullopt;
  builder.data(packet, message, sequence, true, now);
  return payload;
}

bool SprayedRequests::poll_probe(TransmitBatch& batch, Instant now) const {
  const auto sequence = copyable();
  if (!sequence) return false;  // nothing in flight: the next packet takes that path
  parts_.paths->probed(batch.path(), now);
  PayloadCursor cursor(parts_.env.memory, parts_.id.pd, 0);
  wire::Packet packet;
  const auto payload = make_copy(packet, *sequence, cursor, now);
  if (!payload) return false;  // the regular transmission will report that error
  const Message& message = parts_.messages.of(*sequence);
  ReferenceBuffer reference;
  std::span<const Slice> slices = cursor.slices();
  if (message.by_reference != 0 && !message.answered()) slices = reference.make(parts_.id.local->own_key(), slices);
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, *payload);
  if (!batch.fits(bytes, slices.size(), packet.bitmap)) return false;
  packet.bxth.path = batch.path();
  packet.bth.ack_request = true;
  batch.add(packet, slices, *payload);
  parts_.env.count(Counter::kPathProbed);
  trace_sent(parts_.env, parts_.id, packet, bytes, true, now);
  return true;
}

}  // namespace brdma::qp
