#include "qp/read/response_gaps.h"

#include <algorithm>
#include <variant>

#include "recovery/gap_judge.h"
#include "recovery/retransmit_request.h"

namespace brdma::qp {
namespace {

using bitmap::GapRecord;
using bitmap::GapState;

// Repeated READ re-requests: doubling after the third, so that a slow responder is not flooded. Until then losses in a
// row are the likely cause: with 5 % each way one in a thousand is lost three times. Without an RTT sample a long path
// is as likely, and each waits twice as long as the one before.
constexpr Duration kRerequestFirst = 500_us, kRerequestMax = 8_ms;
constexpr unsigned kRerequestsBeforeDoubling = 3;

}  // namespace

GapReceiver ResponseGaps::rules() const {
  LossRecovery& state = parts_.loss.begun(parts_.env.pools.loss_recovery, parts_.id.recovery->window_packets);
  return GapReceiver{{parts_.env, parts_.id, state.response_gaps, state.response_tolerance, parts_.receiver.paths(),
                      parts_.scoreboard.base_psn()}};
}

void ResponseGaps::note_path(const wire::Packet& packet, Instant now) const {
  ReceivePaths& paths = parts_.receiver.paths_begun(parts_.env, parts_.id, now);
  paths.on_packet(packet.bxth.path, now);
  paths.received(packet.bxth.path, parts_.scoreboard.base_psn(), packet.bth.psn, 1);
}

void ResponseGaps::on_response(const wire::Packet& packet, Sequence sequence, Instant sent, Instant now) const {
  const Instant seen = parts_.env.arrived_at(now);
  if (sequence < parts_.receiver.seen()) {
    if (parts_.loss) fill(packet, sequence, now);
  } else {
    open_before(sequence, seen, now);
    parts_.receiver.note_seen(sequence + 1);
  }
  if (!parts_.loss) return;
  parts_.loss->last_response = seen;
  if (parts_.receiver.paths() != nullptr && packet.bitmap) return note_path_evidence(packet, sent, seen);
  note_later(sequence, sent);
}

// The PSNs between the newest response so far and this one are gaps, one a message at most.
void ResponseGaps::open_before(Sequence sequence, Instant seen, Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  const MessageTable& messages = parts_.messages;
  const Sequence from = std::max(parts_.receiver.seen(), board.base());
  for (std::size_t i = messages.find(from); i < messages.size() && messages[i].first <= sequence; ++i) {
    if (!messages[i].answered()) continue;
    const Sequence start = std::max(from, messages[i].first);
    const Sequence end = std::min(messages[i].end(), sequence);
    if (start >= end) continue;
    // Within a message that has begun to come, the next response was due since the one before it.
    const bool expected = start > messages[i].first && parts_.receiver.paths() == nullptr;
    const Instant moved = expected ? std::min(board.base_moved(), seen) : seen;
    rules().open(board.psn_of(start) - 1, board.psn_of(end), 0, seen, moved, now);
  }
}

// A response overtaken by others. Late, not lost, unless it was re-requested. A standard response does not name its
// request: it counts as the second's where there was a second.
void ResponseGaps::fill(const wire::Packet& packet, Sequence sequence, Instant now) const {
  const Psn psn = packet.bth.psn;
  using Copy = LateArrival::Copy;
  const bool again = packet.bitmap ? packet.bxth.retransmitted : parts_.scoreboard.entry(sequence).transmissions > 1;
  const Copy original = packet.bitmap ? Copy::kOriginal : Copy::kUnknown;
  const Psn newest = parts_.scoreboard.psn_of(parts_.receiver.seen() - 1);
  rules().fill({.psn = psn,
                .copy = again ? Copy::kRetransmitted : original,
                .learns = true,
                .path = packet.bxth.path,
                .depth = static_cast<std::uint32_t>(distance(newest, psn)),
                .recovery_time = parts_.rtt.smoothed(),
                .seen = parts_.env.arrived_at(now)},
               now);
}

// Responses come in the order of their requests. If a response requested after a gap's re-request comes first, it is
// evidence against that repetition, as a later packet is against the original.
void ResponseGaps::note_later(Sequence sequence, Instant sent) const {
  const recovery::GapLimits limits = rerequest_limits();
  const Psn psn = parts_.scoreboard.psn_of(sequence);
  bitmap::GapTable& gaps = parts_.loss->response_gaps;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    GapRecord& gap = gaps[i];
    const bool promoted = gap.state == GapState::kPromoted;
    if (promoted ? sent <= gap.last_feedback : distance(psn, gap.start) <= 0) continue;
    ++gap.later_packets;
    const bool much_later = promoted && sent > gap.last_feedback + limits.age_max;
    if (much_later) gap.later_packets += limits.depth_max + 1;
  }
}

// If the peer responds on several paths (design BR-29), evidence is judged as that of requests is
// (qp/paths/paths_receive.h). The peer responds in request order: a response requested after the gap's re-request, on
// the path that the repetition took, is evidence against the repetition. Which path that is we do not know.
void ResponseGaps::note_path_evidence(const wire::Packet& packet, Instant sent, Instant seen) const {
  rules().note_path_evidence(packet.bxth, packet.bth.psn, seen);
  bitmap::GapTable& gaps = parts_.loss->response_gaps;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    GapRecord& gap = gaps[i];
    if (gap.state == GapState::kPromoted && sent > gap.last_feedback)
      gap.later_paths |= static_cast<std::uint16_t>(1u << packet.bxth.path % kPathsMax);
  }
}

// Has the re-requested response been lost again?
bool ResponseGaps::rerequest_lost(const GapRecord& gap, Instant now) const {
  const ReceivePaths* const paths = parts_.receiver.paths();
  if (paths != nullptr && paths->all_among(gap.later_paths, now)) return true;
  return gap.later_packets > rerequest_limits().depth_max;
}

// How far and how long one response of a path overtakes another. Precondition: loss recovery has begun.
recovery::GapLimits ResponseGaps::rerequest_limits() const {
  const recovery::ToleranceConfig config = tolerance_config(*parts_.id.recovery);
  return parts_.receiver.paths() != nullptr ? config.reference : parts_.loss->response_tolerance.limits(config);
}

Duration ResponseGaps::interval(std::uint16_t times) const {
  const recovery::RttEstimator& rtt = parts_.rtt;
  const Duration shortest = parts_.id.recovery->resend_interval_min;
  Duration interval = rtt.has_sample() ? rtt.probe_timeout(shortest * 2) : kRerequestFirst;
  // The awaited response is all that is in flight: no queue is before it, and no later packet will give evidence.
  if (rtt.has_sample() && times <= kRerequestsBeforeDoubling &&
      parts_.loss->response_gaps.missing() >= parts_.awaited.packets())
    interval = std::max({rtt.minimum() * 2, rtt.smoothed(), shortest});
  for (unsigned i = rtt.has_sample() ? kRerequestsBeforeDoubling : 1; i < times && interval < kRerequestMax; ++i)
    interval = interval * 2;
  return std::min(interval, std::max(kRerequestMax, rtt.smoothed() * 2));
}

void ResponseGaps::for_each_missing(const GapRecord& gap, FunctionRef<void(Sequence)> function) const {
  const Scoreboard& board = parts_.scoreboard;
  const Sequence start = board.base() + static_cast<Sequence>(std::max(distance(gap.start, board.base_psn()), 0));
  for (Sequence at = start; at < start + gap.length && at < board.next(); ++at) function(at);
}

// The missing responses of a gap, unless all were requested again recently. Returns when to look again.
Instant ResponseGaps::request(GapRecord& gap, Instant now, Resend resend) const {
  std::optional<Instant> quiet_until;
  bool any = false;
  for_each_missing(gap, [&](Sequence at) {
    const recovery::RequestVerdict found = verdict(at, now);
    if (found == recovery::RequestVerdict::kRecent) quiet_until = parts_.scoreboard.sent_at(at, now) + quiet();
    if (found == recovery::RequestVerdict::kResend) any = resend(at) || any;
  });
  return any || !quiet_until ? note_requested(gap, now) : *quiet_until;
}

void ResponseGaps::judge(Instant now, Instant seen, Resend resend) const {
  if (!parts_.loss) return;
  bitmap::GapTable& gaps = parts_.loss->response_gaps;
  const GapReceiver judge = rules();
  const recovery::GapLimits limits = judge.limits();
  std::optional<Instant>& next = parts_.loss->response_judge_at;
  next.reset();
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    GapRecord& gap = gaps[i];
    Instant again = next_request(gap);
    if (gap.state == GapState::kWaiting) {
      const auto found = judge.judge(gap, gap.later_packets, limits, seen);
      if (const auto* wait = std::get_if<recovery::WaitUntil>(&found)) {
        again = wait->retry_at;
      } else {
        judge.promote(gap, std::get<recovery::Lost>(found).cause, now);
        again = request(gap, now, resend);
      }
    } else if (seen >= again || rerequest_lost(gap, seen)) {
      again = request(gap, now, resend);
    }
    if (!next || again < *next) next = again;
  }
}

void ResponseGaps::request_all(Instant now, Resend resend) const {
  if (!parts_.loss) return;
  bitmap::GapTable& gaps = parts_.loss->response_gaps;
  for (std::size_t i = 0; i < gaps.size(); ++i) request(gaps[i], now, resend);
}

void ResponseGaps::request_by_hand(std::optional<Psn> psn, Instant now, FunctionRef<void(const GapRecord&)> named,
                                   Resend resend) const {
  if (!parts_.loss) return;
  bitmap::GapTable& gaps = parts_.loss->response_gaps;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    GapRecord& gap = gaps[i];
    if (psn && !gap.covers(*psn)) continue;
    named(gap);
    if (gap.state == GapState::kWaiting) rules().promote(gap, recovery::LossCause::kRequested, now);
    for_each_missing(gap, [&](Sequence at) { resend(at); });
    note_requested(gap, now);
  }
}

Instant ResponseGaps::note_requested(GapRecord& gap, Instant now) const {
  gap.state = GapState::kPromoted;
  gap.last_feedback = now;
  gap.later_packets = gap.later_paths = 0;
  if (gap.feedbacks != 0xFFFF) ++gap.feedbacks;
  return next_request(gap);
}

Instant ResponseGaps::next_request(const GapRecord& gap) const {
  return recovery::next_request(gap.last_feedback, gap.feedbacks, interval(gap.feedbacks), parts_.loss->last_response);
}

recovery::RequestVerdict ResponseGaps::verdict(Sequence at, Instant now) const {
  const bitmap::SendEntry& entry = parts_.scoreboard.entry(at);
  const Duration since_sent = now - parts_.scoreboard.sent_at(at, now);
  return recovery::judge_request({entry.state, entry.transmissions > 1, since_sent}, quiet(), false);
}

void ResponseGaps::go_back(Instant now, Resend resend) const {
  const Scoreboard& board = parts_.scoreboard;
  const Sequence missing = first_missing();
  const bitmap::SendEntry& entry = board.entry(missing);
  if (entry.state == bitmap::EntryState::kRetransmitPending) return;
  if (entry.transmissions > 1 && now - board.sent_at(missing, now) < quiet()) return;
  for (std::size_t i = parts_.messages.find(missing); i < parts_.messages.size(); ++i) {
    const Message& message = parts_.messages[i];
    if (!message.answered()) continue;
    const Sequence end = std::min(message.end(), board.next());
    for (Sequence at = std::max(missing, message.first); at < end; ++at) resend(at);
  }
}

Sequence ResponseGaps::first_missing() const {
  const Scoreboard& board = parts_.scoreboard;
  for (std::size_t i = 0; i < parts_.messages.size(); ++i) {
    const Message& message = parts_.messages[i];
    if (!message.answered()) continue;
    const Sequence end = std::min(message.end(), board.next());
    for (Sequence at = std::max(board.base(), message.first); at < end; ++at) {
      if (!board.is_acked(at)) return at;
    }
  }
  return board.next();
}

recovery::GapLimits ResponseGaps::limits_at(Instant now) const {
  const recovery::LearntTolerance nothing_learnt;
  const auto& tolerance = parts_.loss ? parts_.loss->response_tolerance : nothing_learnt;
  return gap_limits_at(parts_.receiver.paths(), tolerance, *parts_.id.recovery, now);
}

}  // namespace brdma::qp
