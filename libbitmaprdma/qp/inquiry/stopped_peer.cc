// Queries to a silent peer's host whether the process is only stopped (recovery/stopped_peer.h). A reply restarts the
// retry limit's time (timers/deadlines.h).
#include <algorithm>
#include <array>

#include "qp/inquiry/stopped_queries.h"
#include "wire/cm/mad.h"

namespace brdma::qp {

void StoppedQueries::add(TransmitBatch& batch, Instant now) const {
  constexpr std::int64_t kNsPerMs = 1'000'000;
  me_.apply_pending();
  const std::int64_t silent = std::clamp<std::int64_t>((now - me_.timers.progress()).ns() / kNsPerMs, 0, 0xFFFF'FFFF);
  const wire::StoppedQuery query{.source_qpn = me_.id.qpn,
                                 .peer_qpn = me_.id.attributes.destination_qpn,
                                 .nonce = me_.path.signals->stopped.asked(me_.env.nonces.queries.next(), now),
                                 .silent_ms = static_cast<std::uint32_t>(silent)};
  std::array<std::byte, wire::kStoppedQuerySize> body;
  const std::size_t size = wire::emit_stopped_query(query, body.data());
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kStoppedQuery);
  bth.dest_qpn = wire::kGsiQpn;
  batch.add_control(bth, ConstBytes{body.data(), size});
  me_.env.count(Counter::kStoppedQueriesSent);
}

void StoppedQueries::on_reply(const wire::StoppedReply& reply, Instant now) const {
  using Verdict = recovery::StoppedPeer::Verdict;
  me_.apply_pending();
  if (!me_.path.signals || me_.scoreboard.empty()) return me_.env.count(Counter::kStoppedRepliesIgnored);
  switch (
      me_.path.signals->stopped.replied(reply.nonce, me_.timers.progress(), me_.deadlines().stopped_limits(), now)) {
    case Verdict::kUnasked:
    case Verdict::kTooLate:
      return me_.env.count(Counter::kStoppedRepliesIgnored);
    case Verdict::kFirstTaken:
      me_.env.note(now, me_.id.qpn, trace::EventType::kPeerStopped, me_.scoreboard.base_psn().value());
      break;
    case Verdict::kTaken:
      break;
  }
  me_.env.count(Counter::kStoppedReplies);
}

}  // namespace brdma::qp
