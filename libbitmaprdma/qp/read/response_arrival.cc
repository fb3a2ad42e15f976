#include "qp/read/response_arrival.h"

#include "qp/read/response_pacing.h"
#include "qp/timers/progress.h"
#include "qp/timers/timer_lengths.h"

namespace brdma::qp {

ResponseArrival::Request ResponseArrival::take(const wire::Packet& packet, Sequence sequence, const Message& message,
                                               std::uint16_t source_port, Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  if (packet.bitmap && parts_.id.receiving_paths > 1) [[unlikely]]
    parts_.gaps.note_path(packet, parts_.env.arrived_at(now));
  if (parts_.paths != nullptr) [[unlikely]]
    path_evidence().on_any_response(sequence, message, now);
  const Request request{board.sent_at(sequence, now), board.entry(sequence).transmissions == 1};
  parts_.responses.on_response(message.payload_at(sequence, parts_.id.mtu()), message.kind == MessageKind::kRead);
  if (sequence == message.first && request.once) measure(sequence, source_port, request.sent, now);
  parts_.packets.acknowledge(sequence, message, now);
  Progress{parts_.env, parts_.id, board, parts_.timers}.on_acknowledged(now);
  return request;
}

void ResponseArrival::measure(Sequence sequence, std::uint16_t source_port, Instant sent, Instant now) const {
  Duration sample = now - sent;
  if (recovery::is_possible_round_trip(sample)) parts_.rtt.sample(sample, now);
  if (parts_.paths != nullptr) [[unlikely]]
    sample = path_evidence().on_response(parts_.scoreboard.entry(sequence).path, source_port, sent, now);
  const congestion::RoundTrip trip{sample, parts_.env.waited};
  const std::uint64_t arrived = parts_.responses.on_round_trip(trip, now);
  if (parts_.pace != nullptr) [[unlikely]]
    ResponsePacing{{parts_.env, parts_.id, parts_.rtt, parts_.responses.congestion(), *parts_.pace}}.on_round_trip(
        trip.on_the_way(), arrived, now);
}

PathEvidence ResponseArrival::path_evidence() const {
  const TimerLengths lengths{
      {parts_.id, parts_.scoreboard, parts_.rtt, parts_.congestion, parts_.responses, parts_.timers, parts_.judge}};
  return PathEvidence{{parts_.env, parts_.id, parts_.scoreboard, parts_.congestion, parts_.responses.congestion(),
                       *parts_.paths, parts_.packets, lengths}};
}

}  // namespace brdma::qp
