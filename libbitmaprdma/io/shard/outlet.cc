#include "io/shard/outlet.h"

namespace brdma::io {

SendReport Outlet::send_with_xdp(const Transmit& transmit) {
  SendReport report;
  if ((waits_ || goes_by_xdp(transmit)) && send_by_xdp(transmit, report)) return report;
  const std::uint32_t refused_by_xdp = report.refused;
  report = sockets_[transmit.path].send(transmit);
  report.refused += refused_by_xdp;
  return report;
}

bool Outlet::send_by_xdp(const Transmit& transmit, SendReport& report) {
  using Outcome = XdpTransmit::Report::Outcome;
  const NextHop* const hop = xdp_->neighbours.find(transmit.source, transmit.destination, monotonic_now());
  // A batch already in the ring needs no next hop: give_up() leaves it there.
  if (hop == nullptr) {
    const bool in_ring = std::exchange(waits_, false) && xdp_->transmit.give_up(transmit) == 0;
    if (!in_ring) xdp_->unresolved += transmit.segments;
    return in_ring;
  }
  const XdpTransmit::Way way{.hop = hop,
                             .source_port = sockets_[transmit.path].port(),
                             .destination_port = sockets_[transmit.path].destination_port(),
                             .ids_count = xdp_->ids_count};
  const XdpTransmit::Report sent = xdp_->transmit.send(transmit, way);
  report.refused = sent.refused;
  report.fault = sent.outcome == Outcome::kFault;
  report.unsent = report.fault ? transmit.segments : std::uint16_t{0};
  report.blocked = waits_ = sent.outcome == Outcome::kWaits;
  return sent.outcome != Outcome::kUseUdp;
}

}  // namespace brdma::io
