#include "fabric/switch/link_state_agent.h"

#include <algorithm>

#include "base/check.h"
#include "base/datagram.h"
#include "wire/crc/icrc.h"
#include "wire/headers.h"
#include "wire/link_state.h"
#include "wire/opcode.h"
#include "wire/packet.h"

namespace brdma::fabric {
namespace {

constexpr std::uint16_t kNoticePort = 0xC0DE;       // source port of control packets; nobody answers there
constexpr std::uint32_t kFlowLookEvery = 32;        // packets of a port
constexpr std::int64_t kFlowRecent = 200'000'000;   // ns
constexpr std::uint64_t kWindowBytes = 128 * 1024;  // least bytes for a measurement of speed: some dozen packets
constexpr std::size_t kInquirySize = wire::kBthSize + wire::kLinkStateInquirySize + wire::kIcrcSize;
constexpr std::size_t kBody = wire::kBthSize;
static_assert(DropNotice::kSizeMax >= wire::kBthSize + wire::kLinkStateFeedbackSize + wire::kIcrcSize);

bool is_inquiry(ConstBytes payload) {
  return load_u8(payload.data()) == static_cast<std::uint8_t>(wire::Control::kLinkStateInquiry);
}

// True if part / whole reaches `permille`; never for an unbounded whole.
bool reaches(std::uint64_t part, std::uint64_t whole, std::uint32_t permille) {
  return whole != 0 && static_cast<unsigned __int128>(part) * 1000 >= static_cast<unsigned __int128>(whole) * permille;
}

std::uint64_t per_second(std::uint64_t bytes, Duration time) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(bytes) * 1'000'000'000 /
                                    static_cast<std::uint64_t>(std::max<std::int64_t>(time.ns(), 1)));
}

}  // namespace

LinkStateAgent::LinkStateAgent(const Config& config, std::size_t ports)
    : config_(config),
      ports_(ports),
      flows_(kFlowSlots),
      sources_(kSourceSlots),
      tokens_(config.answers_per_second, config.answers_burst) {}

bool LinkStateAgent::routed(const FiveTuple& flow, ConstBytes payload, std::uint32_t port, Instant now) {
  if (payload.size() < wire::kBthSize + wire::kIcrcSize) return false;
  Port& out = ports_[port];
  if (!next_sample_) next_sample_ = now + config_.sample_interval;
  if (is_inquiry(payload)) return true;
  if (out.passed++ % kFlowLookEvery == 0) note_flow(out, flow, now);
  const std::uint64_t key = flow.hash(config_.switch_id);
  flows_[key % kFlowSlots] = {key, now};
  return false;
}

void LinkStateAgent::note_flow(Port& port, const FiveTuple& flow, Instant now) {
  const FlowEnds ends{flow.source, flow.destination};
  const auto known = std::find(port.flows.begin(), port.flows.end(), ends);
  const auto place = known != port.flows.end() ? static_cast<std::size_t>(known - port.flows.begin())
                                               : port.next_flow++ % port.flows.size();
  port.flows[place] = ends;
  port.flows_seen[place] = now;
}

bool LinkStateAgent::answer(const FiveTuple& flow, MutableBytes payload, std::uint32_t port, const PortFacts& facts,
                            Instant now) {
  ++counters_.inquiries;
  const auto inquiry = payload.size() == kInquirySize
                           ? wire::parse_link_state_inquiry(payload.subspan(kBody, wire::kLinkStateInquirySize))
                           : std::nullopt;
  if (!inquiry) {
    ++counters_.malformed;
    return false;
  }
  if (inquiry->hop >= inquiry->hop_limit) {
    ++counters_.at_limit;
    return false;
  }
  if (!may_answer(flow, now)) return false;
  ++counters_.answered;
  sample(port, facts, now);
  const PortState& state = ports_[port].state;
  const wire::LinkStateFeedback said{.over_limits = state.over_limits,
                                     .destination_qpn = wire::parse_bth(payload.first<wire::kBthSize>()).dest_qpn,
                                     .hop = inquiry->hop,
                                     .nonce = inquiry->nonce,
                                     .switch_id = config_.switch_id,
                                     .port = port,
                                     .speed = state.speed,
                                     .link_rate = state.rate,
                                     .queue = state.queue,
                                     .queue_limit = state.queue_limit,
                                     .drops = state.drops,
                                     .switch_speed = state.switch_speed,
                                     .timestamp = static_cast<std::uint64_t>(now.ns())};
  wire::Packet packet;
  packet.bth.opcode = static_cast<std::uint8_t>(wire::Control::kLinkStateFeedback);
  packet.bth.dest_qpn = inquiry->source_qpn;
  DropNotice notice{.source = flow.destination, .destination = flow.source, .source_port = kNoticePort};
  std::size_t size = wire::emit_headers(packet, notice.bytes.data());
  size += wire::emit_link_state_feedback(said, &notice.bytes[size]);
  notice.size = static_cast<std::uint8_t>(size + wire::kIcrcSize);
  BRDMA_CHECK(notice.size <= payload.size());  // no amplification
  const wire::IcrcPath path{.source = notice.source,
                            .destination = notice.destination,
                            .source_port = notice.source_port,
                            .destination_port = kRoceUdpPort,
                            .ip_id = 0};
  store_le32(&notice.bytes[size], wire::packet_icrc(path, notice.view()));
  feedback_.push_back(notice);

  // On to the next hop. By the difference: an ICRC that was wrong before stays wrong.
  constexpr std::size_t kHopAt = kBody + 4;
  const std::byte before = payload[kHopAt];
  wire::forward_link_state_inquiry(&payload[kBody]);
  const std::array difference{before ^ payload[kHopAt]};
  std::byte* const icrc = &payload[payload.size() - wire::kIcrcSize];
  const std::size_t behind = payload.size() - wire::kIcrcSize - kHopAt - 1;
  store_le32(icrc, load_le32(icrc) ^ wire::icrc_change(difference, behind));
  return true;
}

bool LinkStateAgent::may_answer(const FiveTuple& flow, Instant now) {
  const std::uint64_t key = flow.hash(config_.switch_id);
  const Slot& data = flows_[key % kFlowSlots];
  if (data.key != key || now - data.at > config_.flow_age_max) {
    ++counters_.unknown_flow;
    return false;
  }
  // Sources that share a slot share the limit: fewer answers, never more.
  const FiveTuple source{.source = flow.source, .destination = {}};
  Slot& last = sources_[source.hash(config_.switch_id) % kSourceSlots];
  if (last.key != 0 && now - last.at < config_.source_interval) {
    ++counters_.limited_source;
    return false;
  }
  if (!tokens_.has_token(now) || feedback_.size() >= kQueueMax) {
    ++counters_.limited;
    return false;
  }
  tokens_.take(now);
  last = {1, now};
  return true;
}

std::optional<DropNotice> LinkStateAgent::poll_feedback() {
  if (feedback_.empty()) return std::nullopt;
  const DropNotice notice = feedback_.front();
  feedback_.pop_front();
  return notice;
}

void LinkStateAgent::sample(std::uint32_t number, const PortFacts& facts, Instant now) {
  Port& port = ports_[number];
  measure(port, facts, now);
  PortState& state = port.state;
  if (!facts.up) state.speed = 0;
  state.up = facts.up;
  state.rate = std::max(facts.rate, facts.can_do);
  average(state, facts.queue, now);
  state.queue = facts.queue;
  state.queue_limit = facts.queue_limit;
  state.drops = facts.drops;
  state.switch_speed = facts.switch_speed;
  state.at = now;
  judge(port);
  report_if_due(number, now);
}

// A port's measured load is its capacity only if it always had something to send. Samples alone do not show that: they
// may hit the bursts of a port that idles in between, again and again.
void LinkStateAgent::measure(Port& port, const PortFacts& facts, Instant now) {
  const std::uint64_t left = facts.taken_bytes - std::min<std::uint64_t>(facts.queue, facts.taken_bytes);
  port.always_waited = port.always_waited && facts.queue != 0 && facts.idle_times == port.window_idle;
  Duration window = config_.sample_interval;
  if (facts.can_do != 0) {
    window =
        std::max(window, Duration::from_ns(static_cast<std::int64_t>(kWindowBytes * 1'000'000'000 / facts.can_do)));
  }
  PortState& state = port.state;
  if (port.window_from && now - *port.window_from < window) {
    // A port with another rate, or with nothing to send, discards its measurement.
    state.speed = port.always_waited ? std::min(state.speed, facts.can_do) : facts.can_do;
    return;
  }
  if (port.window_from) state.load = per_second(left - port.window_left, now - *port.window_from);
  state.speed = port.window_from && port.always_waited ? std::min(state.load, facts.can_do) : facts.can_do;
  port.window_from = now;
  port.window_left = left;
  port.window_idle = facts.idle_times;
  port.always_waited = facts.queue != 0;
}

// Until now the queue had its last sampled length.
void LinkStateAgent::average(PortState& state, std::uint32_t queue, Instant now) const {
  const std::int64_t whole = config_.queue_time.ns(), part = (now - state.at).ns();
  if (part >= whole) {
    state.queue_mean = whole == 0 ? queue : state.queue;
    return;
  }
  const std::int64_t away = std::int64_t{state.queue} - std::int64_t{state.queue_mean};
  std::int64_t step = away * part / whole;
  // reach the end exactly, not only within some bytes
  if (step == 0 && part != 0) step = away > 0 ? 1 : away < 0 ? -1 : 0;
  state.queue_mean = static_cast<std::uint32_t>(std::int64_t{state.queue_mean} + step);
}

void LinkStateAgent::judge(Port& port) {
  PortState& state = port.state;
  const LinkStateLimits& limits = config_.limits;
  const bool bounded = state.rate != 0;
  bool over = state.over_limits;
  if (!state.up || reaches(state.queue_mean, state.queue_limit, limits.queue_high) ||
      (bounded && !reaches(state.speed, state.rate, limits.speed_low))) {
    over = true;
  } else if (!reaches(state.queue_mean, state.queue_limit, limits.queue_low) &&
             (!bounded || reaches(state.speed, state.rate, limits.speed_high))) {
    over = false;
  }
  if (over != state.over_limits) {
    if (port.changed) ++counters_.changes_passed;  // there and back again, unreported
    port.changed = over != port.reported_over;
  }
  state.over_limits = over;
}

void LinkStateAgent::report_if_due(std::uint32_t number, Instant now) {
  Port& port = ports_[number];
  const bool repeat = port.state.over_limits && port.reported_at && now - *port.reported_at >= config_.report_repeat;
  if (!port.changed && !repeat) return;
  if (port.reported_at && now - *port.reported_at < config_.report_interval) return;
  port.changed = false;
  port.reported_over = port.state.over_limits;
  port.reported_at = now;
  if (reports_.size() >= kQueueMax) {
    ++counters_.reports_dropped;
    return;
  }
  ++counters_.reports;
  ActiveFeedback report{.port = number, .state = port.state};
  for (std::size_t i = 0; i < port.flows.size(); ++i) {
    if (port.flows_seen[i] == Instant{} || (now - port.flows_seen[i]).ns() > kFlowRecent) continue;
    report.flows[report.flow_count++] = port.flows[i];
  }
  reports_.push_back(report);
}

// A port that is down, or too slow for good, is sampled again when it may be reported again.
void LinkStateAgent::sampled(Instant now) {
  next_sample_.reset();
  for (const Port& port : ports_) {
    const bool calms = port.state.over_limits && port.state.queue_mean > port.state.queue;
    if (port.changed || calms || port.state.queue != 0 || port.state.load != 0) {
      next_sample_ = now + config_.sample_interval;
      return;
    }
    if (port.state.over_limits) next_sample_ = now + config_.report_repeat;
  }
}

std::optional<ActiveFeedback> LinkStateAgent::poll_report() {
  if (reports_.empty()) return std::nullopt;
  const ActiveFeedback report = reports_.front();
  reports_.pop_front();
  return report;
}

}  // namespace brdma::fabric
