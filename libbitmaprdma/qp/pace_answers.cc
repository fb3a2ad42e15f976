// Answers to READs at a rate. Who answers hears of no round trip; who asked knows both when it did and when the first
// answer came. So where the control goes by round trips it is the asking that is paced: a READ request takes as many
// tokens as its answers will have bytes, from a bucket of its own. Marks on answers become CNPs to who sent them, who
// paces by those (queue_pair.cc: poll_answers): with `both` either does its part.
//
// What is asked for again is charged, but does not wait: it is little, and new READs wait for it.
#include <algorithm>

#include "qp/limits.h"
#include "qp/requester_impl.h"
#include "wire/packet.h"

namespace brdma::qp {

void Requester::Impl::choose_answer_pace() {
  CongestionConfig config = id.recovery->congestion;
  if (!congestion::goes_by_round_trips(config.control)) {
    if (signals) signals->answers.reset();
    return;
  }
  config.control = CongestionControl::kTimely;
  // Two requests in a row would have answers that wait for each other at the responder, which is no congestion.
  config.burst_bytes = std::max<std::uint32_t>(config.burst_bytes / 4, 1);
  signals_made().answers = std::make_unique<AnswerPace>(config, env.active_qps);
}

// The answers to one request come at once, as a burst on their way. So it asks for what the rate gives in the time that
// a timer brings, for few packets at least; and for more on a path so long that the requests which may be under way
// would not fill it.
std::uint32_t Requester::Impl::paced_chunk_packets() const {
  constexpr std::uint64_t kLeast = 16 * 1024;
  const auto given_in = [rate = answer_pace()->rate.rate().bps()](Duration time) {
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

// `packets` of its answers.
void Requester::Impl::asked_for(const Message& message, std::uint32_t packets, Instant now) {
  AnswerPace* const pace = answer_pace();
  if (pace == nullptr || message.kind != MessageKind::kRead) [[likely]]
    return;
  wire::Packet answer;
  answer.op = wire::RcOp::kReadResponseMiddle;
  answer.bitmap = id.bitmap_agreed;
  answer.bth.opcode = wire::opcode_of(answer.op, answer.bitmap);
  const std::size_t headers =
      TransmitBatch::packet_bytes(answer, 0) + TransmitBatch::frame_overhead(id.attributes.peer_address.is_v4());
  const std::uint64_t payload = std::min<std::uint64_t>(message.length, std::uint64_t{packets} * id.mtu());
  pace->rate.on_sent(payload + packets * headers, now);
}

// One sample a segment, as of what is sent; or a round trip, where less than that is asked for.
void Requester::Impl::feel_answers(Duration round_trip, Instant now) {
  AnswerPace& pace = *answer_pace();
  pace.came += answers.came;
  if (pace.came < kBytesPerSample && now - pace.felt_at < round_trip) return;
  pace.came = 0;
  pace.felt_at = now;
  pace.rate.on_round_trip(round_trip, answer_congestion.base_rtt(), now);
}

// After output: is there a READ that waits for its rate?
void Requester::Impl::note_answers_paced(Instant now) {
  AnswerPace& pace = *answer_pace();
  const bool read = queue.next() != queue.tail() && !broken_wqe && queue[queue.next()].opcode == WorkOpcode::kRdmaRead;
  const bool waits = read && pace.rate.allowance(now) == 0;
  if (waits && !pace.waits) env.count(Counter::kPaceWaits);
  pace.waits = waits;
}

}  // namespace brdma::qp
