// cm/config.h - how the connection manager waits and how much it keeps; and what it counts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace brdma::cm {

struct Config {
  // High 16 bits of each communication and request id: by them, whoever passes MADs on knows whose they are.
  std::uint16_t id_prefix = 0;
  std::uint64_t seed = 1;
  // REQ, REP, DREQ and SIDR_REQ are sent again after resend_first, then after twice as long each time, at most
  // resend_max. With these values a peer that never answers is given up after 7.3 s.
  Duration resend_first = 20_ms, resend_max = 1_s;
  unsigned tries = 12;
  // What a MRA asks the peer for while the application thinks: 4.096 us * 2^n, half a second. Not longer: should the
  // answer that follows be lost, so long it takes until it is said again.
  std::uint8_t service_timeout = 17;
  // How long a connection that has ended is remembered, for late duplicates.
  Duration time_wait = 1_s;
  std::size_t connections_max = 32'768;  // of all states; beyond, requests are refused and connect() fails
};

struct Counters {
  std::uint64_t requests = 0;       // REQ and SIDR_REQ that made an event
  std::uint64_t duplicates = 0;     // messages that had been seen before
  std::uint64_t resent = 0;         // of ours, because no answer came
  std::uint64_t timeouts = 0;       // peers given up
  std::uint64_t half_open = 0;      // of those: REPs of ours that nobody confirmed
  std::uint64_t backlog_full = 0;   // requests refused because the listener had too many
  std::uint64_t unknown = 0;        // about a connection that we don't know
  std::uint64_t wrong_address = 0;  // not from, or not to, whom the message or the connection names
  std::uint64_t unexpected = 0;     // known connection, but not in its state
};

}  // namespace brdma::cm
