// An operator's view of gaps and limits, and manual retransmissions (design BR-41): for both receivers of a queue
// pair, of requests and of READ responses, and the sender.
#include <algorithm>

#include "qp/receive/responder_impl.h"
#include "qp/send/requester_impl.h"
#include "qp/state/management.h"

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

RequesterManagement::RequesterManagement(const Requester& requester) : me_(requester.parts()) {}

std::vector<OpenGap> RequesterManagement::open_gaps(Instant now) const {
  std::vector<OpenGap> open;
  if (!me_.losses.recovery) return open;
  const Psn newest = me_.scoreboard.psn_of(me_.response_receiver.seen()) - 1;
  for (std::size_t i = 0; i < me_.losses.recovery->response_gaps.size(); ++i) {
    const GapRecord& gap = me_.losses.recovery->response_gaps[i];
    open.push_back(open_gap(gap, newest, me_.response_gaps().stalls_since(gap), now));
    open.back().response = true;
  }
  return open;
}

recovery::GapLimits RequesterManagement::limits(Instant now) const { return me_.response_gaps().limits_at(now); }

std::vector<PathReceived> RequesterManagement::receive_paths(Instant now) const {
  const ReceivePaths* const several = me_.response_receiver.paths();
  return several != nullptr ? several->report(now) : std::vector<PathReceived>{};
}

RetransmitRequested RequesterManagement::retransmit(std::optional<Psn> first, std::uint32_t count, Instant now) const {
  Sequence from = me_.scoreboard.base(), to = me_.scoreboard.next();
  if (first) {
    const auto named = me_.scoreboard.sequence_of(*first);
    if (!named || *named >= to) return {};
    from = *named;
    // A standard peer takes packets in order: those behind a missing one are retransmitted as well.
    if (me_.id.bitmap_agreed) to = std::min<Sequence>(to, from + count);
  }
  const std::uint32_t packets = me_.sent_packets().retransmit_range(from, to, Counter::kRetransmittedRequest, now);
  return {.first = me_.scoreboard.psn_of(from), .packets = packets};
}

RetransmitRequested RequesterManagement::retransmit_gaps(std::optional<Psn> psn, Instant now) const {
  RetransmitRequested asked;
  const auto named = [&](const GapRecord& gap) { add(asked, gap); };
  const ResponseGaps gaps = me_.response_gaps();
  const SentPackets packets = me_.sent_packets();
  gaps.request_by_hand(psn, now, named, packets.retransmitting(Counter::kRetransmittedRequest, now));
  gaps.judge(now, now, packets.retransmitting(Counter::kRetransmittedFfm, now));
  return asked;
}

std::vector<PathStatus> RequesterManagement::send_paths() const {
  const SendPaths* const several = me_.path.several.get();
  std::vector<PathStatus> statuses(several != nullptr ? several->count() : 1);
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    if (several != nullptr) statuses[i] = several->status(i);
    statuses[i].source_port = me_.env.config.source_ports[i];
  }
  return statuses;
}

void RequesterManagement::recovery_changed() const {
  me_.sending_rate().configure();
  if (me_.losses.recovery) me_.losses.recovery->response_tolerance.configure(tolerance_config(*me_.id.recovery));
  if (ReceivePaths* const several = me_.response_receiver.paths()) several->configure(*me_.id.recovery);
}

void RequesterManagement::set_managed(congestion::ManagedDestination* destination) const {
  if (destination == nullptr && !me_.path.signals) return;
  made(me_.path.signals).managed = destination;
}

void RequesterManagement::follow_irn(const IrnTimeouts& timeouts) const { me_.losses.judge->follow_irn(timeouts); }

}  // namespace brdma::qp

namespace brdma {

void QueuePair::Management::set_recovery(const RecoveryConfig* recovery, Instant now) const {
  pair_.identity_.recovery = recovery;
  if (!pair_.identity_.can_receive() || pair_.unreliable_) return;
  pair_.count_here();
  qp::RequesterManagement{pair_.requester_}.recovery_changed();
  pair_.responder_.recovery_changed(now);
}

void QueuePair::Management::send_final_acks() const {
  if (pair_.identity_.can_receive() && !pair_.unreliable_) pair_.responder_.send_final_acks();
}

qp::RetransmitRequested QueuePair::Management::retransmit(std::optional<Psn> first, std::uint32_t count,
                                                          Instant now) const {
  pair_.count_here();
  return pair_.identity_.can_send() && !pair_.unreliable_
             ? qp::RequesterManagement{pair_.requester_}.retransmit(first, count, now)
             : qp::RetransmitRequested{};
}

qp::RetransmitRequested QueuePair::Management::retransmit_gaps(std::optional<Psn> psn, Instant now) const {
  pair_.count_here();
  if (!pair_.identity_.can_receive() || pair_.unreliable_) return {};
  const qp::RetransmitRequested requests = pair_.responder_.retransmit_gaps(psn, now);
  const qp::RetransmitRequested responses = pair_.identity_.can_send()
                                                ? qp::RequesterManagement{pair_.requester_}.retransmit_gaps(psn, now)
                                                : qp::RetransmitRequested{};
  return {.first = requests.gaps != 0 ? requests.first : responses.first,
          .packets = requests.packets + responses.packets,
          .gaps = requests.gaps + responses.gaps};
}

}  // namespace brdma
