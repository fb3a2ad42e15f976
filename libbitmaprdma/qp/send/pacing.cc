// Congestion beside the window: waits for its rate, ECN marks and congestion notification
// packets (CNP, IBTA annex A17).
#include "qp/send/pacing.h"

#include <algorithm>

#include "qp/read/response_pacing.h"

namespace brdma::qp {

// Out of line: the fast paths ask this for queue pairs that mostly have no such state, and stay short.
bool CongestionState::is_idle(const WanConfig& config) const {
  return !rate && !spread && !waits && !responses && !cnp_due && managed == nullptr && !stopped.has_due() &&
         (!inquiry || inquiry->is_idle(config));
}

Pace Pacing::pace_of(CongestionState& signals) const {
  return {.rate = rate(),
          .spread = signals.spread ? &*signals.spread : nullptr,
          .managed = signals.managed != nullptr ? &signals.managed->pacer : nullptr};
}

// After output: does more output wait for its rate?
void Pacing::note_paced(bool more, Instant now) const {
  CongestionState& signals = *me_.path.signals;
  const bool waits = more && pace().allowance(now) == 0;
  if (waits && !signals.waits) me_.env.count(Counter::kPaceWaits);
  signals.waits = waits;
  // The waiting output would fit the window: the path is fully used.
  if (waits && signals.spread) me_.admission.note_congestion_limited();
  if (signals.responses) {
    const SendQueue& queue = me_.queue;
    const bool read_next =
        queue.next() != queue.tail() && !me_.fault.is_set() && queue[queue.next()].opcode == WorkOpcode::kRdmaRead;
    ResponsePacing{{me_.env, me_.id, me_.path.rtt, me_.responses.congestion(), *signals.responses}}.note_waiting(
        read_next, now);
  }
}

void Pacing::handle_timeout(Instant now) const {
  if (!me_.path.signals) return;
  CongestionState& signals = *me_.path.signals;
  if (signals.waits && pace().any() && now >= pace().ready_at()) signals.waits = false;
  if (signals.responses && signals.responses->waits && now >= signals.responses->rate.ready_at()) {
    signals.responses->waits = false;
  }
}

std::optional<Instant> Pacing::waits_until() const {
  if (!me_.path.signals) return std::nullopt;
  const CongestionState& signals = *me_.path.signals;
  std::optional<Instant> first;
  if (signals.responses && signals.responses->waits) first = signals.responses->rate.ready_at();
  if (!signals.waits) return first;
  const Pace own = pace();
  if (!own.any()) return first;
  return first ? std::min(*first, own.ready_at()) : own.ready_at();
}

void CongestionMarks::on_cnp(Instant now) const {
  congestion::RateControl* const own = own_rate(me_.path.signals);
  me_.env.count(own != nullptr && own->on_cnp(now) ? Counter::kCnpHandled : Counter::kCnpIgnored);
}

void CongestionMarks::on_marked(Instant now) const {
  me_.env.count(Counter::kMarkedPackets);
  const Duration interval = me_.id.recovery->congestion.cnp_interval;
  if (interval == Duration{}) return;
  CongestionState& signals = made(me_.path.signals);
  signals.cnp_due = signals.cnps.on_marked(now, interval) || signals.cnp_due;
}

void Pacing::on_responses_dropped(std::uint64_t bytes, Instant now) const {
  congestion::RateControl* const own = rate();
  if (own == nullptr || !own->paces_responses() || !own->config().edn) return;
  me_.env.count(Counter::kEdnReductions);
  own->on_drops(bytes, std::max(me_.path.rtt.smoothed(), me_.id.recovery->resend_interval_min), now);
}

// A packet of its own, and a standard one for any peer: routers and NICs know it.
bool CongestionMarks::poll(TransmitBatch& batch) const {
  if (!cnp_due()) [[likely]]
    return false;
  wire::Packet packet;
  packet.bth.opcode = wire::kCnpOpcode;
  packet.bxth.token = me_.id.bitmap_agreed ? me_.id.peer_token : 0;
  packet.bth.becn = true;
  packet.bth.dest_qpn = me_.id.attributes.destination_qpn;
  if (!batch.fits(TransmitBatch::packet_bytes(packet, 0), 0, /*bitmap=*/false)) return false;
  batch.add(packet, {}, 0);
  me_.path.signals->cnp_due = false;
  me_.env.count(Counter::kCnpSent);
  return true;
}

}  // namespace brdma::qp
