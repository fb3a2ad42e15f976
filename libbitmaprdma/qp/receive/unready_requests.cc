#include "qp/receive/unready_requests.h"

#include <algorithm>

#include "qp/queues/shared_receive_queue.h"
#include "qp/state/limits.h"

namespace brdma::qp {
namespace {

bool takes_receive(const wire::Packet& packet) { return wire::is_send(packet.op) || wire::has_immediate(packet.op); }

}  // namespace

Duration UnreadyRequests::hold() const {
  const RecoveryConfig& recovery = *parts_.identity.recovery;
  if (recovery.mode == RecoveryMode::kGoBackN) return {};
  return parts_.bitmap ? recovery.rnr_hold : std::min(recovery.rnr_hold, kStandardRnrHoldMax);
}

void UnreadyRequests::wait(const wire::Packet& packet, Instant now) const {
  parts_.base_packet.block();
  if (parts_.identity.srq != nullptr) parts_.identity.srq->note_waiting();
  ReceiveWait& wait = parts_.out_of_order->receive_wait;
  if (wait.refused || hold() == Duration{} || !takes_receive(packet)) {
    refuse(packet);
  } else if (!wait.until) {
    wait.until = now + hold();
    parts_.env.count(Counter::kHeldForReceive);
  }
}

bool UnreadyRequests::keep(const wire::Packet& packet, Instant now) const {
  const EarlyRoom room{{parts_.env, parts_.identity, parts_.window, parts_.out_of_order, parts_.mtu}};
  if (parts_.base_packet.is_refused() || hold() == Duration{} || !takes_receive(packet) || room.is_full()) return false;
  room.begin();
  if (!room.has_record(packet) || !parts_.out_of_order->early.hold(parts_.window.base(), packet)) {
    room.end_if_in_order();
    return false;
  }
  parts_.window.receive(packet.bth.psn);
  wait(packet, now);
  return true;
}

void UnreadyRequests::refuse(const wire::Packet& packet) const {
  parts_.base_packet.refuse();
  parts_.env.count(Counter::kSentRnr);
  // One RNR NAK that has not left yet suffices.
  Response nak;
  nak.syndrome = static_cast<std::uint8_t>(wire::kSyndromeRnr | (parts_.identity.attributes.min_rnr_timer & 0x1F));
  nak.bitmap = parts_.bitmap;
  nak.psn = packet.bth.psn;
  nak.msn = parts_.msn;
  if (!parts_.resources.has_nak(nak.psn)) parts_.resources.push(nak);
}

void UnreadyRequests::refuse_held() const {
  if (const auto* const waiting = find_early(parts_.out_of_order.get(), parts_.window.base())) refuse(waiting->packet);
}

void UnreadyRequests::repeat(const wire::Packet& behind) const {
  if (parts_.base_packet.is_blocked() && behind.bitmap && behind.bxth.retransmitted) refuse_held();
}

void UnreadyRequests::on_time(Instant now) const {
  ReceiveWait& wait = parts_.out_of_order->receive_wait;
  if (!wait.until || now < *wait.until) return;
  wait = ReceiveWait{.until = std::nullopt, .refused = true};
  refuse_held();
}

}  // namespace brdma::qp
