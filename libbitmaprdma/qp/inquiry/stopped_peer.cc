// Queries to a silent peer's host whether the process is only stopped (recovery/stopped_peer.h). A reply restarts the
// retry limit's time (timers/deadlines.h).
#include "wire/stopped_peer.h"

#include <algorithm>
#include <array>

#include "qp/send/requester_impl.h"
#include "qp/state/queue_pair.h"
#include "wire/cm/mad.h"

namespace brdma {
namespace qp {

bool Requester::stopped_query_due() const {
  if (impl_ == nullptr || !impl().path.signals || !impl().path.signals->stopped.has_due()) [[likely]]
    return false;
  const Impl& me = impl();
  return me.id.can_send() && !me.scoreboard.empty() && me.path.signals->stopped.is_due(me.timers.progress());
}

bool Requester::has_stopped_query() const { return impl().path.signals && impl().path.signals->stopped.has_due(); }

std::uint64_t Requester::stopped_queries() const { return impl().path.signals->stopped.queries(); }
void Requester::forget_stopped_query() { impl().path.signals->stopped.forget_due(); }

// The batch goes to QP 1 of the peer's host.
void Requester::add_stopped_query(TransmitBatch& batch, Instant now) {
  constexpr std::int64_t kNsPerMs = 1'000'000;
  Impl& me = *impl_;
  const std::int64_t silent = std::clamp<std::int64_t>((now - me.timers.progress()).ns() / kNsPerMs, 0, 0xFFFF'FFFF);
  const wire::StoppedQuery query{.source_qpn = me.id.qpn,
                                 .peer_qpn = me.id.attributes.destination_qpn,
                                 .nonce = me.path.signals->stopped.asked(me.env.query_nonces.next(), now),
                                 .silent_ms = static_cast<std::uint32_t>(silent)};
  std::array<std::byte, wire::kStoppedQuerySize> body;
  const std::size_t size = wire::emit_stopped_query(query, body.data());
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kStoppedQuery);
  bth.dest_qpn = wire::kGsiQpn;
  batch.add_control(bth, ConstBytes{body.data(), size});
  me.env.count(Counter::kStoppedQueriesSent);
}

void Requester::handle_stopped_reply(const wire::StoppedReply& reply, Instant now) {
  using Verdict = recovery::StoppedPeer::Verdict;
  Impl& me = *impl_;
  if (!me.path.signals || me.scoreboard.empty()) return me.env.count(Counter::kStoppedRepliesIgnored);
  switch (me.path.signals->stopped.replied(reply.nonce, me.timers.progress(), me.deadlines().stopped_limits(), now)) {
    case Verdict::kUnasked:
    case Verdict::kTooLate:
      return me.env.count(Counter::kStoppedRepliesIgnored);
    case Verdict::kFirstTaken:
      me.env.note(now, me.id.qpn, trace::EventType::kPeerStopped, me.scoreboard.base_psn().value());
      break;
    case Verdict::kTaken:
      break;
  }
  me.env.count(Counter::kStoppedReplies);
}

}  // namespace qp

// In a batch of its own, since it goes to another socket of the peer; with several paths by each in turn. False: none
// is due, or the batch has other packets.
bool QueuePair::poll_stopped_query(qp::TransmitBatch& batch, Instant now) {
  if (!requester_.stopped_query_due()) {
    requester_.forget_stopped_query();
    return false;
  }
  if (batch.packets() > 0) return false;
  qp::TransmitBatch::Destination to = destination();
  if (identity_.sending_paths > 1) {
    to.path = static_cast<std::uint8_t>(requester_.stopped_queries() % identity_.sending_paths);
  }
  to.slot = wire::kGsiQpn;
  batch.begin(to);
  requester_.add_stopped_query(batch, now);
  return true;
}

}  // namespace brdma
