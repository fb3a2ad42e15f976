// qp/paths/paths_evidence.cc - a receiver whose peer sends on several paths (spec 1: multipath): evidence of each
// packet about the gaps (qp/paths/paths_receive.h).
#include <algorithm>

#include "qp/receive/responder_impl.h"

namespace brdma::qp {

// A packet that names its path, of a peer whose CAPS announces several. (Else: the global bitmap alone.)
void Responder::Impl::note_path(const wire::Packet& packet, Instant now) {
  if (!paths) {
    paths = std::make_unique<ReceivePaths>(recovery(), identity.receiving_paths, env.segments, env.arrived_at(now));
  }
  paths->on_packet(packet.bxth.path, env.arrived_at(now));
  if (ack.pending() && echo.kept()) return;
  note_echo(packet.bxth.path, packet.bxth.timestamp, now);
  echo.release();
}

// `copy` is to be acknowledged. It may be a probe of its path: later packets of a burst, which one acknowledgement
// covers, must not take its echo.
void Responder::Impl::keep_echo(const wire::Packet& copy) {
  if (identity.receiving_paths > 1 && copy.bth.ack_request) echo.keep();
}

// `packet` came early and is in the gap records.
void Responder::Impl::look_for_path_evidence(const wire::Packet& packet, Instant now) {
  if (!packet.bitmap || out_of_order->gaps.empty()) return;
  const Instant seen = env.arrived_at(now);
  const bool look = gap_rules().note_path_evidence(packet.bxth, packet.bth.psn, seen);
  if (out_of_order->gaps.incomplete()) out_of_order->gaps.refill(window, seen, seen);
  if (look) scan_gaps(now, seen);
}

}  // namespace brdma::qp
