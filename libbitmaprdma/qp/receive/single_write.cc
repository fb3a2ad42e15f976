// qp/receive/single_write.cc - fast path of a datagram: a WRITE of one packet (fast_writes.h), parsed in place.
#include "qp/receive/responder_impl.h"
#include "qp/state/reception.h"

namespace brdma {
namespace {

constexpr std::uint8_t kEcnCongested = 3;  // of the traffic class (RFC 3168)

bool takes_single_writes(const qp::Identity& id) {
  return id.type == QpType::kRc && id.can_receive() && id.bitmap_agreed && id.receiving_paths == 1;
}

}  // namespace

bool QueuePair::take_single_write(const Datagram& datagram, Instant now) {
  if (!takes_single_writes(identity_) || datagram.traffic_class % 4 == kEcnCongested ||
      !qp::is_peers(identity_, datagram.bytes)) {
    return false;
  }
  const wire::SingleWrite write = wire::parse_single_write(datagram.bytes);
  qp::Responder::Impl& responder = responder_.impl();
  std::byte* const to = responder.fast_writes().place_of(write);
  if (to == nullptr || !wire::icrc_holds(received_flow, datagram.bytes)) return false;
  count_here();
  if (environment_.telemetry.sink != nullptr) [[unlikely]] {
    const auto bytes = static_cast<std::uint32_t>(write.payload.size());
    environment_.trace(now, identity_.qpn, trace::PacketReceived{wire::SingleWrite::kOpcode, write.psn, bytes});
  }
  const std::uint64_t dropped = environment_.telemetry.dropped;
  if (write.has_piggyback) process_piggybacked(datagram.bytes, now);
  if (environment_.telemetry.dropped == dropped) {
    if (identity_.can_receive()) [[likely]] {
      qp::Outcome outcome;
      responder.last_call = now;
      if (!responder.fast_writes().take(write, to, now)) [[unlikely]]
        responder.fail(qp::Verdict::kAccessError, write.psn, outcome);
      carry_out(outcome, now);
    } else {  // a completion of the acknowledgement overran its queue
      environment_.drop(DropReason::kQpState);
    }
  }
  count_judged(dropped);
  return true;
}

}  // namespace brdma
