// models/tcp/settings.h - the parameters of TCP's model, and their sources.
// No handshake, no receive window, no FIN: a flow begins on an open connection whose RTT is known or not.
#pragma once

#include "models/model.h"
#include "models/parts/rto.h"

namespace brdma::models::tcp {

enum class Congestion : std::uint8_t { kReno, kCubic };

struct Settings {
  Sizes sizes{1460, 70, 70};          // header: Ethernet 18, IPv4 20, TCP 20, timestamps 12
  std::uint32_t initial_window = 10;  // segments (RFC 6928, Linux)
  Congestion congestion = Congestion::kReno;
  bool sack = true;        // scoreboard of RFC 6675; off: NewReno's recovery, RFC 6582
  bool rack_tlp = false;   // RFC 8985; needs sack
  bool edn = false;        // explicit drop notification: resend the named bytes, reduce the window once
  bool edn_paced = false;  // these retransmissions wait for room in the window; off: they leave at once
  bool timestamps = true;  // retransmitted segments give RTT samples too (RFC 7323)
  RtoSettings rto;
  Duration known_rtt;                 // a first RTT sample, as of the handshake; 0: none
  Duration worst_ack_delay = 200_ms;  // WCDelAckT of TLP (RFC 8985 section 7.2)
  std::uint32_t ack_every = 1;        // segments in order; 2: delayed ACKs (RFC 5681 section 4.2)
  Duration ack_delay = 40_ms;         // of a delayed ACK; Linux: 40 to 200 ms
};

}  // namespace brdma::models::tcp
