// The most common acknowledgement, alone or piggybacked on a WRITE, processed without a wire::BitmapAck in memory. All
// others take the general path (queue_pair.cc, handle_ack.cc).
#include "qp/loss/ack_fast_path.h"

#include "qp/state/queue_pair.h"

namespace brdma {

bool QueuePair::on_cumulative_ack(ConstBytes packet, Instant now) {
  if (!takes_cumulative_acks()) return false;
  const wire::BitmapAck ack = wire::parse_cumulative_ack(packet);
  if (ack.token != identity_.own_token || ack.source_qpn != identity_.attributes.destination_qpn ||
      !wire::icrc_holds(received_flow, packet)) {
    return false;
  }
  count_here();
  if (environment_.telemetry.sink != nullptr) [[unlikely]]
    trace_ack(packet, now);
  qp::Requester::Impl& requester = requester_.impl();
  const qp::CumulativeAck all = qp::CumulativeAck::of(ack);
  if (!requester.cumulative_acks().acknowledges_all(all)) {
    process_general(packet, now);
    return true;
  }
  requester.on_cumulative_ack(all, now);
  carry_out_of(requester, now);
  count_accepted();
  return true;
}

void QueuePair::trace_ack(ConstBytes packet, Instant now) const {
  const wire::BitmapAck ack = wire::parse_cumulative_ack(packet);
  const auto body = static_cast<std::uint32_t>(wire::bitmap_ack_start_size(ack));
  constexpr auto kOpcode = static_cast<std::uint8_t>(wire::Control::kBitmapAck);
  environment_.trace(now, identity_.qpn, trace::PacketReceived{kOpcode, ack.base, body});
}

// It does not acknowledge everything in flight, or needs more than that.
void QueuePair::process_general(ConstBytes packet, Instant now) {
  const std::uint64_t dropped = environment_.telemetry.dropped;
  carry_out(requester_.handle_bitmap_ack(wire::parse_cumulative_ack(packet), received_flow.source_port(), now), now);
  count_judged(dropped);
}

// The piggybacked ACK of a WRITE of one packet.
void QueuePair::process_piggybacked(ConstBytes packet, Instant now) {
  const std::byte* const bxth = packet.data() + wire::kBthSize;
  const wire::Field<wire::kPiggybackSize> bytes{bxth + wire::kBxthSize, wire::kPiggybackSize};
  const qp::CumulativeAck all = qp::CumulativeAck::of(wire::parse_piggyback(bytes));
  qp::Requester::Impl& requester = requester_.impl();
  const bool usual =
      identity_.can_send() && qp::negotiates(identity_) && requester.cumulative_acks().acknowledges_all(all);
  if (!usual) {
    return take_piggyback(wire::parse_bxth(wire::Field<wire::kBxthSize>{bxth, wire::kBxthSize}),
                          wire::parse_piggyback(bytes), now);
  }
  requester.on_cumulative_ack(all, now);
  carry_out_of(requester, now);
}

}  // namespace brdma
