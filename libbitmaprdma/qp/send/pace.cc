// Congestion beside the window: waits for its rate, ECN marks and congestion notification
// packets (CNP, IBTA annex A17).
#include <algorithm>

#include "qp/read/response_pacing.h"
#include "qp/send/requester_impl.h"
#include "qp/state/queue_pair.h"

namespace brdma {
namespace {

constexpr std::uint8_t kEcnMask = 3, kEct0 = 2, kEct1 = 1;  // of the traffic class (RFC 3168)

}  // namespace

namespace qp {

// Out of line: the fast paths ask this for queue pairs that mostly have no such state, and stay short.
bool CongestionState::is_idle(const WanConfig& config) const {
  return !rate && !spread && !waits && !responses && !cnp_due && managed == nullptr && !stopped.has_due() &&
         (!inquiry || inquiry->is_idle(config));
}

congestion::RateControl* Requester::rate() const {
  return impl_ != nullptr && impl_->path.signals && impl_->path.signals->rate ? &*impl_->path.signals->rate : nullptr;
}

Pace Requester::pace() const {
  if (impl_ == nullptr || !impl_->path.signals) [[likely]]
    return {};
  CongestionState& signals = *impl_->path.signals;
  return {.rate = rate(),
          .spread = signals.spread ? &*signals.spread : nullptr,
          .managed = signals.managed != nullptr ? &signals.managed->pacer : nullptr};
}

// After output: does more output wait for its rate?
void Requester::note_paced(bool more, Instant now) {
  CongestionState& signals = *impl_->path.signals;
  const bool waits = more && pace().allowance(now) == 0;
  if (waits && !signals.waits) impl_->env.count(Counter::kPaceWaits);
  signals.waits = waits;
  // The waiting output would fit the window: the path is fully used.
  if (waits && signals.spread) impl_->admission.note_congestion_limited();
  if (signals.responses) {
    const SendQueue& queue = impl_->queue;
    const bool read_next =
        queue.next() != queue.tail() && !impl_->fault.is_set() && queue[queue.next()].opcode == WorkOpcode::kRdmaRead;
    const Impl& me = *impl_;
    ResponsePacing{{me.env, me.id, me.path.rtt, me.responses.congestion(), *signals.responses}}.note_waiting(read_next,
                                                                                                             now);
  }
}

// Waiting output is tried again.
void Requester::end_pace_wait(Instant now) {
  if (!impl_->path.signals) return;
  CongestionState& signals = *impl_->path.signals;
  if (signals.waits && pace().any() && now >= pace().ready_at()) signals.waits = false;
  if (signals.responses && signals.responses->waits && now >= signals.responses->rate.ready_at()) {
    signals.responses->waits = false;
  }
}

std::optional<Instant> Requester::paced_until() const {
  if (!impl_->path.signals) return std::nullopt;
  const CongestionState& signals = *impl_->path.signals;
  std::optional<Instant> first;
  if (signals.responses && signals.responses->waits) first = signals.responses->rate.ready_at();
  if (!signals.waits) return first;
  const Pace own = pace();
  if (!own.any()) return first;
  return first ? std::min(*first, own.ready_at()) : own.ready_at();
}

bool Requester::has_unpaced_output(Instant now) const { return impl_->has_output(now); }

void Requester::handle_cnp(Instant now) {
  congestion::RateControl* const own = rate();
  impl_->env.count(own != nullptr && own->on_cnp(now) ? Counter::kCnpHandled : Counter::kCnpIgnored);
}

void Requester::note_marked(Instant now) {
  impl_->env.count(Counter::kMarkedPackets);
  const Duration interval = impl_->id.recovery->congestion.cnp_interval;
  if (interval == Duration{}) return;
  CongestionState& signals = made(impl_->path.signals);
  signals.cnp_due = signals.cnps.on_marked(now, interval) || signals.cnp_due;
}

void Requester::note_responses_dropped(std::uint64_t bytes, Instant now) {
  congestion::RateControl* const own = rate();
  if (own == nullptr || !own->paces_responses() || !own->config().edn) return;
  impl_->env.count(Counter::kEdnReductions);
  own->on_drops(bytes, std::max(impl_->path.rtt.smoothed(), impl_->id.recovery->resend_interval_min), now);
}

bool Requester::cnp_due() const { return impl_->path.signals && impl_->path.signals->cnp_due; }

// A packet of its own, and a standard one for any peer: routers and NICs know it.
bool Requester::poll_cnp(TransmitBatch& batch) {
  if (!cnp_due()) [[likely]]
    return false;
  wire::Packet packet;
  packet.bth.opcode = wire::kCnpOpcode;
  packet.bxth.token = impl_->id.bitmap_agreed ? impl_->id.peer_token : 0;
  packet.bth.becn = true;
  packet.bth.dest_qpn = impl_->id.attributes.destination_qpn;
  if (!batch.fits(TransmitBatch::packet_bytes(packet, 0), 0, /*bitmap=*/false)) return false;
  batch.add(packet, {}, 0);
  impl_->path.signals->cnp_due = false;
  impl_->env.count(Counter::kCnpSent);
  return true;
}

}  // namespace qp

void QueuePair::handle_cnp(Instant now) {
  if (!identity_.can_send()) return environment_.drop(DropReason::kQpState);
  requester_.handle_cnp(now);
}

// For packets that carry or request data.
void QueuePair::note_marked(const wire::Packet& packet, Instant now) {
  if (packet.control || packet.op == wire::RcOp::kAcknowledge) return;
  requester_.note_marked(now);
}

std::uint8_t QueuePair::marked_traffic_class() const {
  const CongestionConfig& config = identity_.recovery->congestion;
  const auto with = [this](std::uint8_t ecn) {
    return static_cast<std::uint8_t>((identity_.attributes.traffic_class & ~kEcnMask) | ecn);
  };
  switch (config.ecn) {
    case EcnField::kAuto:
      break;
    case EcnField::kOff:
      return with(0);
    case EcnField::kEct0:
      return with(kEct0);
    case EcnField::kEct1:
      return with(kEct1);
  }
  return takes_marks() ? with(kEct0) : identity_.attributes.traffic_class;
}

}  // namespace brdma
