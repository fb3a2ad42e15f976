// qp/take_whole_write.cc - a WRITE of one packet that comes in its turn while nothing is missing: what most packets are
// where many queue pairs are used in turn, and where programs answer each other. What receive_request.cc and execute.cc
// would do with it, without a look at all else that a packet may be; they have it where something is not as usual.
#include "qp/queue_pair.h"
#include "qp/responder_impl.h"
#include "qp/tell_write.h"

namespace brdma {
namespace qp {

std::byte* Responder::Impl::place_of(const wire::WholeWrite& write) const {
  const bool in_turn = started && established && !halted && write.psn == base() && window.empty() &&
                       disorder == nullptr && message.kind == Message::Kind::kNone && escape->empty() && !paths;
  if (!in_turn || write.payload.size() > mtu || (identity.attributes.access & kAccessRemoteWrite) == 0) return nullptr;
  std::byte* to = nullptr;
  (void)env.memory.resolve(identity.accessor(), write.reth.rkey, write.reth.address, write.reth.length,
                           kAccessRemoteWrite, &to);
  return to;
}

void Responder::Impl::take_whole(const wire::WholeWrite& write, std::byte* to, Instant now) {
  last_call = now;
  bitmap_seen = true;
  note_echo(write.path, write.timestamp, now);
  env.count(Counter::kWriteRequests);
  copy_end_last(to, write.payload);
  if (env.memory.watched() != 0) [[unlikely]]
    tell_write(env, write.reth, identity.qpn);
  msn = (msn + 1) & Psn::kMask;
  note_for_acknowledgement(write.ack_request, now);
  sequence_nak_sent = rnr_wait = false;
  window.advance_over(1);
}

std::byte* Responder::place_of(const wire::WholeWrite& write) const { return impl_->place_of(write); }
void Responder::take_whole(const wire::WholeWrite& write, std::byte* to, Instant now) {
  impl_->take_whole(write, to, now);
}

}  // namespace qp

void QueuePair::take_whole(const wire::WholeWrite& write, std::byte* to, ConstBytes packet, Instant now) {
  count_here();
  if (environment_.sink != nullptr) [[unlikely]] {
    const auto bytes = static_cast<std::uint32_t>(write.payload.size());
    environment_.trace(now, identity_.qpn, trace::PacketReceived{wire::WholeWrite::kOpcode, write.psn, bytes});
  }
  const std::uint64_t dropped = environment_.dropped;
  if (write.has_piggyback) {
    const std::byte* const bxth = packet.data() + wire::kBthSize;
    take_piggyback(
        wire::parse_bxth(wire::Field<wire::kBxthSize>{bxth, wire::kBxthSize}),
        wire::parse_piggyback(wire::Field<wire::kPiggybackSize>{bxth + wire::kBxthSize, wire::kPiggybackSize}), now);
  }
  if (environment_.dropped == dropped) {
    if (identity_.can_receive()) [[likely]] {
      responder_.take_whole(write, to, now);
      carry_out({}, now);
    } else {  // what the acknowledgement completed overran its queue
      environment_.drop(DropReason::kQpState);
    }
  }
  count_judged(dropped);
}

}  // namespace brdma
