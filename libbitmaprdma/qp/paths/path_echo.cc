// qp/paths/path_echo.cc - a receiver whose peer sends on several paths (spec 1: multipath): which packet's timestamp
// and path the next acknowledgement echoes.
#include "qp/receive/responder_impl.h"

namespace brdma::qp {

// A packet that names its path, of a peer whose CAPS announces several.
void Responder::Impl::note_path(const wire::Packet& packet, Instant now) {
  tolerance.on_path(packet.bxth.path, env, identity, env.arrived_at(now));
  if (ack.pending() && echo.kept()) return;
  note_echo(packet.bxth.path, packet.bxth.timestamp, now);
  echo.release();
}

// `copy` is to be acknowledged. It may be a probe of its path: later packets of a burst, which one acknowledgement
// covers, must not take its echo.
void Responder::Impl::keep_echo(const wire::Packet& copy) {
  if (identity.receiving_paths > 1 && copy.bth.ack_request) echo.keep();
}

}  // namespace brdma::qp
