// qp/receive/connection.h - private: what a responder knows of its connection.
#pragma once

#include <cstdint>

namespace brdma::qp {

struct Connection {
  std::uint32_t mtu = 256;
  bool started = false;
  bool halted = false;       // a fatal NAK was made, or the queue pair has ended: no packet is accepted any more
  bool bitmap_seen = false;  // the peer has sent a packet of bitmap mode
  bool established = false;  // IBV_EVENT_COMM_EST was raised, or is not to be

  [[nodiscard]] bool serves() const { return started && !halted; }
  // Packets have come, and acknowledgements of them may leave.
  [[nodiscard]] bool acknowledges() const { return established && !halted; }
};

}  // namespace brdma::qp
