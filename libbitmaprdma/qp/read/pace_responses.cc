// READ responses at a rate. The responder has no RTT samples; the requester knows the time of the request and of the
// first response. So where the control uses RTT samples, requests are paced: a READ request takes as many tokens as its
// responses will have bytes, from a bucket of its own. Marks on responses become CNPs to the responder, which paces by
// those (queue_pair.cc: poll_responses); with `both` either side does its part.
//
// Re-requests are charged, but do not wait: they are few, and new READs wait for them.
#include <algorithm>

#include "qp/send/requester_impl.h"
#include "qp/state/limits.h"
#include "wire/packet.h"

namespace brdma::qp {

void Requester::Impl::choose_response_pace() {
  CongestionConfig config = id.recovery->congestion;
  if (!congestion::goes_by_round_trips(config.control)) {
    if (signals) signals->responses.reset();
    return;
  }
  config.control = CongestionControl::kTimely;
  // Two requests in a row would have responses that wait for each other at the responder, which is no congestion.
  config.burst_bytes = std::max<std::uint32_t>(config.burst_bytes / 4, 1);
  signals_made().responses = std::make_unique<ResponsePace>(config, env.active_qps);
}

// The responses to one request form a burst on the path. So it asks for the rate's worth of one timer interval, at
// least a few packets. On a path so long that the allowed requests would not fill it, it asks for more.
std::uint32_t Requester::Impl::paced_chunk_packets() const {
  constexpr std::uint64_t kLeast = 16 * 1024;
  const auto given_in = [rate = response_pace()->rate.rate().bps()](Duration time) {
    constexpr std::uint64_t kBitNs = 8'000'000'000;
    const auto bits = static_cast<unsigned __int128>(rate) * static_cast<std::uint64_t>(time.ns());
    return static_cast<std::uint64_t>(bits / kBitNs);
  };
  const std::uint64_t requests = std::max<std::uint32_t>(id.attributes.max_rd_atomic, 1);
  const std::uint64_t share = given_in(rtt.smoothed()) * 2 / requests;
  const std::uint64_t wanted = std::max(share, given_in(id.recovery->congestion.pace_interval));
  const std::uint64_t bytes = std::clamp<std::uint64_t>(wanted, kLeast, kReadChunkBytesMax);
  return std::max<std::uint32_t>(static_cast<std::uint32_t>(bytes) / id.mtu(), 1);
}

// `packets` of its responses.
void Requester::Impl::on_read_requested(const Message& message, std::uint32_t packets, Instant now) {
  ResponsePace* const pace = response_pace();
  if (pace == nullptr || message.kind != MessageKind::kRead) [[likely]]
    return;
  wire::Packet response;
  response.op = wire::RcOp::kReadResponseMiddle;
  response.bitmap = id.bitmap_agreed;
  response.bth.opcode = wire::opcode_of(response.op, response.bitmap);
  const std::size_t headers =
      TransmitBatch::packet_bytes(response, 0) + TransmitBatch::frame_overhead(id.attributes.peer_address.is_v4());
  const std::uint64_t payload = std::min<std::uint64_t>(message.length, std::uint64_t{packets} * id.mtu());
  pace->rate.on_sent(payload + packets * headers, now);
}

// One sample a segment, as for sent data; or one a round trip, if less than that is requested.
void Requester::Impl::on_response_rtt_sample(Duration round_trip, std::uint64_t arrived, Instant now) {
  ResponsePace& pace = *response_pace();
  pace.came += arrived;
  if (pace.came < kBytesPerSample && now - pace.sampled_at < round_trip) return;
  pace.came = 0;
  pace.sampled_at = now;
  pace.rate.on_round_trip(round_trip, responses.congestion().base_rtt(), now);
}

// After output: does a READ wait for its rate?
void Requester::Impl::note_responses_paced(Instant now) {
  ResponsePace& pace = *response_pace();
  const bool read =
      queue.next() != queue.tail() && !fault.is_set() && queue[queue.next()].opcode == WorkOpcode::kRdmaRead;
  const bool waits = read && pace.rate.allowance(now) == 0;
  if (waits && !pace.waits) env.count(Counter::kPaceWaits);
  pace.waits = waits;
}

}  // namespace brdma::qp
