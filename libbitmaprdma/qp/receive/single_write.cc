// qp/receive/single_write.cc - fast path: a WRITE of one packet, in order, while nothing is missing. Most packets are
// of this kind with many queue pairs used in turn, and in ping-pong programs. It does the same as receive_request.cc
// and execute.cc, without checks of other cases; those files take everything else.
#include "qp/queues/notify_write.h"
#include "qp/receive/responder_impl.h"
#include "qp/state/queue_pair.h"

namespace brdma {
namespace {

constexpr std::uint8_t kEcnCongested = 3;  // of the traffic class (RFC 3168)

}  // namespace

namespace qp {

inline std::byte* Responder::Impl::place_of(const wire::SingleWrite& write) const {
  const bool in_turn = started && established && !halted && write.psn == base() && window.empty() &&
                       out_of_order == nullptr && message.kind == Message::Kind::kNone && operations.escape().empty() &&
                       tolerance.paths() == nullptr;
  if (!in_turn || write.payload.size() > mtu || (identity.attributes.access & kAccessRemoteWrite) == 0) return nullptr;
  std::byte* to = nullptr;
  (void)env.memory.resolve(identity.accessor(), write.reth.rkey, write.reth.address, write.reth.length,
                           kAccessRemoteWrite, &to);
  return to;
}

[[gnu::always_inline]] inline void Responder::Impl::take_single(const wire::SingleWrite& write, std::byte* to,
                                                                Outcome& outcome, Instant now) {
  last_call = now;
  bitmap_seen = true;
  note_echo(write.path, write.timestamp, now);
  env.count(Counter::kWriteRequests);
  if (!copy_end_last(to, write.payload)) [[unlikely]]
    return fail(Verdict::kAccessError, write.psn, outcome);
  if (env.memory.watched() != 0) [[unlikely]]
    notify_write(env, write.reth, identity.qpn);
  msn = (msn + 1) & Psn::kMask;
  note_for_acknowledgement(write.ack_request, now);
  base_packet.advance();
  window.advance_over(1);
}

}  // namespace qp

bool QueuePair::take_single_write(const Datagram& datagram, Instant now) {
  if (!takes_single_writes() || datagram.traffic_class % 4 == kEcnCongested || !is_peers(datagram.bytes)) return false;
  const wire::SingleWrite write = wire::parse_single_write(datagram.bytes);
  qp::Responder::Impl& responder = responder_.impl();
  std::byte* const to = responder.place_of(write);
  if (to == nullptr || !wire::icrc_holds(received_flow, datagram.bytes)) return false;
  count_here();
  if (environment_.sink != nullptr) [[unlikely]] {
    const auto bytes = static_cast<std::uint32_t>(write.payload.size());
    environment_.trace(now, identity_.qpn, trace::PacketReceived{wire::SingleWrite::kOpcode, write.psn, bytes});
  }
  const std::uint64_t dropped = environment_.dropped;
  if (write.has_piggyback) process_piggybacked(datagram.bytes, now);
  if (environment_.dropped == dropped) {
    if (identity_.can_receive()) [[likely]] {
      qp::Outcome outcome;
      responder.take_single(write, to, outcome, now);
      carry_out(outcome, now);
    } else {  // a completion of the acknowledgement overran its queue
      environment_.drop(DropReason::kQpState);
    }
  }
  count_judged(dropped);
  return true;
}

}  // namespace brdma
