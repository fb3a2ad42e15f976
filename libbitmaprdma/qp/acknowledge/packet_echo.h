// qp/acknowledge/packet_echo.h - private: whose timestamp and path the next acknowledgement echoes: the newest
// packet's. With several paths (design BR-29) a copy that asked for the acknowledgement keeps its echo: it may be
// a probe of its path, and later packets of a burst, which one acknowledgement covers, must not take it.
#pragma once

#include "base/units.h"
#include "qp/acknowledge/acknowledgement_schedule.h"
#include "qp/gaps/gap_tolerance.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the responder's parts, made where it is needed.
class PacketEcho {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    Acknowledgements& acknowledgements;
  };
  [[gnu::always_inline]] explicit PacketEcho(const Parts& parts) : parts_(parts) {}

  // A packet of bitmap mode, which names its path.
  [[gnu::always_inline]] void on_packet(const wire::Packet& packet, GapTolerance& tolerance, Instant now) const {
    if (parts_.identity.receiving_paths == 1) [[likely]]
      return take(packet, now);
    tolerance.on_path(packet.bxth.path, parts_.env, parts_.identity, parts_.env.arrived_at(now));
    if (parts_.acknowledgements.schedule.pending() && parts_.acknowledgements.echo.kept()) return;
    take(packet, now);
    parts_.acknowledgements.echo.release();
  }
  // A copy, which is to be acknowledged.
  void on_copy(const wire::Packet& copy) const {
    if (parts_.identity.receiving_paths > 1 && copy.bth.ack_request) parts_.acknowledgements.echo.keep();
  }

 private:
  [[gnu::always_inline]] void take(const wire::Packet& packet, Instant now) const {
    parts_.acknowledgements.echo.note(packet.bxth.path, packet.bxth.timestamp, parts_.env.waited, now);
  }

  Parts parts_;
};

}  // namespace brdma::qp
