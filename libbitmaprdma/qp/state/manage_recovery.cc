// An operator's view of gaps and limits, and manual retransmissions (spec 1: management): for both receivers of a queue
// pair, of requests and of READ responses, and the sender.
#include <algorithm>

#include "qp/receive/responder_impl.h"
#include "qp/send/requester_impl.h"
#include "qp/state/queue_pair.h"

namespace brdma::qp {
namespace {

using bitmap::GapRecord;
using bitmap::GapState;
using recovery::LossCause;

// `stalls_since`: if the base stands because of it.
OpenGap open_gap(const GapRecord& gap, Psn highest, const std::optional<Instant>& stalls_since, Instant now) {
  return {.start = gap.start,
          .length = gap.length,
          .first_seen = gap.first_seen,
          .promoted = gap.state == GapState::kPromoted,
          .cause = static_cast<LossCause>(gap.cause),
          .path = gap.path,
          .path_known = gap.path_known,
          .depth = static_cast<std::uint32_t>(std::max(distance(highest, gap.start), 0)),
          .stalls = stalls_since.has_value(),
          .stalled = stalls_since ? now - *stalls_since : Duration{},
          .feedbacks = gap.feedbacks,
          .last_feedback = gap.last_feedback};
}

void add(RetransmitRequested& all, const GapRecord& gap) {
  if (all.gaps++ == 0) all.first = gap.start;
  all.packets += gap.length;
}

}  // namespace

std::vector<OpenGap> Responder::open_gaps(Instant now) const {
  Impl& me = *impl_;
  std::vector<OpenGap> open;
  if (!me.out_of_order) return open;
  for (std::size_t i = 0; i < me.out_of_order->gaps.size(); ++i) {
    const GapRecord& gap = me.out_of_order->gaps[i];
    open.push_back(open_gap(gap, me.window.highest(), me.request_gaps().stalls_since(gap), now));
  }
  return open;
}

recovery::GapLimits Responder::limits(Instant now) const {
  const Impl& me = *impl_;
  return me.tolerance.limits_at(me.recovery(), now);
}

std::vector<PathReceived> Responder::receive_paths(Instant now) const {
  const ReceivePaths* const several = impl_->tolerance.paths();
  return several != nullptr ? several->report(now) : std::vector<PathReceived>{};
}

RetransmitRequested Responder::retransmit_gaps(std::optional<Psn> psn, Instant now) {
  Impl& me = *impl_;
  RetransmitRequested asked;
  if (me.connection.halted || !me.out_of_order) return asked;
  const auto named = [&](const GapRecord& gap) { add(asked, gap); };
  me.request_gaps().request_by_hand(psn, now, named);
  return asked;
}

std::vector<OpenGap> Requester::open_gaps(Instant now) const {
  Impl& me = *impl_;
  std::vector<OpenGap> open;
  if (!me.losses.recovery) return open;
  const Psn newest = me.scoreboard.psn_of(me.response_receiver.seen()) - 1;
  for (std::size_t i = 0; i < me.losses.recovery->response_gaps.size(); ++i) {
    const GapRecord& gap = me.losses.recovery->response_gaps[i];
    open.push_back(open_gap(gap, newest, me.response_gaps().stalls_since(gap), now));
    open.back().response = true;
  }
  return open;
}

recovery::GapLimits Requester::limits(Instant now) const { return impl_->response_gaps().limits_at(now); }

std::vector<PathReceived> Requester::receive_paths(Instant now) const {
  const ReceivePaths* const several = impl_->response_receiver.paths();
  return several != nullptr ? several->report(now) : std::vector<PathReceived>{};
}

RetransmitRequested Requester::retransmit(std::optional<Psn> first, std::uint32_t count, Instant now) {
  Impl& me = *impl_;
  Sequence from = me.scoreboard.base(), to = me.scoreboard.next();
  if (first) {
    const auto named = me.scoreboard.sequence_of(*first);
    if (!named || *named >= to) return {};
    from = *named;
    // A standard peer takes packets in order: those behind a missing one are retransmitted as well.
    if (me.id.bitmap_agreed) to = std::min<Sequence>(to, from + count);
  }
  const std::uint32_t packets = me.sent_packets().retransmit_range(from, to, Counter::kRetransmittedRequest, now);
  return {.first = me.scoreboard.psn_of(from), .packets = packets};
}

RetransmitRequested Requester::retransmit_gaps(std::optional<Psn> psn, Instant now) {
  Impl& me = *impl_;
  RetransmitRequested asked;
  const auto named = [&](const GapRecord& gap) { add(asked, gap); };
  const ResponseGaps gaps = me.response_gaps();
  const SentPackets packets = me.sent_packets();
  gaps.request_by_hand(psn, now, named, packets.retransmitting(Counter::kRetransmittedRequest, now));
  gaps.judge(now, now, packets.retransmitting(Counter::kRetransmittedFfm, now));
  return asked;
}

}  // namespace brdma::qp

namespace brdma {

qp::RetransmitRequested QueuePair::retransmit(std::optional<Psn> first, std::uint32_t count, Instant now) {
  count_here();
  return identity_.can_send() && !unreliable_ ? requester_.retransmit(first, count, now) : qp::RetransmitRequested{};
}

qp::RetransmitRequested QueuePair::retransmit_gaps(std::optional<Psn> psn, Instant now) {
  count_here();
  if (!identity_.can_receive() || unreliable_) return {};
  const qp::RetransmitRequested requests = responder_.retransmit_gaps(psn, now);
  const qp::RetransmitRequested responses =
      identity_.can_send() ? requester_.retransmit_gaps(psn, now) : qp::RetransmitRequested{};
  return {.first = requests.gaps != 0 ? requests.first : responses.first,
          .packets = requests.packets + responses.packets,
          .gaps = requests.gaps + responses.gaps};
}

}  // namespace brdma
