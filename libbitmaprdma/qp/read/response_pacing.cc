#include "qp/read/response_pacing.h"

#include <algorithm>

#include "qp/queues/transmit_batch.h"
#include "qp/state/limits.h"
#include "wire/packet.h"

namespace brdma::qp {

void choose_response_pace(Environment& env, const Identity& id, std::unique_ptr<CongestionState>& signals) {
  CongestionConfig config = id.recovery->congestion;
  if (!congestion::goes_by_round_trips(config.control)) {
    if (signals) signals->responses.reset();
    return;
  }
  config.control = CongestionControl::kTimely;
  // Two requests in a row would have responses that wait for each other at the responder, which is no congestion.
  config.burst_bytes = std::max<std::uint32_t>(config.burst_bytes / 4, 1);
  made(signals).responses = std::make_unique<ResponsePace>(config, env.active_qps);
}

std::uint32_t ResponsePacing::packets_of_request() const {
  constexpr std::uint64_t kLeast = 16 * 1024;
  const Identity& id = parts_.id;
  const auto given_in = [rate = parts_.pace.rate.rate().bps()](Duration time) {
    constexpr std::uint64_t kBitNs = 8'000'000'000;
    const auto bits = static_cast<unsigned __int128>(rate) * static_cast<std::uint64_t>(time.ns());
    return static_cast<std::uint64_t>(bits / kBitNs);
  };
  const std::uint64_t requests = std::max<std::uint32_t>(id.attributes.max_rd_atomic, 1);
  const std::uint64_t share = given_in(parts_.rtt.smoothed()) * 2 / requests;
  const std::uint64_t wanted = std::max(share, given_in(id.recovery->congestion.pace_interval));
  const std::uint64_t bytes = std::clamp<std::uint64_t>(wanted, kLeast, kReadChunkBytesMax);
  return std::max<std::uint32_t>(static_cast<std::uint32_t>(bytes) / id.mtu(), 1);
}

void ResponsePacing::on_requested(const Message& message, std::uint32_t packets, Instant now) const {
  if (message.kind != MessageKind::kRead) return;
  const Identity& id = parts_.id;
  wire::Packet response;
  response.op = wire::RcOp::kReadResponseMiddle;
  response.bitmap = id.bitmap_agreed;
  response.bth.opcode = opcode_of(id, response.op, response.bitmap);
  const std::size_t headers =
      TransmitBatch::packet_bytes(response, 0) + GsoSegments::frame_overhead(id.attributes.peer_address.is_v4());
  const std::uint64_t payload = std::min<std::uint64_t>(message.length, std::uint64_t{packets} * id.mtu());
  parts_.pace.rate.on_sent(payload + packets * headers, now);
}

void ResponsePacing::on_round_trip(Duration round_trip, std::uint64_t arrived, Instant now) const {
  ResponsePace& pace = parts_.pace;
  pace.came += arrived;
  if (pace.came < kBytesPerSample && now - pace.sampled_at < round_trip) return;
  pace.came = 0;
  pace.sampled_at = now;
  pace.rate.on_round_trip(round_trip, parts_.congestion.base_rtt(), now);
}

void ResponsePacing::note_waiting(bool read_next, Instant now) const {
  ResponsePace& pace = parts_.pace;
  const bool waits = read_next && pace.rate.allowance(now) == 0;
  if (waits && !pace.waits) parts_.env.count(Counter::kPaceWaits);
  pace.waits = waits;
}

}  // namespace brdma::qp
