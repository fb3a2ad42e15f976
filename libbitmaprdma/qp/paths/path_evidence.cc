#include "qp/paths/path_evidence.h"

#include <algorithm>
#include <cstdint>

namespace brdma::qp {

Duration PathEvidence::on_echo(const wire::BitmapAck& ack, std::uint16_t source_port, Instant sent, Duration round_trip,
                               Instant now) const {
  // The field may hold any number; the bound keeps differences of two within range.
  constexpr std::int64_t kApartMax = std::int64_t{1} << 61;
  const auto one_way = static_cast<std::int64_t>(ack.tr - static_cast<std::uint64_t>(sent.ns()));
  const auto sample = parts_.paths.echoed({.path = ack.path,
                                           .back = source_port,
                                           .sent = sent,
                                           .round_trip = round_trip,
                                           .one_way = Duration::from_ns(std::clamp(one_way, -kApartMax, kApartMax)),
                                           .waited = ack.waited + parts_.env.waited,
                                           .waited_there = ack.waited},
                                          now);
  parts_.congestion.shift_base(sample.base_moved);
  note_alive(ack.path, sample.returned, now);
  return sample.round_trip;
}

Duration PathEvidence::on_response(std::uint8_t path, std::uint16_t source_port, Instant sent, Instant now) const {
  const auto sample = parts_.paths.request_answered(path, source_port, sent, now, parts_.env.waited);
  parts_.responses.shift_base(sample.base_moved);
  note_alive(path, sample.returned, now);
  return sample.round_trip;
}

void PathEvidence::on_any_response(Sequence sequence, const Message& message, Instant now) const {
  const bitmap::SendEntry& entry = parts_.scoreboard.entry(sequence);
  if (!message.request_received && entry.transmissions > 1) parts_.paths.repetition_answered(entry.path, now);
}

// A packet on `path` has arrived. Does that show another to be silent?
void PathEvidence::note_alive(std::uint8_t path, bool returned, Instant now) const {
  Environment& env = parts_.env;
  const std::uint32_t qpn = parts_.id.qpn;
  if (returned) {
    env.count(Counter::kPathReturned);
    env.trace(now, qpn, trace::PathUp{path});
    env.note(now, qpn, trace::EventType::kPathUp, path, env.config.source_ports[path]);
  }
  if (const auto silent = parts_.paths.set_aside_silent(parts_.lengths.probe(), now)) {
    env.count(Counter::kPathSilent);
    env.trace(now, qpn, trace::PathDown{*silent});
    env.note(now, qpn, trace::EventType::kPathDown, *silent, env.config.source_ports[*silent]);
    retransmit_path(*silent, now);
  }
}

void PathEvidence::retransmit_path(std::uint8_t path, Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  for (Sequence at = board.base(); at < board.next(); ++at) {
    if (!parts_.paths.is_of(board.entry(at), path) || board.is_acked(at)) continue;
    const Message& message = parts_.packets.message_of(at);
    if (message.answered() && message.request_received) continue;
    parts_.packets.retransmit(at, message, Counter::kRetransmittedPath, now);
  }
}

}  // namespace brdma::qp
